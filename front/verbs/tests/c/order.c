/*
 * Memory of a reliable connection changes as if its operations were executed in the order they were
 * posted, and a READ reads what it finds when its turn comes.
 *
 *   order [-n ROUNDS] [-r] [TEST...]
 *
 * A child process is the target; both share the memory it registers, so that either can look at it.
 * With -r, region and queue pairs allow any order (IBV_ACCESS_RELAXED_ORDERING), and what is out of
 * order is counted, not an error. TESTs: waw flag atomic read8 read64 self8 self64; all of them
 * if none is named. Works with any libibverbs.
 */
#include "check.h"
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BLOCK (64u << 10)
#define WRITES 64u
#define WORDS (BLOCK / 8)

/* What both processes see. The target registers all of it. */
struct shared {
    _Atomic uint64_t data[WORDS];
    _Atomic uint64_t counter, flag;
    /* Words of the two processes to each other; no peer writes them. */
    _Atomic uint64_t round, seen, wrong, over;
};

struct endpoint {
    uint32_t number, key;
    uint64_t address;
    union ibv_gid gid;
};

static struct shared *shared;
static uint64_t (*blocks)[WORDS]; /* sources of WRITEs */
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_mr *region;
static int access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                          IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
static unsigned rounds = 50;
static int relaxed;

static struct ibv_qp *make(struct endpoint *self)
{
    CHECK(context = open_first());
    CHECK(pd = ibv_alloc_pd(context));
    CHECK(cq = ibv_create_cq(context, 256, NULL, NULL, 0));
    CHECK(region = ibv_reg_mr(pd, shared, sizeof *shared, access_flags));
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
                                    .cap = {.max_send_wr = 128, .max_recv_wr = 1,
                                            .max_send_sge = 1, .max_recv_sge = 1}};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(qp);
    *self = (struct endpoint){qp->qp_num, region->rkey, (uintptr_t)shared, {.raw = {0}}};
    CHECK(!ibv_query_gid(context, 1, 0, &self->gid));
    return qp;
}

static void join(struct ibv_qp *qp, const struct endpoint *peer)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
                               .qp_access_flags = (unsigned)access_flags};
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                        IBV_QP_ACCESS_FLAGS));
    attr = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->number,
        .rq_psn = 5, .max_dest_rd_atomic = 16, .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .hop_limit = 1}}};
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                        IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .sq_psn = 5, .timeout = 14,
                                .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 16};
    CHECK(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                        IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                        IBV_QP_MAX_QP_RD_ATOMIC));
}

/* ---- the target ---- */

/* Looks at the flag, and at what was written before it. */
static void watch(void)
{
    uint64_t seen = 0;
    while (!atomic_load(&shared->over)) {
        uint64_t flag = atomic_load_explicit(&shared->flag, memory_order_acquire);
        if (flag == seen)
            continue;
        uint64_t wrong = 0;
        for (unsigned at = 0; at < WORDS; at++)
            wrong += atomic_load_explicit(&shared->data[at], memory_order_relaxed) != flag;
        wrong += atomic_load(&shared->counter) != flag && atomic_load(&shared->counter) != 0;
        atomic_fetch_add(&shared->wrong, wrong != 0);
        atomic_store(&shared->seen, seen = flag);
    }
}

static int target(int control)
{
    struct endpoint self, peer;
    struct ibv_qp *qp = make(&self);
    CHECK(write(control, &self, sizeof self) == sizeof self);
    CHECK(read(control, &peer, sizeof peer) == sizeof peer);
    join(qp, &peer);
    CHECK(write(control, "r", 1) == 1);
    watch();
    char end;
    CHECK(read(control, &end, 1) == 1);
    CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(region) && !ibv_destroy_cq(cq));
    CHECK(!ibv_dealloc_pd(pd) && !ibv_close_device(context));
    return 0;
}

/* ---- the initiator ---- */

struct link {
    struct ibv_qp *qp;
    struct endpoint peer;
    struct ibv_mr *sources;
};

static void post(struct link *link, enum ibv_wr_opcode opcode, void *local, uint32_t length,
                 volatile void *remote, uint64_t add)
{
    uint64_t offset = (uint64_t)((volatile char *)remote - (volatile char *)shared);
    struct ibv_sge sge = {(uintptr_t)local, length, link->sources->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode,
                             .send_flags = IBV_SEND_SIGNALED}, *bad;
    wr.wr.rdma.remote_addr = link->peer.address + offset;
    wr.wr.rdma.rkey = link->peer.key;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = link->peer.address + offset;
        wr.wr.atomic.compare_add = add;
        wr.wr.atomic.rkey = link->peer.key;
    }
    CHECK(!ibv_post_send(link->qp, &wr, &bad));
}

static void finish(unsigned count)
{
    time_t end = time(NULL) + 60;
    struct ibv_wc wc;
    while (count > 0) {
        int got = ibv_poll_cq(cq, 1, &wc);
        CHECK(got >= 0 && time(NULL) < end);
        if (got == 1) {
            CHECK(wc.status == IBV_WC_SUCCESS);
            count--;
        }
    }
}

static void fill(uint64_t *block, uint64_t value)
{
    for (unsigned at = 0; at < WORDS; at++)
        block[at] = value;
}

/* Many WRITEs to one place: the last one's bytes remain. */
static unsigned write_after_write(struct link *link)
{
    unsigned wrong = 0;
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned one = 0; one < WRITES; one++) {
            fill(blocks[one], round * 1000 + one + 1);
            post(link, IBV_WR_RDMA_WRITE, blocks[one], BLOCK, shared->data, 0);
        }
        finish(WRITES);
        int bad = 0;
        for (unsigned at = 0; at < WORDS; at++)
            bad |= atomic_load(&shared->data[at]) != round * 1000 + WRITES;
        wrong += (unsigned)bad;
    }
    return wrong;
}

/* Data, then a flag: the target sees the flag and looks at the data. With an atomic between. */
static unsigned flag_after_data(struct link *link, int with_atomic)
{
    uint64_t *flag = blocks[1], *old = blocks[2];
    uint64_t first = atomic_load(&shared->flag), before = atomic_load(&shared->wrong);
    atomic_store(&shared->counter, with_atomic ? first : 0);
    for (uint64_t value = first + 1; value <= first + rounds; value++) {
        fill(blocks[0], value);
        *flag = value;
        post(link, IBV_WR_RDMA_WRITE, blocks[0], BLOCK, shared->data, 0);
        if (with_atomic)
            post(link, IBV_WR_ATOMIC_FETCH_AND_ADD, old, 8, &shared->counter, 1);
        post(link, IBV_WR_RDMA_WRITE, flag, 8, &shared->flag, 0);
        finish(with_atomic ? 3 : 2);
        time_t end = time(NULL) + 60;
        while (atomic_load(&shared->seen) != value)
            CHECK(time(NULL) < end);
    }
    return (unsigned)(atomic_load(&shared->wrong) - before);
}

/* A READ, then a WRITE to the same place: the READ gets what was there before. */
static unsigned write_after_read(struct link *link, uint32_t length)
{
    unsigned wrong = 0;
    for (unsigned round = 1; round <= rounds; round++) {
        for (unsigned at = 0; at < WORDS; at++)
            atomic_store_explicit(&shared->data[at], round, memory_order_relaxed);
        fill(blocks[0], 0);
        fill(blocks[1], round + 1);
        post(link, IBV_WR_RDMA_READ, blocks[0], length, shared->data, 0);
        post(link, IBV_WR_RDMA_WRITE, blocks[1], length, shared->data, 0);
        finish(2);
        int bad = 0;
        for (unsigned at = 0; at < length / 8; at++)
            bad |= blocks[0][at] != round || atomic_load(&shared->data[at]) != round + 1;
        wrong += (unsigned)bad;
    }
    return wrong;
}

static int failures;

static int chosen(int count, char **names, const char *name)
{
    int found = count == 0;
    for (int at = 0; at < count; at++)
        found |= !strcmp(names[at], name);
    return found;
}

static void report(const char *name, unsigned wrong)
{
    printf("%s: %u of %u out of order\n", name, wrong, rounds);
    failures += wrong > 0;
}

int main(int argc, char **argv)
{
    for (int option; (option = getopt(argc, argv, "n:r")) != -1;) {
        if (option == 'n')
            rounds = (unsigned)atoi(optarg);
        else if (option == 'r')
            relaxed = 1;
        else
            return 2;
    }
    int count = argc - optind;
    char **names = argv + optind;
    if (relaxed)
        access_flags |= IBV_ACCESS_RELAXED_ORDERING;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    int control[2];
    CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, control));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(!close(control[0]));
        return target(control[1]);
    }
    CHECK(!close(control[1]));

    struct endpoint self;
    struct link link = {.qp = make(&self)};
    CHECK(blocks = malloc(WRITES * sizeof *blocks));
    CHECK(link.sources = ibv_reg_mr(pd, blocks, WRITES * sizeof *blocks, IBV_ACCESS_LOCAL_WRITE));
    char ready;
    CHECK(read(control[0], &link.peer, sizeof link.peer) == sizeof link.peer);
    CHECK(write(control[0], &self, sizeof self) == sizeof self);
    join(link.qp, &link.peer);
    CHECK(read(control[0], &ready, 1) == 1);
    if (chosen(count, names, "waw"))
        report("waw", write_after_write(&link));
    if (chosen(count, names, "flag"))
        report("flag", flag_after_data(&link, 0));
    if (chosen(count, names, "atomic"))
        report("atomic", flag_after_data(&link, 1));
    atomic_store(&shared->over, 1);
    if (chosen(count, names, "read8"))
        report("read8", write_after_read(&link, 8));
    if (chosen(count, names, "read64"))
        report("read64", write_after_read(&link, BLOCK));
    CHECK(write(control[0], "e", 1) == 1);
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);

    /* The same queue pair, connected to itself. */
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    CHECK(!ibv_modify_qp(link.qp, &attr, IBV_QP_STATE));
    join(link.qp, &self);
    link.peer = self;
    if (chosen(count, names, "self8"))
        report("self8", write_after_read(&link, 8));
    if (chosen(count, names, "self64"))
        report("self64", write_after_read(&link, BLOCK));
    CHECK(!ibv_destroy_qp(link.qp) && !ibv_dereg_mr(link.sources) && !ibv_dereg_mr(region));
    CHECK(!ibv_destroy_cq(cq) && !ibv_dealloc_pd(pd) && !ibv_close_device(context));
    if (failures && !relaxed)
        return 1;
    printf("all fine\n");
    return 0;
}
