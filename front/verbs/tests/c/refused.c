/* A request that the peer refuses: its initiator gets a completion and no asynchronous event, and
 * the other end gets the event. */
#include "check.h"
#include <fcntl.h>
#include <unistd.h>

static struct ibv_context *context;
static struct ibv_cq *cq, *received;
static struct ibv_mr *mr;
static struct ibv_qp *from, *to;
static uint64_t memory[512];

static void demand(struct ibv_send_wr *wr, enum ibv_wc_status status)
{
    struct ibv_sge sge = {(uintptr_t)memory, 8, mr->lkey};
    struct ibv_send_wr *bad;
    struct ibv_wc wc;
    wr->sg_list = &sge;
    wr->num_sge = 1;
    CHECK(ibv_post_send(from, wr, &bad) == 0);
    int found = 0;
    for (int tries = 0; !found && tries < 600000; tries++) {
        found = ibv_poll_cq(cq, 1, &wc);
        usleep(found ? 0 : 100);
    }
    CHECK(found == 1 && wc.status == status);
}

static void demand_event(enum ibv_event_type type)
{
    int found = 0;
    struct ibv_async_event event;
    for (int tries = 0; tries < 100 || (!found && tries < 60000); tries++) {
        usleep(1000);
        if (ibv_get_async_event(context, &event))
            continue;
        CHECK(event.event_type == type && event.element.qp == to);
        ibv_ack_async_event(&event);
        found++;
    }
    CHECK(found == 1);
}

static void restart(void)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    CHECK(!ibv_modify_qp(from, &attr, IBV_QP_STATE) && !ibv_modify_qp(to, &attr, IBV_QP_STATE));
    join_pairs(context, from, to);
    join_pairs(context, to, from);
}

int main(void)
{
    context = open_first();
    CHECK(fcntl(context->async_fd, F_SETFL, O_NONBLOCK) == 0);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    CHECK(pd && (cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
    CHECK((received = ibv_create_cq(context, 64, NULL, NULL, 0)));
    CHECK((mr = ibv_reg_mr(pd, memory, sizeof memory,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
    struct ibv_qp_init_attr init = {
        .send_cq = cq,
        .recv_cq = received,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC,
    };
    CHECK((from = ibv_create_qp(pd, &init)) && (to = ibv_create_qp(pd, &init)));
    join_pairs(context, from, to);
    join_pairs(context, to, from);
    struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE};
    wr.wr.rdma.remote_addr = (uintptr_t)memory + 2048;
    wr.wr.rdma.rkey = mr->rkey ^ 1;
    demand(&wr, IBV_WC_REM_ACCESS_ERR);
    demand_event(IBV_EVENT_QP_ACCESS_ERR);
    restart();
    /* A receive that is too short is reported by completions. */
    struct ibv_recv_wr receive = {.wr_id = 9}, *bad;
    struct ibv_wc wc;
    CHECK(ibv_post_recv(to, &receive, &bad) == 0);
    wr = (struct ibv_send_wr){.opcode = IBV_WR_SEND};
    demand(&wr, IBV_WC_REM_INV_REQ_ERR);
    int found = 0;
    for (int tries = 0; !found && tries < 60000; tries++) {
        found = ibv_poll_cq(received, 1, &wc);
        usleep(1000);
    }
    CHECK(found == 1 && wc.wr_id == 9 && wc.status == IBV_WC_LOC_LEN_ERR);
    struct ibv_async_event event;
    CHECK(ibv_get_async_event(context, &event) == -1 && errno == EAGAIN);
    CHECK(!ibv_destroy_qp(from) && !ibv_destroy_qp(to) && !ibv_dereg_mr(mr));
    CHECK(!ibv_destroy_cq(cq) && !ibv_destroy_cq(received) && !ibv_dealloc_pd(pd));
    CHECK(!ibv_close_device(context));
    puts("all fine");
    return 0;
}
