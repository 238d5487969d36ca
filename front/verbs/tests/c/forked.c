/* A listener that was created before fork: in the child, its calls fail, and the channel serves new
 * ids. The parent's listener is not disturbed. */
#include "check.h"
#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/wait.h>
#include <unistd.h>

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static struct rdma_cm_id *listening(struct rdma_event_channel *events)
{
    struct rdma_cm_id *id;
    struct sockaddr_in any = loopback(0);
    CHECK(!rdma_create_id(events, &id, NULL, RDMA_PS_TCP));
    CHECK(!rdma_bind_addr(id, (struct sockaddr *)&any) && !rdma_listen(id, 1));
    return id;
}

static void expect(struct rdma_event_channel *events, enum rdma_cm_event_type kind)
{
    struct rdma_cm_event *event;
    CHECK(!rdma_get_cm_event(events, &event));
    CHECK(event->event == kind);
    CHECK(!rdma_ack_cm_event(event));
}

static int is_readable(struct rdma_event_channel *events, int timeout_ms)
{
    struct pollfd descriptor = {.fd = events->fd, .events = POLLIN};
    return poll(&descriptor, 1, timeout_ms) == 1;
}

/* Requests a connection to the listener, which receives the request. */
static void reach(struct rdma_cm_id *listener)
{
    struct sockaddr_in to = loopback(rdma_get_src_port(listener));
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_id *id;
    struct rdma_conn_param parameters = {.qp_num = 7};
    CHECK(events && !rdma_create_id(events, &id, NULL, RDMA_PS_TCP));
    CHECK(!rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000));
    expect(events, RDMA_CM_EVENT_ADDR_RESOLVED);
    CHECK(!rdma_resolve_route(id, 1000));
    expect(events, RDMA_CM_EVENT_ROUTE_RESOLVED);
    CHECK(!rdma_connect(id, &parameters));
    expect(listener->channel, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void child(struct rdma_cm_id *listener, struct rdma_cm_id *connecting)
{
    struct rdma_event_channel *events = listener->channel;
    struct rdma_cm_event *event;
    alarm(60);
    CHECK(is_readable(events, 10000));
    for (int turn = 0; turn < 2; turn++)
        CHECK(rdma_get_cm_event(events, &event) == -1 && errno == ENODEV);
    struct rdma_conn_param parameters = {.qp_num = 7};
    CHECK(rdma_connect(connecting, &parameters) == -1 && errno == ENODEV);
    CHECK(!rdma_destroy_id(listener));
    struct rdma_cm_id *own = listening(events);
    CHECK(!is_readable(events, 0));
    reach(own);
    exit(0);
}

int main(void)
{
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_event_channel *others = rdma_create_event_channel();
    alarm(60);
    CHECK(events && others);
    struct rdma_cm_id *listener = listening(events), *connecting;
    struct sockaddr_in to = loopback(rdma_get_src_port(listener));
    CHECK(!rdma_create_id(others, &connecting, NULL, RDMA_PS_TCP));
    CHECK(!rdma_resolve_addr(connecting, NULL, (struct sockaddr *)&to, 1000));
    expect(others, RDMA_CM_EVENT_ADDR_RESOLVED);
    pid_t process = fork();
    if (process == 0)
        child(listener, connecting);
    int status;
    CHECK(waitpid(process, &status, 0) == process && WIFEXITED(status) && !WEXITSTATUS(status));
    CHECK(!is_readable(events, 0));
    reach(listener);
    puts("all fine");
    return 0;
}
