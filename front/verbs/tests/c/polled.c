/* Threads that post and poll are cancelled (pthread_cancel) a thousand times, wherever that meets
 * them: the library stays usable. They end at points of cancellation of their own. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

enum { ROUNDS = 1000 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static unsigned char memory[1 << 16];

static void post(uint64_t id)
{
    struct ibv_sge sge = {(uintptr_t)memory, 5000, mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {(uintptr_t)memory + 20000, mr->rkey}}, *bad;
    /* The queue is full if a cancelled thread has not polled. */
    int full = ibv_post_send(qp, &wr, &bad);
    CHECK(full == 0 || full == ENOMEM);
}

static void *polling(void *unused)
{
    struct ibv_wc wc;
    for (;;) {
        /* The queue may never be empty. */
        pthread_testcancel();
        post(1);
        while (ibv_poll_cq(cq, 1, &wc) == 0)
            pthread_testcancel();
        CHECK(wc.status == IBV_WC_SUCCESS);
        struct ibv_mr *other = ibv_reg_mr(pd, memory, sizeof memory, 0);
        CHECK(other && !ibv_dereg_mr(other));
    }
    return unused;
}

/* Every operation of this thread ends. */
static void write_and_poll(uint64_t id)
{
    struct ibv_wc wc;
    do {
        while (ibv_poll_cq(cq, 1, &wc) == 0)
            post(id);
        CHECK(wc.status == IBV_WC_SUCCESS);
    } while (wc.wr_id != id);
}

int main(void)
{
    context = open_first();
    CHECK((pd = ibv_alloc_pd(context)));
    CHECK((cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
    CHECK((mr = ibv_reg_mr(pd, memory, sizeof memory,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
        .cap = {.max_send_wr = 32, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
    CHECK((qp = ibv_create_qp(pd, &init)));
    join_pairs(context, qp, qp);
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        void *result;
        /* A call that never returns ends the program. */
        alarm(60);
        CHECK(!pthread_create(&thread, NULL, polling, NULL));
        usleep(round * 7919 % 300);
        CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result));
        CHECK(result == PTHREAD_CANCELED);
        write_and_poll(2 + round);
    }
    puts("all fine");
    return 0;
}
