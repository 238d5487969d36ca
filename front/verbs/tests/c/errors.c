/* Wrong calls, and what they are answered. Nothing here sends a packet. */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ibv_context *context;
static struct ibv_pd *pd;
static char buffer[8192];

static void queries(void)
{
    struct ibv_port_attr port;
    struct ibv_gid_entry entry, table[64];
    union ibv_gid gid;
    uint16_t pkey;
    CHECK(ibv_query_port(context, 1, &port) == 0 && port.link_layer == IBV_LINK_LAYER_ETHERNET);
    REFUSED(ibv_query_port(context, 2, &port), EINVAL);
    CHECK(ibv_query_gid(context, 1, 0, &gid) == 0);
    REFUSED(ibv_query_gid(context, 1, 99, &gid), -1);
    CHECK(ibv_query_gid_ex(context, 1, 0, &entry, 0) == 0);
    CHECK(entry.gid_type == IBV_GID_TYPE_ROCE_V2 && !memcmp(&entry.gid, &gid, 16));
    REFUSED(ibv_query_gid_ex(context, 1, 0, &entry, 1), EINVAL);
    CHECK(ibv_query_gid_table(context, table, 64, 0) == port.gid_tbl_len);
    CHECK(ibv_query_pkey(context, 1, 0, &pkey) == 0 && pkey == 0xffff);
    REFUSED(ibv_query_pkey(context, 1, 1, &pkey), -1);
    CHECK(ibv_get_pkey_index(context, 1, 0xffff) == 0);
    CHECK(!strcmp(ibv_wc_status_str(IBV_WC_SUCCESS), "success"));
    CHECK(!strcmp(ibv_wc_status_str(1000), "unknown"));
    CHECK(ibv_rate_to_mbps(IBV_RATE_100_GBPS) == 103125);
    CHECK(ibv_fork_init() == 0);
    struct ibv_device_attr_ex attr;
    struct ibv_query_device_ex_input input = {.comp_mask = 0};
    CHECK(ibv_query_device_ex(context, &input, &attr) == 0 && attr.orig_attr.max_sge == 6);
    CHECK(ibv_get_device_guid(context->device) == attr.orig_attr.node_guid);
}

static void memory(void)
{
    int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
              IBV_ACCESS_REMOTE_ATOMIC;
    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof buffer, all);
    CHECK(mr && mr->addr == buffer && mr->length == sizeof buffer && mr->lkey == mr->rkey);
    uint32_t key = mr->rkey;
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE) ==
          0);
    CHECK(mr->rkey == key && mr->lkey == key);
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE) ==
          IBV_REREG_MR_ERR_INPUT);
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, buffer + 8, 16, 0) == 0);
    CHECK(mr->rkey != key && mr->addr == buffer + 8 && mr->length == 16);
    CHECK(ibv_rereg_mr(mr, 8, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0) == IBV_REREG_MR_ERR_INPUT);
    CHECK(ibv_dereg_mr(mr) == 0);
    NONE(ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_REMOTE_WRITE), EINVAL);
    NONE(ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_REMOTE_ATOMIC), EINVAL);
    NONE(ibv_reg_mr(pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND), EOPNOTSUPP);
    NONE(ibv_reg_mr(pd, buffer, sizeof buffer, 1 << 19), EINVAL);
    /* Memory that is not there, and memory that can't be written. */
    char *pages = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(pages != MAP_FAILED);
    mr = ibv_reg_mr(pd, pages, 8192, 0);
    CHECK(mr && ibv_dereg_mr(mr) == 0);
    NONE(ibv_reg_mr(pd, pages, 8192, IBV_ACCESS_LOCAL_WRITE), EFAULT);
    CHECK(munmap(pages, 8192) == 0);
    NONE(ibv_reg_mr(pd, pages, 8192, 0), EFAULT);
    struct ibv_alloc_dm_attr dm = {.length = 64};
    NONE(ibv_alloc_dm(context, &dm), EOPNOTSUPP);
    NONE(ibv_alloc_mw(pd, IBV_MW_TYPE_1), EOPNOTSUPP);
    NONE(ibv_alloc_null_mr(pd), EOPNOTSUPP);
    struct ibv_td_init_attr td_init = {0};
    struct ibv_td *td = ibv_alloc_td(context, &td_init);
    struct ibv_parent_domain_init_attr parent_init = {.pd = pd, .td = td};
    struct ibv_pd *parent = ibv_alloc_parent_domain(context, &parent_init);
    CHECK(td && parent && ibv_dealloc_pd(parent) == 0 && ibv_dealloc_td(td) == 0);
}

static void completion_queues(void)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(context);
    struct ibv_cq *cq, *found;
    struct ibv_wc wc;
    void *user;
    CHECK(channel);
    NONE(ibv_create_cq(context, 0, NULL, NULL, 0), EINVAL);
    NONE(ibv_create_cq(context, 1 << 30, NULL, NULL, 0), EINVAL);
    NONE(ibv_create_cq(context, 16, NULL, NULL, 9), EINVAL);
    CHECK((cq = ibv_create_cq(context, 16, &user, channel, 0)));
    CHECK(cq->cqe >= 16 && cq->cq_context == &user && cq->channel == channel);
    CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
    CHECK(ibv_req_notify_cq(cq, 0) == 0);
    CHECK(ibv_resize_cq(cq, 64) == 0 && cq->cqe >= 64);
    REFUSED(ibv_resize_cq(cq, 0), EINVAL);
    REFUSED(ibv_destroy_comp_channel(channel), EBUSY);
    CHECK(fcntl(channel->fd, F_SETFL, O_NONBLOCK) == 0);
    errno = 0;
    CHECK(ibv_get_cq_event(channel, &found, &user) == -1 && errno == EAGAIN);
    CHECK(ibv_destroy_cq(cq) == 0 && ibv_destroy_comp_channel(channel) == 0);
    struct ibv_cq_init_attr_ex ex = {.cqe = 8, .wc_flags = IBV_WC_EX_WITH_CVLAN};
    NONE(ibv_create_cq_ex(context, &ex), EOPNOTSUPP);
    ex = (struct ibv_cq_init_attr_ex){.cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                      .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN};
    NONE(ibv_create_cq_ex(context, &ex), EOPNOTSUPP);
    ex.flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
    struct ibv_cq_ex *single = ibv_create_cq_ex(context, &ex);
    CHECK(single && ibv_destroy_cq(ibv_cq_ex_to_cq(single)) == 0);
    CHECK(fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
    struct ibv_async_event event;
    errno = 0;
    CHECK(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
    CHECK(fcntl(context->async_fd, F_SETFL, 0) == 0);
}

static struct ibv_qp_attr init_attr(void)
{
    return (struct ibv_qp_attr){.qp_state = IBV_QPS_INIT, .port_num = 1};
}

static const int INIT = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

static void states(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = init_attr(), now;
    struct ibv_qp_init_attr init;
    attr.qp_state = IBV_QPS_ERR;
    REFUSED(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
    attr.qp_state = IBV_QPS_INIT;
    REFUSED(ibv_modify_qp(qp, &attr, INIT & ~IBV_QP_PORT), EINVAL);
    REFUSED(ibv_modify_qp(qp, &attr, INIT | IBV_QP_QKEY), EINVAL);
    attr.port_num = 2;
    REFUSED(ibv_modify_qp(qp, &attr, INIT), EINVAL);
    attr.port_num = 1;
    attr.qp_state = IBV_QPS_RTS;
    REFUSED(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EINVAL);
    CHECK(ibv_query_qp(qp, &now, IBV_QP_STATE, &init) == 0 && now.qp_state == IBV_QPS_RESET);
    attr = init_attr();
    CHECK(ibv_modify_qp(qp, &attr, INIT) == 0 && qp->state == IBV_QPS_INIT);
    int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
              IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    attr.qp_state = IBV_QPS_RTR;
    attr.path_mtu = IBV_MTU_256;
    attr.ah_attr.port_num = 1;
    /* No GID, then one index too many, then a packet too long. */
    REFUSED(ibv_modify_qp(qp, &attr, rtr), EINVAL);
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.sgid_index = 77;
    REFUSED(ibv_modify_qp(qp, &attr, rtr), EINVAL);
    attr.ah_attr.grh.sgid_index = 0;
    CHECK(ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid) == 0);
    attr.path_mtu = 6;
    REFUSED(ibv_modify_qp(qp, &attr, rtr), EINVAL);
    attr.path_mtu = IBV_MTU_256;
    attr.max_dest_rd_atomic = 200;
    REFUSED(ibv_modify_qp(qp, &attr, rtr), EINVAL);
    attr.max_dest_rd_atomic = 1;
    /* The longest path MTU there is (hosts.rs has one above the interface's). */
    attr.path_mtu = IBV_MTU_4096;
    CHECK(ibv_modify_qp(qp, &attr, rtr) == 0);
    CHECK(ibv_query_qp(qp, &now, ~0, &init) == 0 && now.path_mtu == IBV_MTU_4096);
    CHECK(now.qp_state == IBV_QPS_RTR && now.ah_attr.is_global && init.cap.max_send_sge == 2);
    attr.cur_qp_state = IBV_QPS_RTS;
    attr.qp_state = IBV_QPS_ERR;
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0 && qp->state == IBV_QPS_ERR);
    attr.qp_state = IBV_QPS_RESET;
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    attr = init_attr();
    CHECK(ibv_modify_qp(qp, &attr, INIT) == 0);
}

static void posts(struct ibv_qp *qp, struct ibv_mr *mr)
{
    struct ibv_sge sges[3] = {{(uintptr_t)buffer, 8, mr->lkey}};
    struct ibv_send_wr send = {.sg_list = sges, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad_send;
    struct ibv_recv_wr third = {.wr_id = 3, .sg_list = sges, .num_sge = 3};
    struct ibv_recv_wr second = {.wr_id = 2, .next = &third, .sg_list = sges, .num_sge = 1};
    struct ibv_recv_wr first = {.wr_id = 1, .next = &second, .sg_list = sges, .num_sge = 1};
    struct ibv_recv_wr *bad_receive = NULL;
    /* A queue pair that is not ready to send takes none. */
    bad_send = NULL;
    REFUSED(ibv_post_send(qp, &send, &bad_send), EINVAL);
    CHECK(bad_send == &send);
    /* The third has more ranges than the queue pair was made for; the others are taken. */
    REFUSED(ibv_post_recv(qp, &first, &bad_receive), EINVAL);
    CHECK(bad_receive == &third);
    /* The queue is for four: the third of these does not fit. */
    third.num_sge = 1;
    bad_receive = NULL;
    REFUSED(ibv_post_recv(qp, &first, &bad_receive), ENOMEM);
    CHECK(bad_receive == &third);
}

/* The queue pair is in the error state, so what it accepts is flushed. */
static void inline_ranges(struct ibv_qp *qp, struct ibv_cq *cq)
{
    struct ibv_sge sges[3] = {{(uintptr_t)buffer, 1, 0}, {(uintptr_t)buffer, 1, 0}};
    struct ibv_send_wr send = {.sg_list = sges, .num_sge = 3, .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED}, *bad = NULL;
    REFUSED(ibv_post_send(qp, &send, &bad), EINVAL);
    CHECK(bad == &send);
    send.num_sge = 2;
    CHECK(ibv_post_send(qp, &send, &bad) == 0);
    struct ibv_wc wc;
    int found = 0;
    for (int tries = 0; !found && tries < 1000000; tries++)
        found = ibv_poll_cq(cq, 1, &wc);
    CHECK(found == 1 && wc.status == IBV_WC_WR_FLUSH_ERR);
}

static void queue_pairs(void)
{
    struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    CHECK(cq && mr);
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = cq,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2,
                .max_inline_data = 64},
        .qp_type = IBV_QPT_RC,
    };
    struct ibv_qp_init_attr wrong = init;
    wrong.qp_type = IBV_QPT_XRC_SEND;
    NONE(ibv_create_qp(pd, &wrong), EOPNOTSUPP);
    wrong = init;
    wrong.cap.max_send_sge = 7;
    NONE(ibv_create_qp(pd, &wrong), EINVAL);
    wrong = init;
    wrong.cap.max_send_wr = 1 << 30;
    NONE(ibv_create_qp(pd, &wrong), EINVAL);
    wrong = init;
    wrong.cap.max_inline_data = 1 << 20;
    NONE(ibv_create_qp(pd, &wrong), EINVAL);
    wrong = init;
    wrong.send_cq = NULL;
    NONE(ibv_create_qp(pd, &wrong), EINVAL);
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(qp && qp->state == IBV_QPS_RESET && qp->qp_type == IBV_QPT_RC);
    CHECK(ibv_qp_to_qp_ex(qp) == NULL);
    states(qp);
    posts(qp, mr);
    /* What was posted is flushed. */
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_wc wc[8];
    CHECK(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0);
    int found = 0;
    for (int tries = 0; found < 4 && tries < 1000000; tries++)
        found += ibv_poll_cq(cq, 8 - found, wc + found);
    CHECK(found == 4 && wc[0].status == IBV_WC_WR_FLUSH_ERR && wc[0].wr_id == 1);
    inline_ranges(qp, cq);
    REFUSED(ibv_destroy_cq(cq), EBUSY);
    union ibv_gid gid = {.raw = {0xff}};
    REFUSED(ibv_attach_mcast(qp, &gid, 0), EOPNOTSUPP);
    CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dereg_mr(mr) == 0);
}

static void shared_queues(void)
{
    struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(pd, &init);
    struct ibv_srq_attr attr = {.max_wr = 8, .srq_limit = 2};
    struct ibv_recv_wr receive = {.wr_id = 1}, *bad = NULL;
    uint32_t number;
    CHECK(srq && ibv_get_srq_num(srq, &number) == 0);
    REFUSED(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EOPNOTSUPP);
    attr.srq_limit = 5;
    REFUSED(ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT), EINVAL);
    for (int i = 0; i < 4; i++)
        CHECK(ibv_post_srq_recv(srq, &receive, &bad) == 0);
    REFUSED(ibv_post_srq_recv(srq, &receive, &bad), ENOMEM);
    CHECK(bad == &receive && ibv_query_srq(srq, &attr) == 0 && attr.max_wr == 4);
    CHECK(ibv_destroy_srq(srq) == 0);
    init.attr.max_sge = 99;
    NONE(ibv_create_srq(pd, &init), EINVAL);
    struct ibv_ah_attr ah = {.port_num = 1};
    NONE(ibv_create_ah(pd, &ah), EINVAL);
}

/* A domain is freed after everything in it. */
static void domains(void)
{
    struct ibv_pd *own = ibv_alloc_pd(context), *other = ibv_alloc_pd(context);
    struct ibv_mr *mr = ibv_reg_mr(own, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);
    CHECK(own && other && mr);
    REFUSED(ibv_dealloc_pd(own), EBUSY);
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0) == 0);
    REFUSED(ibv_dealloc_pd(other), EBUSY);
    int translation = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD;
    CHECK(ibv_dealloc_pd(own) == 0 && (own = ibv_alloc_pd(context)));
    CHECK(ibv_rereg_mr(mr, translation, own, buffer, 64, 0) == 0);
    CHECK(ibv_dealloc_pd(other) == 0);
    REFUSED(ibv_dealloc_pd(own), EBUSY);
    CHECK(ibv_dereg_mr(mr) == 0);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD};
    struct ibv_qp *qp = ibv_create_qp(own, &init);
    CHECK(cq && qp);
    REFUSED(ibv_dealloc_pd(own), EBUSY);
    CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *srq = ibv_create_srq(own, &shared);
    CHECK(srq);
    REFUSED(ibv_dealloc_pd(own), EBUSY);
    CHECK(ibv_destroy_srq(srq) == 0);
    struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
    CHECK(ibv_query_gid(context, 1, 0, &attr.grh.dgid) == 0);
    struct ibv_ah *ah = ibv_create_ah(own, &attr);
    CHECK(ah);
    REFUSED(ibv_dealloc_pd(own), EBUSY);
    CHECK(ibv_destroy_ah(ah) == 0);
    struct ibv_parent_domain_init_attr parent_init = {.pd = own};
    struct ibv_pd *parent = ibv_alloc_parent_domain(context, &parent_init);
    CHECK(parent);
    REFUSED(ibv_dealloc_pd(own), EBUSY);
    CHECK(ibv_dealloc_pd(parent) == 0 && ibv_dealloc_pd(own) == 0);
}

/* Objects of two contexts are not used together, even if the contexts are of one device. */
static void contexts(void)
{
    struct ibv_context *other = open_first();
    struct ibv_pd *other_pd = ibv_alloc_pd(other);
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    struct ibv_cq *other_cq = ibv_create_cq(other, 16, NULL, NULL, 0);
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *other_srq = ibv_create_srq(other_pd, &shared);
    CHECK(other_pd && cq && other_cq && other_srq);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
    struct ibv_qp_init_attr wrong = init;
    wrong.send_cq = other_cq;
    NONE(ibv_create_qp(pd, &wrong), EINVAL);
    wrong = init;
    wrong.recv_cq = other_cq;
    NONE(ibv_create_qp(pd, &wrong), EINVAL);
    wrong = init;
    wrong.srq = other_srq;
    NONE(ibv_create_qp(pd, &wrong), EINVAL);
    NONE(ibv_create_qp(other_pd, &init), EINVAL);
    struct ibv_qp_init_attr_ex ex = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                     .comp_mask = IBV_QP_INIT_ATTR_PD |
                                                  IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
                                     .pd = pd, .send_ops_flags = IBV_QP_EX_WITH_SEND};
    NONE(ibv_create_qp_ex(other, &ex), EINVAL);
    struct ibv_parent_domain_init_attr parent = {.pd = pd};
    NONE(ibv_alloc_parent_domain(other, &parent), EINVAL);
    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, 64, IBV_ACCESS_LOCAL_WRITE);
    CHECK(mr);
    int translation = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD;
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, other_pd, NULL, 0, 0) ==
          IBV_REREG_MR_ERR_INPUT);
    CHECK(ibv_rereg_mr(mr, translation, other_pd, buffer, 32, 0) == IBV_REREG_MR_ERR_INPUT);
    CHECK(mr->pd == pd && mr->length == 64 && ibv_dereg_mr(mr) == 0);
    /* What was refused holds nothing. */
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(qp && ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0);
    CHECK(ibv_destroy_srq(other_srq) == 0 && ibv_destroy_cq(other_cq) == 0);
    CHECK(ibv_dealloc_pd(other_pd) == 0 && ibv_close_device(other) == 0);
}

/* A child that does not use verbs is unharmed, and may use them afresh. */
static void children(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        struct ibv_context *own = open_first();
        struct ibv_device_attr attr;
        _exit(ibv_query_device(own, &attr) || ibv_close_device(own));
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

int main(void)
{
    context = open_first();
    CHECK((pd = ibv_alloc_pd(context)));
    queries();
    memory();
    completion_queues();
    queue_pairs();
    shared_queues();
    domains();
    contexts();
    children();
    CHECK(ibv_dealloc_pd(pd) == 0 && ibv_close_device(context) == 0);
    puts("all fine");
    return 0;
}
