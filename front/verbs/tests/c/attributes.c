/* Attributes that change while a queue pair is ready take effect, or are refused. */
#include "check.h"
#include <time.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *sends, *receives;
static struct ibv_mr *mr;
static unsigned char memory[4096];

static struct ibv_qp *make(enum ibv_qp_type type)
{
    struct ibv_qp_init_attr init = {
        .send_cq = sends,
        .recv_cq = receives,
        .cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = type,
        .sq_sig_all = 1,
    };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(qp);
    return qp;
}

static struct ibv_wc next(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    time_t end = time(NULL) + 60;
    while (ibv_poll_cq(cq, 1, &wc) == 0)
        CHECK(time(NULL) < end);
    return wc;
}

static int post(struct ibv_qp *qp, struct ibv_send_wr wr)
{
    struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
    struct ibv_send_wr *bad;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return ibv_post_send(qp, &wr, &bad);
}

static void write_(struct ibv_qp *qp)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};
    wr.wr.rdma.remote_addr = (uintptr_t)memory + 2048;
    wr.wr.rdma.rkey = mr->rkey;
    CHECK(!post(qp, wr));
}

/* `join_pairs` grants WRITEs. */
static void access_flags(void)
{
    struct ibv_qp *from = make(IBV_QPT_RC), *to = make(IBV_QPT_RC);
    join_pairs(context, from, to);
    join_pairs(context, to, from);
    write_(from);
    CHECK(next(sends).status == IBV_WC_SUCCESS);
    struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_REMOTE_READ};
    CHECK(!ibv_modify_qp(to, &attr, IBV_QP_ACCESS_FLAGS));
    write_(from);
    enum ibv_wc_status status = next(sends).status;
    CHECK(status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR);
    CHECK(!ibv_destroy_qp(from) && !ibv_destroy_qp(to));
}

static void drained(void)
{
    struct ibv_qp *from = make(IBV_QPT_RC), *to = make(IBV_QPT_RC);
    join_pairs(context, from, to);
    join_pairs(context, to, from);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD}, now;
    struct ibv_qp_init_attr init;
    write_(from);
    CHECK(next(sends).status == IBV_WC_SUCCESS);
    /* There is no receive for it yet. */
    CHECK(!post(from, (struct ibv_send_wr){.opcode = IBV_WR_SEND}));
    CHECK(!ibv_modify_qp(from, &attr, IBV_QP_STATE));
    CHECK(!ibv_query_qp(from, &now, IBV_QP_STATE, &init));
    CHECK(now.qp_state == IBV_QPS_SQD && now.sq_draining);
    struct ibv_sge sge = {(uintptr_t)memory + 1024, 64, mr->lkey};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
    CHECK(!ibv_post_recv(to, &wr, &bad));
    CHECK(next(sends).status == IBV_WC_SUCCESS && next(receives).status == IBV_WC_SUCCESS);
    time_t end = time(NULL) + 60;
    do {
        CHECK(time(NULL) < end);
        CHECK(!ibv_query_qp(from, &now, IBV_QP_STATE, &init));
    } while (now.sq_draining);
    CHECK(!ibv_query_qp(from, &now, IBV_QP_AV, &init));
    /* The same address is no change. */
    CHECK(!ibv_modify_qp(from, &now, IBV_QP_AV | IBV_QP_MAX_DEST_RD_ATOMIC));
    attr = now;
    attr.ah_attr.grh.dgid.raw[15] ^= 2;
    REFUSED(ibv_modify_qp(from, &attr, IBV_QP_AV), EINVAL);
    attr.max_dest_rd_atomic = now.max_dest_rd_atomic + 1;
    REFUSED(ibv_modify_qp(from, &attr, IBV_QP_MAX_DEST_RD_ATOMIC), EINVAL);
    /* A message without a receive is not tried for ever any more. */
    attr.rnr_retry = 0;
    attr.timeout = 10;
    attr.retry_cnt = 1;
    CHECK(!ibv_modify_qp(from, &attr, IBV_QP_RNR_RETRY | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT));
    CHECK(!ibv_query_qp(from, &now, IBV_QP_RNR_RETRY, &init));
    CHECK(now.rnr_retry == 0 && now.timeout == 10 && now.retry_cnt == 1);
    attr.qp_state = IBV_QPS_RTS;
    CHECK(!ibv_modify_qp(from, &attr, IBV_QP_STATE));
    CHECK(!post(from, (struct ibv_send_wr){.opcode = IBV_WR_SEND}));
    CHECK(next(sends).status == IBV_WC_RNR_RETRY_EXC_ERR);
    CHECK(!ibv_destroy_qp(from) && !ibv_destroy_qp(to));
}

static struct ibv_qp *datagrams(void)
{
    struct ibv_qp *qp = make(IBV_QPT_UD);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 0x1111};
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
    attr.qp_state = IBV_QPS_RTR;
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    attr.qp_state = IBV_QPS_RTS;
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
    return qp;
}

static void datagram(struct ibv_qp *from, struct ibv_ah *ah, uint32_t to, uint32_t qkey, int id)
{
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = id};
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = to;
    wr.wr.ud.remote_qkey = qkey;
    CHECK(!post(from, wr));
    CHECK(next(sends).status == IBV_WC_SUCCESS);
}

static void q_key(void)
{
    struct ibv_qp *from = datagrams(), *to = datagrams();
    struct ibv_ah_attr address = {.is_global = 1, .port_num = 1};
    CHECK(!ibv_query_gid(context, 1, 0, &address.grh.dgid));
    struct ibv_ah *ah = ibv_create_ah(pd, &address);
    CHECK(ah);
    for (int i = 0; i < 4; i++) {
        struct ibv_sge sge = {(uintptr_t)memory + 1024, 64, mr->lkey};
        struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
        CHECK(!ibv_post_recv(to, &wr, &bad));
    }
    datagram(from, ah, to->qp_num, 0x1111, 1);
    CHECK(next(receives).imm_data == 1);
    struct ibv_qp_attr attr = {.qkey = 0x2222};
    CHECK(!ibv_modify_qp(to, &attr, IBV_QP_QKEY));
    /* The first of these is dropped. */
    datagram(from, ah, to->qp_num, 0x1111, 2);
    datagram(from, ah, to->qp_num, 0x2222, 3);
    CHECK(next(receives).imm_data == 3);
    CHECK(!ibv_destroy_ah(ah));
    CHECK(!ibv_destroy_qp(from) && !ibv_destroy_qp(to));
}

int main(void)
{
    context = open_first();
    CHECK((pd = ibv_alloc_pd(context)));
    CHECK((sends = ibv_create_cq(context, 64, NULL, NULL, 0)));
    CHECK((receives = ibv_create_cq(context, 64, NULL, NULL, 0)));
    mr = ibv_reg_mr(pd, memory, sizeof memory,
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    CHECK(mr);
    access_flags();
    drained();
    q_key();
    puts("all fine");
    return 0;
}
