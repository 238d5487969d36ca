/* Listens, and receives no request before a datagram arrives at the UDP port of the same number. Then
 * prints the peer's address of each request, and answers none. Ends with the first request whose
 * private data begins with "last".
 *
 *   requests ADDRESS PORT BACKLOG */
#include "check.h"
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

int main(int count, char **arguments)
{
    CHECK(count == 4);
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(atoi(arguments[2]))};
    CHECK(inet_pton(AF_INET, arguments[1], &own.sin_addr) == 1);
    struct rdma_event_channel *events;
    struct rdma_cm_id *listener;
    CHECK((events = rdma_create_event_channel()));
    CHECK(!rdma_create_id(events, &listener, NULL, RDMA_PS_TCP));
    CHECK(!rdma_bind_addr(listener, (struct sockaddr *)&own));
    int begin = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(begin >= 0 && !bind(begin, (struct sockaddr *)&own, sizeof own));
    CHECK(!rdma_listen(listener, atoi(arguments[3])));
    alarm(60);
    CHECK(recv(begin, &own, sizeof own, 0) >= 0);
    for (int is_last = 0; !is_last;) {
        struct rdma_cm_event *event;
        CHECK(!rdma_get_cm_event(events, &event));
        CHECK(event->event == RDMA_CM_EVENT_CONNECT_REQUEST);
        struct sockaddr_in *peer = (struct sockaddr_in *)rdma_get_peer_addr(event->id);
        CHECK(peer->sin_family == AF_INET);
        char text[INET_ADDRSTRLEN];
        CHECK(inet_ntop(AF_INET, &peer->sin_addr, text, sizeof text));
        printf("%s\n", text);
        is_last = !memcmp(event->param.conn.private_data, "last", 4);
        CHECK(!rdma_ack_cm_event(event));
    }
    return 0;
}
