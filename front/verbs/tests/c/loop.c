/* Two queue pairs of one process talk to each other: the calls that the usual programs do not
 * make, with every byte compared. */
#include "check.h"
#include <time.h>

#define SIZE 4096

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *mr;
static unsigned char memory[4 * SIZE];
static union ibv_gid gid;

static const uint64_t OPERATIONS =
    IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
    IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
    IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV;

static struct ibv_qp *make(enum ibv_qp_type type, struct ibv_srq *srq, struct ibv_cq *with)
{
    struct ibv_qp_init_attr_ex init = {
        .send_cq = with,
        .recv_cq = with,
        .srq = srq,
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 4, .max_recv_sge = 4,
                .max_inline_data = 128},
        .qp_type = type,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .send_ops_flags = OPERATIONS,
    };
    struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
    CHECK(qp && ibv_qp_to_qp_ex(qp));
    int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = access, .qkey = 77};
    CHECK(!ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                             (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)));
    return qp;
}

static struct ibv_ah_attr address(void)
{
    return (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = gid}};
}

static void join(struct ibv_qp *from, struct ibv_qp *to)
{
    int ud = from->qp_type == IBV_QPT_UD;
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = to->qp_num,
        .rq_psn = 5, .max_dest_rd_atomic = 4, .min_rnr_timer = 1, .ah_attr = address()};
    CHECK(!ibv_modify_qp(from, &attr,
                         ud ? IBV_QP_STATE
                            : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                  IBV_QP_MIN_RNR_TIMER));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 5, .timeout = 14,
                                .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 4};
    CHECK(!ibv_modify_qp(from, &attr,
                         ud ? IBV_QP_STATE | IBV_QP_SQ_PSN
                            : IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                  IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
}

static struct ibv_wc next(void)
{
    struct ibv_wc wc;
    time_t end = time(NULL) + 60;
    while (ibv_poll_cq(cq, 1, &wc) == 0)
        CHECK(time(NULL) < end);
    return wc;
}

/* The completion of a send and that of a receive, in whatever order. */
static struct ibv_wc next_receive(uint64_t sent)
{
    struct ibv_wc one = next(), two = next();
    struct ibv_wc *send = one.opcode & IBV_WC_RECV ? &two : &one;
    CHECK(send->status == IBV_WC_SUCCESS && send->wr_id == sent);
    return one.opcode & IBV_WC_RECV ? one : two;
}

static void fill(unsigned seed)
{
    for (size_t at = 0; at < sizeof memory; at++)
        memory[at] = (unsigned char)((at * 131 + seed) >> (at & 3));
}

static void receive(struct ibv_qp *qp, uint64_t id, void *to, uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)to, length, mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;
    CHECK(!ibv_post_recv(qp, &wr, &bad));
}

static void begin(struct ibv_qp_ex *qp, uint64_t id)
{
    ibv_wr_start(qp);
    qp->wr_id = id;
    qp->wr_flags = IBV_SEND_SIGNALED;
}

/* ibv_wr_*: every operation of a reliable connection. */
static void extended(struct ibv_qp *qp, struct ibv_qp *peer)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
    unsigned char *from = memory, *to = memory + 2 * SIZE;
    fill(1);
    begin(ex, 1);
    ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)to);
    struct ibv_sge parts[3] = {{(uintptr_t)from, 1000, mr->lkey},
                               {(uintptr_t)from + 2000, 1, mr->lkey},
                               {(uintptr_t)from + 3000, 999, mr->lkey}};
    ibv_wr_set_sge_list(ex, 3, parts);
    CHECK(ibv_wr_complete(ex) == 0);
    struct ibv_wc wc = next();
    CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_WRITE && wc.wr_id == 1);
    CHECK(!memcmp(to, from, 1000) && to[1000] == from[2000] && !memcmp(to + 1001, from + 3000, 999));

    receive(peer, 20, to, SIZE);
    begin(ex, 2);
    ibv_wr_rdma_write_imm(ex, mr->rkey, (uintptr_t)to + 8, htobe32(0x12345678));
    ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)from, 100);
    CHECK(ibv_wr_complete(ex) == 0);
    wc = next_receive(2);
    CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.wr_id == 20 && wc.byte_len == 100);
    CHECK(wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == htobe32(0x12345678));
    CHECK(!memcmp(to + 8, from, 100));

    receive(peer, 30, to, SIZE);
    begin(ex, 3);
    ibv_wr_send_imm(ex, htobe32(99));
    struct ibv_data_buf inlined[2] = {{"Fairway ", 8}, {"inline", 6}};
    ibv_wr_set_inline_data_list(ex, 2, inlined);
    CHECK(ibv_wr_complete(ex) == 0);
    wc = next_receive(3);
    CHECK(wc.byte_len == 14 && wc.imm_data == htobe32(99) && !memcmp(to, "Fairway inline", 14));

    receive(peer, 40, to, SIZE);
    begin(ex, 4);
    ibv_wr_send_inv(ex, 0xabcdef);
    CHECK(ibv_wr_complete(ex) == 0);
    wc = next_receive(4);
    CHECK(wc.wc_flags & IBV_WC_WITH_INV && wc.invalidated_rkey == 0xabcdef && wc.byte_len == 0);

    begin(ex, 5);
    ibv_wr_rdma_read(ex, mr->rkey, (uintptr_t)from + 10);
    ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)to + 100, 3000);
    CHECK(ibv_wr_complete(ex) == 0);
    wc = next();
    CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_READ);
    CHECK(!memcmp(to + 100, from + 10, 3000));

    uint64_t *word = (uint64_t *)to, *old = (uint64_t *)from;
    *word = 41;
    begin(ex, 6);
    ibv_wr_atomic_fetch_add(ex, mr->rkey, (uintptr_t)word, 1);
    ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)old, 8);
    ex->wr_id = 7;
    ibv_wr_atomic_cmp_swp(ex, mr->rkey, (uintptr_t)word, 42, 7);
    ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)(old + 1), 8);
    CHECK(ibv_wr_complete(ex) == 0);
    CHECK(next().wr_id == 6);
    wc = next();
    CHECK(wc.wr_id == 7 && wc.opcode == IBV_WC_COMP_SWAP && wc.byte_len == 8);
    CHECK(old[0] == 41 && old[1] == 42 && *word == 7);

    /* Nothing of what is broken off, or went wrong on the way, is posted. */
    begin(ex, 8);
    ibv_wr_send(ex);
    ibv_wr_abort(ex);
    begin(ex, 9);
    ibv_wr_local_inv(ex, 1);
    REFUSED(ibv_wr_complete(ex), EOPNOTSUPP);
    CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
}

/* Inline data is copied: the buffer is the program's again at once, round after round. */
static void inlined(struct ibv_qp *qp, struct ibv_qp *peer)
{
    unsigned char local[100], *to = memory + 2 * SIZE;
    struct ibv_sge sge = {(uintptr_t)local, sizeof local, 0};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_INLINE}, *bad;
    for (unsigned round = 0; round < 100; round++) {
        for (unsigned i = 0; i < 4; i++)
            receive(peer, i, to + i * 128, 128);
        for (unsigned i = 0; i < 4; i++) {
            memset(local, (int)(round * 4 + i), sizeof local);
            wr.send_flags = IBV_SEND_INLINE | (i == 3 ? IBV_SEND_SIGNALED : 0);
            wr.wr_id = 1000;
            CHECK(!ibv_post_send(qp, &wr, &bad));
        }
        for (unsigned i = 0; i < 5; i++)
            CHECK(next().status == IBV_WC_SUCCESS);
        for (unsigned i = 0; i < 4; i++)
            CHECK(to[i * 128] == (unsigned char)(round * 4 + i) &&
                  !memcmp(to + i * 128, to + i * 128 + 1, 99));
    }
    sge.length = 129;
    REFUSED(ibv_post_send(qp, &wr, &bad), EINVAL);
    CHECK(bad == &wr);
}

/* ibv_cq_ex, completion events. */
static void one_by_one(void)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq_init_attr_ex init = {
        .cqe = 32, .cq_context = memory, .channel = channel,
        .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
    struct ibv_cq_ex *ex = ibv_create_cq_ex(context, &init);
    CHECK(channel && ex);
    struct ibv_cq *base = ibv_cq_ex_to_cq(ex), *found;
    struct ibv_qp *one = make(IBV_QPT_RC, NULL, base), *two = make(IBV_QPT_RC, NULL, base);
    join(one, two);
    join(two, one);
    CHECK(!ibv_req_notify_cq(base, 0));
    receive(two, 50, memory + 2 * SIZE, SIZE);
    struct ibv_sge sge = {(uintptr_t)memory, 64, mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 51, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED}, *bad;
    CHECK(!ibv_post_send(one, &wr, &bad));
    void *user;
    CHECK(!ibv_get_cq_event(channel, &found, &user) && found == base && user == memory);
    CHECK(base->comp_events_completed == 0);
    ibv_ack_cq_events(base, 1);
    CHECK(base->comp_events_completed == 1);
    struct ibv_poll_cq_attr attr = {0};
    int sends = 0, receives = 0;
    time_t end = time(NULL) + 60;
    while (sends + receives < 2) {
        CHECK(time(NULL) < end);
        if (ibv_start_poll(ex, &attr) == ENOENT)
            continue;
        do {
            CHECK(ex->status == IBV_WC_SUCCESS && ibv_wc_read_completion_ts(ex) > 0);
            if (ibv_wc_read_opcode(ex) & IBV_WC_RECV) {
                receives++;
                CHECK(ex->wr_id == 50 && ibv_wc_read_byte_len(ex) == 64);
                CHECK(ibv_wc_read_qp_num(ex) == two->qp_num);
            } else {
                sends++;
                CHECK(ex->wr_id == 51);
            }
        } while (ibv_next_poll(ex) == 0);
        ibv_end_poll(ex);
    }
    CHECK(!ibv_destroy_qp(one) && !ibv_destroy_qp(two) && !ibv_destroy_cq(base));
    CHECK(!ibv_destroy_comp_channel(channel));
}

/* Datagrams, and an answer to where one came from. */
static void datagrams(void)
{
    struct ibv_qp *one = make(IBV_QPT_UD, NULL, cq), *two = make(IBV_QPT_UD, NULL, cq);
    join(one, two);
    join(two, one);
    struct ibv_ah_attr there = address();
    struct ibv_ah *ah = ibv_create_ah(pd, &there);
    CHECK(ah);
    unsigned char *to = memory + 2 * SIZE;
    fill(9);
    receive(two, 60, to, SIZE);
    struct ibv_sge sge = {(uintptr_t)memory, 500, mr->lkey};
    struct ibv_send_wr wr = {.wr_id = 61, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED,
                             .wr.ud = {ah, two->qp_num, 77}}, *bad;
    CHECK(!ibv_post_send(one, &wr, &bad));
    struct ibv_wc wc = next_receive(61);
    CHECK(wc.byte_len == 540 && wc.wc_flags & IBV_WC_GRH && wc.src_qp == one->qp_num);
    CHECK(!memcmp(to + 40, memory, 500));
    struct ibv_ah *back = ibv_create_ah_from_wc(pd, &wc, (struct ibv_grh *)to, 1);
    CHECK(back);
    receive(one, 62, to, SIZE);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(two);
    begin(ex, 63);
    ibv_wr_send_imm(ex, htobe32(5));
    ibv_wr_set_ud_addr(ex, back, wc.src_qp, 77);
    ibv_wr_set_inline_data(ex, "pong", 4);
    CHECK(ibv_wr_complete(ex) == 0);
    wc = next_receive(63);
    CHECK(wc.byte_len == 44 && wc.imm_data == htobe32(5) && !memcmp(to + 40, "pong", 4));
    wr.opcode = IBV_WR_RDMA_WRITE;
    REFUSED(ibv_post_send(one, &wr, &bad), EINVAL);
    CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_ah(back));
    CHECK(!ibv_destroy_qp(one) && !ibv_destroy_qp(two));
}

/* A shared receive queue and its limit. */
static void shared(void)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    CHECK(srq);
    struct ibv_qp *one = make(IBV_QPT_RC, NULL, cq), *two = make(IBV_QPT_RC, srq, cq);
    join(one, two);
    join(two, one);
    struct ibv_sge sge = {(uintptr_t)memory + 2 * SIZE, 64, mr->lkey};
    struct ibv_recv_wr receives[2] = {{.wr_id = 70, .next = &receives[1], .sg_list = &sge,
                                       .num_sge = 1},
                                      {.wr_id = 71, .sg_list = &sge, .num_sge = 1}}, *bad_receive;
    CHECK(!ibv_post_srq_recv(srq, receives, &bad_receive));
    REFUSED(ibv_post_recv(two, receives, &bad_receive), EINVAL);
    struct ibv_srq_attr limit = {.srq_limit = 2};
    CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT));
    struct ibv_send_wr wr = {.wr_id = 72, .opcode = IBV_WR_SEND,
                             .send_flags = IBV_SEND_SIGNALED}, *bad;
    CHECK(!ibv_post_send(one, &wr, &bad));
    CHECK(next_receive(72).wr_id == 70);
    struct ibv_async_event event;
    do {
        CHECK(!ibv_get_async_event(context, &event));
        ibv_ack_async_event(&event);
    } while (event.event_type != IBV_EVENT_SRQ_LIMIT_REACHED);
    CHECK(event.element.srq == srq && srq->events_completed == 1);
    CHECK(!ibv_query_srq(srq, &limit) && limit.srq_limit == 0);
    REFUSED(ibv_destroy_srq(srq), EBUSY);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    CHECK(!ibv_modify_qp(two, &attr, IBV_QP_STATE));
    do {
        CHECK(!ibv_get_async_event(context, &event));
        ibv_ack_async_event(&event);
    } while (event.event_type != IBV_EVENT_QP_LAST_WQE_REACHED);
    CHECK(event.element.qp == two && two->events_completed > 0);
    CHECK(!ibv_destroy_qp(one) && !ibv_destroy_qp(two) && !ibv_destroy_srq(srq));
}

/* Keys that open nothing: errors where they belong, and no byte changed. */
static void refusals(void)
{
    for (int remote = 0; remote < 2; remote++) {
        struct ibv_qp *one = make(IBV_QPT_RC, NULL, cq), *two = make(IBV_QPT_RC, NULL, cq);
        join(one, two);
        join(two, one);
        fill(3);
        unsigned char before[SIZE];
        memcpy(before, memory + 2 * SIZE, SIZE);
        struct ibv_sge sge = {(uintptr_t)memory, 64, remote ? mr->lkey : 0xdead};
        struct ibv_send_wr wr = {.wr_id = 80, .sg_list = &sge, .num_sge = 1,
                                 .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
                                 .wr.rdma = {(uintptr_t)memory + 2 * SIZE,
                                             remote ? mr->rkey + 0x123456 : mr->rkey}}, *bad;
        CHECK(!ibv_post_send(one, &wr, &bad));
        struct ibv_wc wc = next();
        CHECK(wc.wr_id == 80);
        CHECK(wc.status == (remote ? IBV_WC_REM_ACCESS_ERR : IBV_WC_LOC_PROT_ERR));
        CHECK(!memcmp(before, memory + 2 * SIZE, SIZE));
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        // A program that asks for something else keeps the state that it knows.
        CHECK(!ibv_query_qp(one, &attr, IBV_QP_AV | IBV_QP_DEST_QPN, &init));
        CHECK(attr.dest_qp_num == two->qp_num && one->state == IBV_QPS_RTS);
        CHECK(!ibv_query_qp(one, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR);
        CHECK(one->state == IBV_QPS_ERR);
        CHECK(!ibv_destroy_qp(one) && !ibv_destroy_qp(two));
    }
}

int main(void)
{
    context = open_first();
    CHECK((pd = ibv_alloc_pd(context)) && (cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
    CHECK((mr = ibv_reg_mr(pd, memory, sizeof memory,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                               IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)));
    CHECK(!ibv_query_gid(context, 1, 0, &gid));
    struct ibv_qp *one = make(IBV_QPT_RC, NULL, cq), *two = make(IBV_QPT_RC, NULL, cq);
    join(one, two);
    join(two, one);
    extended(one, two);
    inlined(one, two);
    CHECK(!ibv_destroy_qp(one) && !ibv_destroy_qp(two));
    one_by_one();
    datagrams();
    shared();
    refusals();
    CHECK(!ibv_destroy_cq(cq) && !ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
    CHECK(!ibv_close_device(context));
    puts("all fine");
    return 0;
}
