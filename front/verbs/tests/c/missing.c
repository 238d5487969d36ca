/* Registered memory that the program unmaps, or whose file it truncates: completions with an error,
 * no signal, and another connection goes on. Handlers of the program for SIGSEGV and SIGBUS are not
 * called. In the end it reads from where nothing is, and its handler of SIGSEGV is called. */
#define _GNU_SOURCE
#include "check.h"
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LENGTH = 1 << 20, GONE = 8192 };

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static unsigned char memory[LENGTH];
static struct ibv_mr *mr;
static volatile sig_atomic_t is_expected;

static void fault(int signal)
{
    (void)signal;
    static const char fine[] = "all fine\n", wrong[] = "a signal\n";
    if (is_expected && write(1, fine, sizeof fine - 1) > 0)
        _exit(0);
    if (write(2, wrong, sizeof wrong - 1) > 0)
        _exit(1);
}

static struct ibv_qp *create(void)
{
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
        .cap = {.max_send_wr = 8, .max_recv_wr = 8, .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(qp);
    return qp;
}

/* A queue pair that is connected to another one, which stays. */
static struct ibv_qp *connected(void)
{
    struct ibv_qp *from = create(), *to = create();
    join_pairs(context, to, from);
    join_pairs(context, from, to);
    return from;
}

static enum ibv_wc_status write_to(struct ibv_qp *qp, struct ibv_mr *from, struct ibv_mr *to,
                                   uint32_t length)
{
    struct ibv_sge sge = {(uintptr_t)from->addr + GONE, length, from->lkey};
    struct ibv_send_wr wr = {.wr_id = 5, .sg_list = &sge, .num_sge = 1,
                             .opcode = IBV_WR_RDMA_WRITE,
                             .wr.rdma = {(uintptr_t)to->addr + GONE, to->rkey}}, *bad;
    struct ibv_wc wc;
    CHECK(!ibv_post_send(qp, &wr, &bad));
    while (!ibv_poll_cq(cq, 1, &wc))
        ;
    CHECK(wc.wr_id == 5);
    return wc.status;
}

/* Memory at a place that the kernel chooses for nothing else, and where the sanitizers allow it;
 * its file, if it is to have one. */
static unsigned char *map(int file)
{
    static uintptr_t next = 0x7b0000000000;
    int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
    void *place = mmap((void *)next, LENGTH, PROT_READ | PROT_WRITE,
                       flags | MAP_FIXED_NOREPLACE, file, 0);
    CHECK(place != MAP_FAILED);
    next += 16 * LENGTH;
    return place;
}

static void take_away(int file, uint32_t length)
{
    unsigned char *place = map(file);
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
    struct ibv_mr *lost = ibv_reg_mr(pd, place, LENGTH, access);
    CHECK(lost);
    struct ibv_qp *first = connected(), *second = connected(), *other = connected();
    CHECK(write_to(first, mr, lost, length) == IBV_WC_SUCCESS);
    CHECK(write_to(second, lost, mr, length) == IBV_WC_SUCCESS);
    if (file < 0)
        CHECK(!munmap(place + GONE, LENGTH - GONE));
    else
        CHECK(!ftruncate(file, GONE));
    CHECK(write_to(first, mr, lost, length) == IBV_WC_REM_ACCESS_ERR);
    CHECK(write_to(other, mr, mr, length) == IBV_WC_SUCCESS);
    CHECK(write_to(second, lost, mr, length) == IBV_WC_LOC_PROT_ERR);
    CHECK(write_to(other, mr, mr, length) == IBV_WC_SUCCESS);
    CHECK(!ibv_destroy_qp(first) && !ibv_destroy_qp(second) && !ibv_destroy_qp(other));
    CHECK(!ibv_dereg_mr(lost));
}

int main(void)
{
    struct sigaction action = {.sa_handler = fault};
    CHECK(!sigaction(SIGSEGV, &action, NULL) && !sigaction(SIGBUS, &action, NULL));
    context = open_first();
    CHECK((pd = ibv_alloc_pd(context)));
    CHECK((cq = ibv_create_cq(context, 64, NULL, NULL, 0)));
    CHECK((mr = ibv_reg_mr(pd, memory, LENGTH,
                           IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
    alarm(60);
    static const uint32_t lengths[] = {8, 100, 4096, 200000};
    for (int i = 0; i < 4; i++) {
        take_away(-1, lengths[i]);
        int file = memfd_create("file", 0);
        CHECK(file >= 0 && !ftruncate(file, LENGTH));
        take_away(file, lengths[i]);
        CHECK(!close(file));
    }
    is_expected = 1;
    memory[0] = *(volatile unsigned char *)16;
    return 2;
}
