/* A request holds its place in its queue until its completion is polled, so that the completion
 * queues of a program that counts never run over. */
#include "check.h"
#include <fcntl.h>
#include <time.h>
#include <unistd.h>

enum { DEPTH = 16 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq_ex *sends;
static struct ibv_cq *receives;
static struct ibv_mr *mr;
static struct ibv_qp *from, *to;
static unsigned char memory[4096];

/* As adapters, the library rounds the depth of a send queue up. */
static void demand_room_for_the_next_send(struct ibv_qp_init_attr_ex init)
{
    init.cap.max_send_wr = 1;
    struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
    CHECK(qp && init.cap.max_send_wr >= 8 && !ibv_destroy_qp(qp));
}

static struct ibv_qp *make(void)
{
    struct ibv_qp_init_attr_ex init = {
        .send_cq = ibv_cq_ex_to_cq(sends),
        .recv_cq = receives,
        .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
    };
    demand_room_for_the_next_send(init);
    struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
    CHECK(qp && init.cap.max_send_wr == DEPTH && init.cap.max_recv_wr == DEPTH);
    return qp;
}

static void restart(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    CHECK(!ibv_modify_qp(from, &attr, IBV_QP_STATE) && !ibv_modify_qp(to, &attr, IBV_QP_STATE));
    join_pairs(context, from, to);
    join_pairs(context, to, from);
}

static int post(enum ibv_wr_opcode opcode, uint64_t id, int flags, uint32_t rkey)
{
    struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = opcode,
                             .send_flags = flags}, *bad = NULL;
    wr.wr.rdma.remote_addr = (uintptr_t)memory + 2048;
    wr.wr.rdma.rkey = rkey;
    int status = ibv_post_send(from, &wr, &bad);
    CHECK(!status || bad == &wr);
    return status;
}

static int write_(uint64_t id, int flags)
{
    return post(IBV_WR_RDMA_WRITE, id, flags, mr->rkey);
}

static int receive(uint64_t id)
{
    struct ibv_sge sge = {(uintptr_t)memory + 3072, 8, mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
    int status = ibv_post_recv(to, &wr, &bad);
    CHECK(!status || bad == &wr);
    return status;
}

static void expect(struct ibv_cq *cq, uint64_t id, enum ibv_wc_status status)
{
    struct ibv_wc wc;
    time_t end = time(NULL) + 60;
    while (ibv_poll_cq(cq, 1, &wc) == 0)
        CHECK(time(NULL) < end);
    if (wc.wr_id != id || wc.status != status)
        fprintf(stderr, "completion %ju, status %d\n", (uintmax_t)wc.wr_id, wc.status);
    CHECK(wc.wr_id == id && wc.status == status);
}

static void finished(uint64_t id)
{
    expect(ibv_cq_ex_to_cq(sends), id, IBV_WC_SUCCESS);
}

/* All execute; nobody polls. */
static void signaled(void)
{
    for (int id = 0; id < DEPTH; id++) {
        CHECK(write_(100 + id, IBV_SEND_SIGNALED) == 0);
        usleep(1000);
    }
    for (int tries = 0; tries < 100; tries++) {
        REFUSED(write_(1, IBV_SEND_SIGNALED), ENOMEM);
        usleep(1000);
    }
    finished(100);
    CHECK(write_(100 + DEPTH, IBV_SEND_SIGNALED) == 0);
    REFUSED(write_(1, IBV_SEND_SIGNALED), ENOMEM);
    for (int id = 1; id <= DEPTH; id++)
        finished(100 + id);
}

/* The completion of a signaled request frees those before it, too. */
static void unsignaled(void)
{
    for (int round = 0; round < 20; round++) {
        for (int id = 1; id < DEPTH; id++)
            CHECK(write_(id, 0) == 0);
        CHECK(write_(200 + round, IBV_SEND_SIGNALED) == 0);
        REFUSED(write_(1, IBV_SEND_SIGNALED), ENOMEM);
        finished(200 + round);
    }
    for (int id = 0; id < DEPTH; id++)
        CHECK(write_(id, 0) == 0);
    usleep(50000);
    REFUSED(write_(1, IBV_SEND_SIGNALED), ENOMEM);
    restart();
    CHECK(write_(300, IBV_SEND_SIGNALED) == 0);
    finished(300);
}

/* The first failure is of an unsignaled request; all that follow it are reported, too. */
static void failing(void)
{
    for (int id = 0; id < DEPTH; id++)
        CHECK(post(IBV_WR_RDMA_WRITE, 400 + id, 0, id == 4 ? mr->rkey ^ 1 : mr->rkey) == 0);
    for (int id = 4; id < DEPTH; id++)
        expect(ibv_cq_ex_to_cq(sends), 400 + id,
               id == 4 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
    for (int id = 0; id < DEPTH; id++)
        CHECK(write_(500 + id, 0) == 0);
    REFUSED(write_(1, 0), ENOMEM);
    for (int id = 0; id < DEPTH; id++)
        expect(ibv_cq_ex_to_cq(sends), 500 + id, IBV_WC_WR_FLUSH_ERR);
    restart();
}

static int built(int requests)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(from);
    ibv_wr_start(qp);
    for (int id = 0; id < requests; id++) {
        qp->wr_id = 600 + id;
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory + 2048);
        ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, 8);
    }
    return ibv_wr_complete(qp);
}

/* Requests built call by call, and an extended completion queue. */
static void extended(void)
{
    REFUSED(built(DEPTH + 1), ENOMEM);
    CHECK(built(DEPTH) == 0);
    REFUSED(built(1), ENOMEM);
    struct ibv_poll_cq_attr none = {.comp_mask = 0};
    time_t end = time(NULL) + 60;
    for (int id = 0; id < DEPTH; id++) {
        while (ibv_start_poll(sends, &none) == ENOENT)
            CHECK(time(NULL) < end);
        CHECK(sends->wr_id == 600U + id && sends->status == IBV_WC_SUCCESS);
        ibv_end_poll(sends);
        REFUSED(built(id + 2), ENOMEM);
    }
    CHECK(built(1) == 0);
    finished(600);
}

/* The second request is invalid, so the first is not posted either. */
static void whole(void)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(from);
    ibv_wr_start(qp);
    for (int id = 0; id < 2; id++) {
        qp->wr_id = 900 + id;
        qp->wr_flags = IBV_SEND_SIGNALED;
        ibv_wr_rdma_write(qp, mr->rkey, (uintptr_t)memory + 2048);
        ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)memory, id ? 0xf0000000 : 8);
    }
    REFUSED(ibv_wr_complete(qp), EINVAL);
    CHECK(write_(910, IBV_SEND_SIGNALED) == 0);
    finished(910);
}

/* As when it is created, a queue that is made smaller has room for 16 completions. */
static void resized(void)
{
    CHECK(ibv_resize_cq(ibv_cq_ex_to_cq(sends), 1) == 0);
    signaled();
}

static void receiving(void)
{
    for (int id = 0; id < DEPTH; id++)
        CHECK(receive(700 + id) == 0);
    REFUSED(receive(1), ENOMEM);
    for (int id = 0; id < DEPTH; id++) {
        CHECK(post(IBV_WR_SEND, 800 + id, IBV_SEND_SIGNALED, 0) == 0);
        finished(800 + id);
    }
    REFUSED(receive(1), ENOMEM);
    expect(receives, 700, IBV_WC_SUCCESS);
    CHECK(receive(700 + DEPTH) == 0);
    REFUSED(receive(1), ENOMEM);
    restart();
    for (int id = 0; id < DEPTH; id++)
        CHECK(receive(id) == 0);
    REFUSED(receive(1), ENOMEM);
}

int main(void)
{
    context = open_first();
    CHECK((pd = ibv_alloc_pd(context)));
    CHECK((mr = ibv_reg_mr(pd, memory, sizeof memory,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
    struct ibv_cq_init_attr_ex init = {.cqe = DEPTH};
    CHECK((sends = ibv_create_cq_ex(context, &init)));
    CHECK((receives = ibv_create_cq(context, DEPTH, NULL, NULL, 0)));
    CHECK((from = make()) && (to = make()));
    join_pairs(context, from, to);
    join_pairs(context, to, from);
    signaled();
    unsignaled();
    failing();
    extended();
    whole();
    resized();
    receiving();
    struct ibv_async_event event;
    CHECK(fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
    while (ibv_get_async_event(context, &event) == 0) {
        CHECK(event.event_type != IBV_EVENT_CQ_ERR);
        ibv_ack_async_event(&event);
    }
    CHECK(!ibv_destroy_qp(from) && !ibv_destroy_qp(to) && !ibv_dereg_mr(mr));
    CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(sends)) && !ibv_destroy_cq(receives));
    CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
    puts("all fine");
    return 0;
}
