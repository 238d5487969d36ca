/* Threads that sleep for an event, and threads that post and poll while a cancellation of
 * them is pending, are cancelled; and a child of fork() exits. */
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ibv_context *context;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr;
static unsigned char memory[256];
static pthread_barrier_t cancelled;

static void *sleeper(void *unused)
{
    struct ibv_cq *found;
    void *its;
    ibv_get_cq_event(channel, &found, &its);
    return unused;
}

/* The channel was destroyed by another thread, perhaps a moment ago: this sleeps. */
static void *late(void *destroyed)
{
    struct rdma_cm_event *event;
    rdma_get_cm_event(destroyed, &event);
    return destroyed;
}

static void write_and_poll(uint64_t id)
{
    struct ibv_sge sge = {(uintptr_t)memory, 100, mr->lkey};
    struct ibv_send_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {(uintptr_t)memory + 128, mr->rkey}}, *bad;
    struct ibv_wc wc;
    CHECK(!ibv_post_send(qp, &wr, &bad));
    while (!ibv_poll_cq(cq, 1, &wc))
        ;
    CHECK(wc.wr_id == id && wc.status == IBV_WC_SUCCESS);
}

/* Waits, and is not cancelled meanwhile, until there is an event: another thread may bring it. */
static void wait_for_event(void)
{
    struct pollfd there = {.fd = channel->fd, .events = POLLIN};
    int before;
    CHECK(!pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before));
    CHECK(poll(&there, 1, -1) == 1);
    CHECK(!pthread_setcancelstate(before, &before));
}

/* No call of the library but one that sleeps may end this thread. */
static void *worker(void *unused)
{
    struct ibv_cq *found;
    void *its;
    pthread_barrier_wait(&cancelled);
    for (int turn = 0; turn < 20; turn++) {
        CHECK(!ibv_req_notify_cq(cq, 0));
        write_and_poll(turn);
        wait_for_event();
        CHECK(!ibv_get_cq_event(channel, &found, &its) && found == cq);
        ibv_ack_cq_events(cq, 1);
        struct ibv_mr *other = ibv_reg_mr(mr->pd, memory, sizeof memory, 0);
        CHECK(other && !ibv_dereg_mr(other));
    }
    memory[255] = 1;
    ibv_get_cq_event(channel, &found, &its);
    return unused;
}

static void open_pair(void)
{
    struct ibv_pd *pd = ibv_alloc_pd(context);
    CHECK(pd);
    CHECK((mr = ibv_reg_mr(pd, memory, sizeof memory,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
    CHECK((qp = ibv_create_qp(pd, &init)));
    join_pairs(context, qp, qp);
}

int main(void)
{
    context = open_first();
    CHECK((channel = ibv_create_comp_channel(context)));
    CHECK((cq = ibv_create_cq(context, 8, NULL, channel, 0)));
    pid_t child = fork();
    if (child == 0)
        exit(4);
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 4);
    pthread_t thread;
    void *result;
    alarm(60);
    CHECK(!pthread_create(&thread, NULL, sleeper, NULL));
    CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);

    struct rdma_event_channel *events = rdma_create_event_channel();
    struct rdma_cm_event *event;
    CHECK(events);
    rdma_destroy_event_channel(events);
    CHECK(rdma_get_cm_event(events, &event) == -1 && errno == EBADF);
    CHECK(!pthread_create(&thread, NULL, late, events));
    CHECK(!pthread_cancel(thread) && !pthread_join(thread, &result) && result == PTHREAD_CANCELED);

    open_pair();
    CHECK(!pthread_barrier_init(&cancelled, NULL, 2));
    CHECK(!pthread_create(&thread, NULL, worker, NULL) && !pthread_cancel(thread));
    pthread_barrier_wait(&cancelled);
    CHECK(!pthread_join(thread, &result) && result == PTHREAD_CANCELED && memory[255] == 1);
    puts("all fine");
    return 0;
}
