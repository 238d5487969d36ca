/* Threads of one process that use one context at the same time. Each writes over a queue pair of
 * its own, over one that all of them share, registers memory, and makes and destroys objects;
 * another one sleeps for the completions of the shared queue pair. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { WORKERS = 4, ROUNDS = 150, LENGTH_MAX = 20000 };

struct worker {
    unsigned number;
    unsigned char from[LENGTH_MAX], to[LENGTH_MAX];
    uint64_t word, copy; /* written over the shared queue pair */
    atomic_uint completed; /* operations of this worker over the shared queue pair */
};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct worker workers[WORKERS];
static struct ibv_mr *all; /* all workers' memory */
static struct ibv_qp *shared;
static struct ibv_cq *shared_cq;
static struct ibv_comp_channel *channel;
static const int ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;

static struct ibv_qp *create(struct ibv_cq *cq)
{
    struct ibv_qp_init_attr_ex init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1, .pd = pd,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE,
        .cap = {.max_send_wr = 16, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp_ex(context, &init);
    CHECK(qp);
    join_pairs(context, qp, qp);
    return qp;
}

static void post(struct ibv_qp *qp, uint64_t id, void *from, void *to, uint32_t length,
                 struct ibv_mr *mr)
{
    struct ibv_sge sge = {(uintptr_t)from, length, mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {(uintptr_t)to, mr->rkey}}, *bad;
    CHECK(!ibv_post_send(qp, &wr, &bad));
}

/* The same by the calls that hold the queue pair from one to the next. */
static void post_extended(struct ibv_qp *qp, uint64_t id, void *from, void *to, uint32_t length,
                          struct ibv_mr *mr)
{
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
    ibv_wr_start(ex);
    ex->wr_id = id;
    ibv_wr_rdma_write(ex, mr->rkey, (uintptr_t)to);
    ibv_wr_set_sge(ex, mr->lkey, (uintptr_t)from, length);
    CHECK(!ibv_wr_complete(ex));
}

static void write_alone(struct worker *self, unsigned round, struct ibv_qp *qp, struct ibv_cq *cq)
{
    uint32_t length = 1 + (round * 7919 + self->number * 31) % LENGTH_MAX;
    memset(self->from, (int)(round + self->number), length);
    struct ibv_mr *mr = ibv_reg_mr(pd, self, sizeof *self, ACCESS);
    CHECK(mr);
    post(qp, round, self->from, self->to, length, mr);
    struct ibv_wc wc;
    while (ibv_poll_cq(cq, 1, &wc) == 0)
        ;
    CHECK(wc.wr_id == round && wc.status == IBV_WC_SUCCESS);
    CHECK(!memcmp(self->from, self->to, length) && !ibv_dereg_mr(mr));
}

static void write_together(struct worker *self, unsigned round)
{
    self->word = round * WORKERS + self->number + 1;
    void (*how)(struct ibv_qp *, uint64_t, void *, void *, uint32_t, struct ibv_mr *) =
        round % 2 ? post_extended : post;
    how(shared, self->number, &self->word, &self->copy, sizeof self->word, all);
    while (atomic_load(&self->completed) <= round)
        usleep(50);
    CHECK(self->copy == self->word);
}

static void *work(void *argument)
{
    struct worker *self = argument;
    struct ibv_cq *cq = ibv_create_cq(context, 16, NULL, NULL, 0);
    CHECK(cq);
    struct ibv_qp *qp = create(cq);
    for (unsigned round = 0; round < ROUNDS; round++) {
        write_alone(self, round, qp, cq);
        write_together(self, round);
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        CHECK(!ibv_query_qp(shared, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_RTS);
        if (round % 16 == 15) {
            CHECK(!ibv_destroy_qp(qp));
            qp = create(cq);
        }
    }
    CHECK(!ibv_destroy_qp(qp) && !ibv_destroy_cq(cq));
    return NULL;
}

/* Sleeps for completions of the shared queue pair, and counts them. */
static void *sleeper(void *unused)
{
    struct ibv_cq *found;
    void *its;
    struct ibv_wc wc;
    CHECK(!ibv_req_notify_cq(shared_cq, 0));
    for (unsigned count = 0; count < WORKERS * ROUNDS;) {
        CHECK(!ibv_get_cq_event(channel, &found, &its) && found == shared_cq);
        ibv_ack_cq_events(shared_cq, 1);
        CHECK(!ibv_req_notify_cq(shared_cq, 0));
        for (; ibv_poll_cq(shared_cq, 1, &wc) == 1; count++) {
            CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id < WORKERS);
            atomic_fetch_add(&workers[wc.wr_id].completed, 1);
        }
    }
    return unused;
}

int main(void)
{
    alarm(120);
    context = open_first();
    CHECK((pd = ibv_alloc_pd(context)));
    CHECK((channel = ibv_create_comp_channel(context)));
    CHECK((shared_cq = ibv_create_cq(context, 64, NULL, channel, 0)));
    CHECK((all = ibv_reg_mr(pd, workers, sizeof workers, ACCESS)));
    shared = create(shared_cq);
    pthread_t threads[WORKERS + 1];
    CHECK(!pthread_create(&threads[WORKERS], NULL, sleeper, NULL));
    for (unsigned number = 0; number < WORKERS; number++) {
        workers[number].number = number;
        CHECK(!pthread_create(&threads[number], NULL, work, &workers[number]));
    }
    for (unsigned number = 0; number <= WORKERS; number++)
        CHECK(!pthread_join(threads[number], NULL));
    CHECK(!ibv_destroy_qp(shared) && !ibv_dereg_mr(all) && !ibv_destroy_cq(shared_cq));
    CHECK(!ibv_destroy_comp_channel(channel) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
    puts("all fine");
    return 0;
}
