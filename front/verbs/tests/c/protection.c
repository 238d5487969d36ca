/* A receive that names memory which is not registered is taken by a shared receive queue, as by
 * adapters, and reported with a protection error when a message is to use it. */
#include "check.h"
#include <time.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static unsigned char memory[256];

static struct ibv_qp *make(struct ibv_srq *srq)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .srq = srq,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
        .sq_sig_all = 1};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(qp);
    return qp;
}

/* The next completion of a receive; those of sends may be of either status. */
static struct ibv_wc next_receive(void)
{
    struct ibv_wc wc;
    time_t end = time(NULL) + 60;
    do {
        while (ibv_poll_cq(cq, 1, &wc) == 0)
            CHECK(time(NULL) < end);
    } while (wc.wr_id >= 100);
    return wc;
}

static void receive(struct ibv_srq *srq, uint64_t id, void *to, uint32_t key)
{
    struct ibv_sge sge = {(uintptr_t)to, 128, key};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
}

static void send(struct ibv_qp *qp, uint64_t id)
{
    struct ibv_sge sge = {(uintptr_t)memory, 50, mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = id, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;
    CHECK(!ibv_post_send(qp, &wr, &bad));
}

int main(void)
{
    context = open_first();
    CHECK((pd = ibv_alloc_pd(context)));
    CHECK((cq = ibv_create_cq(context, 16, NULL, NULL, 0)));
    CHECK((mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE)));
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    CHECK(srq);
    struct ibv_qp *sender = make(NULL), *taker = make(srq);
    join_pairs(context, sender, taker);
    join_pairs(context, taker, sender);

    /* No memory, and the key of none; then one that is right. */
    receive(srq, 1, memory + 128, mr->lkey);
    receive(srq, 2, NULL, 0);
    receive(srq, 3, memory + 128, mr->lkey);
    memset(memory, 7, 50);
    send(sender, 100);
    struct ibv_wc wc = next_receive();
    CHECK(wc.wr_id == 1 && wc.status == IBV_WC_SUCCESS && wc.byte_len == 50);
    CHECK(!memcmp(memory + 128, memory, 50));
    send(sender, 101);
    wc = next_receive();
    CHECK(wc.wr_id == 2 && wc.status == IBV_WC_LOC_PROT_ERR && wc.qp_num == taker->qp_num);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr with;
    CHECK(!ibv_query_qp(taker, &attr, IBV_QP_STATE, &with) && attr.qp_state == IBV_QPS_ERR);

    /* Another queue pair takes the one behind it. */
    struct ibv_qp *second = make(NULL), *heir = make(srq);
    join_pairs(context, second, heir);
    join_pairs(context, heir, second);
    memset(memory + 128, 0, 128);
    send(second, 102);
    wc = next_receive();
    CHECK(wc.wr_id == 3 && wc.status == IBV_WC_SUCCESS && wc.qp_num == heir->qp_num);
    CHECK(!memcmp(memory + 128, memory, 50));
    puts("all fine");
    return 0;
}
