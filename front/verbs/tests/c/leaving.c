/* A program that posts and polls without end, until a signal ends it: by its handler, which calls
 * exit() as PSM's does, or by what the system does by default.
 *
 *   leaving plain                   two queue pairs of this process, no connection manager
 *   leaving both PORT               a listener and a client of this process
 *   leaving server PORT             waits for clients
 *   leaving client PORT             connects to 127.0.0.1
 *
 * With a last argument "exit" the handler of SIGTERM calls exit(7). Prints "ready" when it polls, and
 * "gone" when a peer has disconnected. The system ends it after four minutes. */
#include "check.h"
#include <arpa/inet.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <unistd.h>

#define SIZE 4096
#define SLOTS 8
#define ENDS 16

/* One end of a connection. */
struct end {
    struct rdma_cm_id *id; /* none without the connection manager */
    struct ibv_qp *qp;
    struct ibv_cq *cq;
    uint64_t address; /* of the peer's memory */
    uint32_t rkey;
    int is_connected, is_broken, under_way;
};

/* What each side sends to the other. */
struct greeting {
    uint64_t address;
    uint32_t rkey;
} __attribute__((packed));

static struct end ends[ENDS];
static struct ibv_pd *pd;
static struct ibv_mr *mr;
static unsigned char memory[2 * SIZE * SLOTS];
static struct rdma_event_channel *events;

static void on_term(int signal)
{
    (void)signal;
    exit(7);
}

static void say(const char *line)
{
    ssize_t length = (ssize_t)strlen(line);
    CHECK(write(1, line, length) == length);
}

static struct greeting greeting(void)
{
    return (struct greeting){(uintptr_t)memory + SIZE * SLOTS, mr->rkey};
}

static void receive(struct end *end)
{
    struct ibv_sge sge = {(uintptr_t)memory, SIZE, mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    if (ibv_post_recv(end->qp, &wr, &bad))
        end->is_broken = 1;
}

static void prepare(struct end *end, struct ibv_context *context)
{
    if (!pd) {
        CHECK((pd = ibv_alloc_pd(context)));
        CHECK((mr = ibv_reg_mr(pd, memory, sizeof memory,
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
    }
    CHECK((end->cq = ibv_create_cq(context, 4 * SLOTS, NULL, NULL, 0)));
}

static struct ibv_qp_init_attr attributes(struct end *end)
{
    return (struct ibv_qp_init_attr){
        .send_cq = end->cq,
        .recv_cq = end->cq,
        .cap = {.max_send_wr = SLOTS, .max_recv_wr = SLOTS, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1,
    };
}

/* Takes one end of a connection into use: its queue pair is ready to receive. */
static struct end *begin(struct rdma_cm_id *id)
{
    for (struct end *end = ends; end < ends + ENDS; end++) {
        if (end->qp)
            continue;
        *end = (struct end){.id = id};
        prepare(end, id->verbs);
        struct ibv_qp_init_attr init = attributes(end);
        CHECK(!rdma_create_qp(id, pd, &init));
        end->qp = id->qp;
        for (int at = 0; at < SLOTS; at++)
            receive(end);
        return end;
    }
    return NULL;
}

static struct end *of(struct rdma_cm_id *id)
{
    for (struct end *end = ends; end < ends + ENDS; end++)
        if (end->qp && end->id == id)
            return end;
    return NULL;
}

static void take_greeting(struct end *end, const struct rdma_conn_param *from)
{
    struct greeting theirs;
    if (from->private_data_len < sizeof theirs)
        return;
    memcpy(&theirs, from->private_data, sizeof theirs);
    end->address = theirs.address;
    end->rkey = theirs.rkey;
}

static struct rdma_conn_param parameters(const struct greeting *ours)
{
    return (struct rdma_conn_param){.private_data = ours, .private_data_len = sizeof *ours,
                                    .retry_count = 7, .rnr_retry_count = 7};
}

static void connect_to(struct rdma_cm_id *id)
{
    CHECK(begin(id));
    struct greeting ours = greeting();
    struct rdma_conn_param param = parameters(&ours);
    CHECK(!rdma_connect(id, &param));
}

static void welcome(struct rdma_cm_id *id, const struct rdma_conn_param *asked)
{
    struct end *end = begin(id);
    if (!end)
        return;
    take_greeting(end, asked);
    struct greeting ours = greeting();
    struct rdma_conn_param param = parameters(&ours);
    /* The client may be gone already. */
    if (rdma_accept(id, &param))
        end->is_broken = 1;
}

static void over(struct rdma_cm_id *id)
{
    struct end *end = of(id);
    if (end) {
        rdma_destroy_qp(id);
        ibv_destroy_cq(end->cq);
        end->qp = NULL;
    }
    rdma_destroy_id(id);
}

/* Deals with one event, if there is one. */
static void handle_event(void)
{
    struct rdma_cm_event *event;
    if (rdma_get_cm_event(events, &event))
        return;
    struct rdma_cm_id *id = event->id;
    struct rdma_cm_event copy = *event;
    unsigned char private[256];
    if (copy.event == RDMA_CM_EVENT_CONNECT_REQUEST || copy.event == RDMA_CM_EVENT_ESTABLISHED) {
        memcpy(private, copy.param.conn.private_data, copy.param.conn.private_data_len);
        copy.param.conn.private_data = private;
    }
    rdma_ack_cm_event(event);
    switch (copy.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
        CHECK(!rdma_resolve_route(id, 1000));
        break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
        connect_to(id);
        break;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        welcome(id, &copy.param.conn);
        break;
    case RDMA_CM_EVENT_ESTABLISHED: {
        struct end *end = of(id);
        CHECK(end);
        if (!end->rkey)
            take_greeting(end, &copy.param.conn);
        end->is_connected = 1;
        break;
    }
    case RDMA_CM_EVENT_DISCONNECTED:
        say("gone\n");
        over(id);
        break;
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_UNREACHABLE:
        over(id);
        break;
    default:
        break;
    }
}

static struct rdma_cm_id *make_id(void)
{
    struct rdma_cm_id *id;
    CHECK(!rdma_create_id(events, &id, NULL, RDMA_PS_TCP));
    return id;
}

static struct sockaddr_in at(int port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port),
                                .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static void serve(int port)
{
    struct rdma_cm_id *id = make_id();
    struct sockaddr_in here = at(port);
    CHECK(!rdma_bind_addr(id, (struct sockaddr *)&here));
    CHECK(!rdma_listen(id, 16));
}

static void seek(int port)
{
    struct sockaddr_in there = at(port);
    CHECK(!rdma_resolve_addr(make_id(), NULL, (struct sockaddr *)&there, 1000));
}

/* Without the connection manager: two queue pairs of this process. */
static void join(struct end *from, struct end *to, union ibv_gid gid)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
                               .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    CHECK(!ibv_modify_qp(from->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                              IBV_QP_ACCESS_FLAGS));
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = to->qp->qp_num,
        .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid}}};
    CHECK(!ibv_modify_qp(from->qp, &attr,
                         IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    for (int at = 0; at < SLOTS; at++)
        receive(from);
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7,
                                .rnr_retry = 7};
    CHECK(!ibv_modify_qp(from->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                                              IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                                              IBV_QP_MAX_QP_RD_ATOMIC));
    from->address = greeting().address;
    from->rkey = greeting().rkey;
    from->is_connected = 1;
}

static void plain(void)
{
    struct ibv_device **devices = ibv_get_device_list(NULL);
    CHECK(devices && devices[0]);
    struct ibv_context *context = ibv_open_device(devices[0]);
    CHECK(context);
    ibv_free_device_list(devices);
    union ibv_gid gid;
    CHECK(!ibv_query_gid(context, 1, 0, &gid));
    for (struct end *end = ends; end < ends + 2; end++) {
        prepare(end, context);
        struct ibv_qp_init_attr init = attributes(end);
        CHECK((end->qp = ibv_create_qp(pd, &init)));
    }
    join(ends, ends + 1, gid);
    join(ends + 1, ends, gid);
}

static void post(struct end *end)
{
    struct ibv_sge sge = {(uintptr_t)memory + end->under_way * SIZE, 1 + rand() % SIZE, mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    wr.opcode = rand() % 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE;
    wr.wr.rdma.remote_addr = end->address;
    wr.wr.rdma.rkey = end->rkey;
    if (ibv_post_send(end->qp, &wr, &bad))
        end->is_broken = 1;
    else
        end->under_way++;
}

static void advance(struct end *end)
{
    struct ibv_wc wc[4];
    int count = ibv_poll_cq(end->cq, 4, wc);
    for (int at = 0; at < count; at++) {
        if (wc[at].status)
            end->is_broken = 1;
        else if (wc[at].opcode & IBV_WC_RECV)
            receive(end);
        else
            end->under_way--;
    }
    while (end->is_connected && !end->is_broken && end->under_way < SLOTS - 1)
        post(end);
}

static int connected(void)
{
    int count = 0;
    for (int at = 0; at < ENDS; at++)
        count += ends[at].qp && ends[at].is_connected;
    return count;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    int port = argc > 2 ? atoi(argv[2]) : 0;
    if (!strcmp(argv[argc - 1], "exit"))
        signal(SIGTERM, on_term);
    srand((unsigned)getpid());
    alarm(240);
    int awaited = 0;
    if (!strcmp(mode, "plain")) {
        plain();
    } else {
        CHECK((events = rdma_create_event_channel()));
        CHECK(!fcntl(events->fd, F_SETFL, O_NONBLOCK));
        if (strcmp(mode, "client"))
            serve(port);
        if (strcmp(mode, "server"))
            seek(port);
        awaited = !strcmp(mode, "both") ? 2 : !strcmp(mode, "client");
    }
    for (unsigned turn = 0, is_ready = 0;; turn++) {
        for (struct end *end = ends; end < ends + ENDS; end++)
            if (end->qp)
                advance(end);
        /* What the allocator is at when the signal comes is left so. */
        free(malloc(1 + rand() % 300000));
        if (events && (!is_ready || turn % 16 == 0))
            handle_event();
        if (!is_ready && connected() >= awaited) {
            is_ready = 1;
            say("ready\n");
        }
    }
}
