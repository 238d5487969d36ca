/*
 * Two processes move bytes by every operation of a reliable connection, and compare every byte.
 *
 *   exchange [options]            waits for the other
 *   exchange [options] ADDRESS    goes to it
 *
 * Works with any libibverbs. What is to be expected goes over a TCP connection, beside.
 * Ends with status 0 only if every byte was right, here and there.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOM (4u << 20)  /* Bytes of memory at each side. */
#define GUARD 64u        /* Bytes around a target that have to stay. */
#define RECEIVES 16u
#define SLOT (128u << 10) /* Bytes of each receive. */

enum operation { WRITE, WRITE_IMM, READ, SEND, SEND_IMM, CAS, ADD, OPERATIONS, SWAP, END };

static const char *const names[] = {"WRITE", "WRITE_IMM", "READ", "SEND",
                                    "SEND_IMM", "CAS", "ADD"};

struct endpoint {
    uint32_t qpn, psn, rkey;
    uint64_t address;
    union ibv_gid gid;
};

/* What the initiator sends to the target before or after an operation. */
struct note {
    uint32_t operation, offset, length, seed;
    uint64_t value;
};

static struct {
    const char *device, *address;
    int gid, port, timeout, retries, events;
    enum ibv_mtu mtu;
    unsigned rounds, seed, longest;
} options = {NULL, NULL, 0, 18600, 14, 7, 0, IBV_MTU_1024, 200, 1, 1u << 20};

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *sends, *receives;
static struct ibv_comp_channel *channel;
static struct ibv_qp *qp;
static struct ibv_mr *memory_mr, *source_mr, *receive_mr;
static uint8_t *memory, *source, *receive;
static struct endpoint here, there;
static int control = -1;

static void die(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "exchange: ");
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n");
    va_end(list);
    exit(1);
}

static void check(int good, const char *what)
{
    if (!good)
        die("%s: %s", what, strerror(errno));
}

static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint8_t pattern(uint32_t seed, uint32_t index)
{
    return (uint8_t)(mix((uint64_t)seed << 32 | index >> 3) >> (8 * (index & 7)));
}

static void fill(uint8_t *start, uint32_t length, uint32_t seed)
{
    for (uint32_t i = 0; i < length; i++)
        start[i] = pattern(seed, i);
}

static void compare(const char *what, const uint8_t *start, uint32_t length, uint32_t seed)
{
    for (uint32_t i = 0; i < length; i++)
        if (start[i] != pattern(seed, i))
            die("%s of %u bytes: byte %u is %02x, not %02x", what, length, i, start[i],
                pattern(seed, i));
}

static void report(const void *bytes, size_t length)
{
    check(send(control, bytes, length, MSG_NOSIGNAL) == (ssize_t)length, "send");
}

static void receive_exactly(void *bytes, size_t length)
{
    ssize_t got = recv(control, bytes, length, MSG_WAITALL);
    if (got != (ssize_t)length)
        die("the other side has gone");
}

/* ---- set-up ---- */

static void meet(const char *host)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE};
    struct addrinfo *list;
    char port[8];
    snprintf(port, sizeof port, "%d", options.port);
    int error = getaddrinfo(host, port, &hints, &list);
    if (error)
        die("%s: %s", host ? host : "address", gai_strerror(error));
    int one = 1;
    int listener = -1;
    if (!host)
        hints.ai_family = AF_INET;
    /* The other may not be there yet. */
    for (int tries = 0; tries < 200 && control < 0; tries++) {
        for (struct addrinfo *a = list; a && control < 0; a = a->ai_next) {
            int fd = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
            if (fd < 0)
                continue;
            setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
            if (host && !connect(fd, a->ai_addr, a->ai_addrlen))
                control = fd;
            else if (!host && !bind(fd, a->ai_addr, a->ai_addrlen) && !listen(fd, 1)) {
                listener = fd;
                control = accept(listener, NULL, NULL);
                close(listener);
            } else
                close(fd);
        }
        if (control < 0 && host)
            usleep(50000);
        else if (control < 0)
            break;
    }
    freeaddrinfo(list);
    check(control >= 0, host ? "connect" : "listen");
}

/* The index of the GID that is this address. */
static int find_gid(void)
{
    union ibv_gid wanted = {.raw = {[10] = 0xff, [11] = 0xff}}, gid;
    if (inet_pton(AF_INET, options.address, wanted.raw + 12) != 1 &&
        inet_pton(AF_INET6, options.address, wanted.raw) != 1)
        die("%s is no address", options.address);
    for (int index = 0; !ibv_query_gid(context, 1, index, &gid); index++)
        if (!memcmp(&gid, &wanted, sizeof gid))
            return index;
    die("no GID is %s", options.address);
    return -1;
}

static void open_device(void)
{
    int count;
    struct ibv_device **devices = ibv_get_device_list(&count);
    check(devices != NULL, "ibv_get_device_list");
    for (int i = 0; i < count && !context; i++)
        if (!options.device || !strcmp(options.device, ibv_get_device_name(devices[i])))
            context = ibv_open_device(devices[i]);
    ibv_free_device_list(devices);
    if (!context)
        die("there is no device %s", options.device ? options.device : "at all");
    if (options.address)
        options.gid = find_gid();
}

static void make(void)
{
    int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                 IBV_ACCESS_REMOTE_ATOMIC;
    check((pd = ibv_alloc_pd(context)) != NULL, "ibv_alloc_pd");
    memory = aligned_alloc(4096, ROOM);
    source = aligned_alloc(4096, ROOM);
    receive = aligned_alloc(4096, RECEIVES * SLOT);
    check(memory && source && receive, "memory");
    memset(memory, 0, ROOM);
    memset(source, 0, ROOM);
    memset(receive, 0, RECEIVES * SLOT);
    check((memory_mr = ibv_reg_mr(pd, memory, ROOM, access)) != NULL, "ibv_reg_mr");
    check((source_mr = ibv_reg_mr(pd, source, ROOM, IBV_ACCESS_LOCAL_WRITE)) != NULL, "ibv_reg_mr");
    receive_mr = ibv_reg_mr(pd, receive, RECEIVES * SLOT, IBV_ACCESS_LOCAL_WRITE);
    check(receive_mr != NULL, "ibv_reg_mr");
    if (options.events)
        check((channel = ibv_create_comp_channel(context)) != NULL, "ibv_create_comp_channel");
    check((sends = ibv_create_cq(context, 64, NULL, channel, 0)) != NULL, "ibv_create_cq");
    check((receives = ibv_create_cq(context, 64, NULL, channel, 0)) != NULL, "ibv_create_cq");
    struct ibv_qp_init_attr init = {
        .send_cq = sends,
        .recv_cq = receives,
        .cap = {.max_send_wr = 32, .max_recv_wr = RECEIVES, .max_send_sge = 3, .max_recv_sge = 2},
        .qp_type = IBV_QPT_RC,
    };
    check((qp = ibv_create_qp(pd, &init)) != NULL, "ibv_create_qp");
}

static void post_receive(uint32_t slot)
{
    /* Two parts, so that packets meet the seam. */
    uint8_t *start = receive + slot * SLOT;
    struct ibv_sge parts[2] = {
        {(uintptr_t)start, 1000, receive_mr->lkey},
        {(uintptr_t)start + 1000, SLOT - 1000, receive_mr->lkey},
    };
    struct ibv_recv_wr request = {.wr_id = slot, .sg_list = parts, .num_sge = 2}, *bad;
    errno = ibv_post_recv(qp, &request, &bad);
    check(!errno, "ibv_post_recv");
}

static void modify(struct ibv_qp_attr *attr, int mask, const char *what)
{
    errno = ibv_modify_qp(qp, attr, mask);
    check(!errno, what);
}

static void join(void)
{
    struct ibv_qp_attr init = {
        .qp_state = IBV_QPS_INIT,
        .port_num = 1,
        .qp_access_flags =
            IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
    };
    modify(&init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "to INIT");
    for (uint32_t slot = 0; slot < RECEIVES; slot++)
        post_receive(slot);
    here.qpn = qp->qp_num;
    /* Close to the end of their range, so that they wrap. */
    here.psn = 0xffff00 + options.seed % 200;
    here.rkey = memory_mr->rkey;
    here.address = (uintptr_t)memory;
    errno = ibv_query_gid(context, 1, options.gid, &here.gid);
    check(!errno, "ibv_query_gid");
    report(&here, sizeof here);
    receive_exactly(&there, sizeof there);
    struct ibv_qp_attr rtr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = options.mtu,
        .dest_qp_num = there.qpn,
        .rq_psn = there.psn,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = there.gid, .sgid_index = options.gid, .hop_limit = 64}},
    };
    modify(&rtr,
           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
           "to RTR");
    struct ibv_qp_attr rts = {
        .qp_state = IBV_QPS_RTS,
        .timeout = options.timeout,
        .retry_cnt = options.retries,
        .rnr_retry = 7,
        .sq_psn = here.psn,
        .max_rd_atomic = 4,
    };
    modify(&rts,
           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
               IBV_QP_MAX_QP_RD_ATOMIC,
           "to RTS");
    char ready = 1;
    report(&ready, 1);
    receive_exactly(&ready, 1);
}

/* ---- operations ---- */

static struct ibv_wc wait_for(struct ibv_cq *queue)
{
    struct ibv_wc completion;
    for (;;) {
        if (channel)
            check(!ibv_req_notify_cq(queue, 0), "ibv_req_notify_cq");
        int got = ibv_poll_cq(queue, 1, &completion);
        check(got >= 0, "ibv_poll_cq");
        if (got)
            break;
        if (channel) {
            struct ibv_cq *which;
            void *ignored;
            check(!ibv_get_cq_event(channel, &which, &ignored), "ibv_get_cq_event");
            ibv_ack_cq_events(which, 1);
        }
    }
    if (completion.status != IBV_WC_SUCCESS)
        die("a completion says: %s", ibv_wc_status_str(completion.status));
    return completion;
}

static void post(enum operation operation, struct note *note, uint64_t expected)
{
    static const enum ibv_wr_opcode codes[] = {
        IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
        IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_ATOMIC_CMP_AND_SWP,
        IBV_WR_ATOMIC_FETCH_AND_ADD};
    /* Up to three parts; a word of an atomic has one. */
    uint32_t first = note->length / 3, second = note->length / 2;
    int atomic = operation == CAS || operation == ADD;
    struct ibv_sge parts[3] = {
        {(uintptr_t)source + GUARD, first, source_mr->lkey},
        {(uintptr_t)source + GUARD + first, second - first, source_mr->lkey},
        {(uintptr_t)source + GUARD + second, note->length - second, source_mr->lkey},
    };
    struct ibv_sge whole = {(uintptr_t)source + GUARD, note->length, source_mr->lkey};
    struct ibv_send_wr request = {
        .wr_id = note->seed,
        .sg_list = atomic || note->length < 3 ? &whole : parts,
        .num_sge = atomic || note->length < 3 ? (note->length ? 1 : 0) : 3,
        .opcode = codes[operation],
        .send_flags = IBV_SEND_SIGNALED,
    };
    if (operation == WRITE_IMM || operation == SEND_IMM)
        request.imm_data = htonl(note->seed);
    if (atomic) {
        request.wr.atomic.remote_addr = there.address + note->offset;
        request.wr.atomic.rkey = there.rkey;
        request.wr.atomic.compare_add = operation == CAS ? expected : note->value;
        request.wr.atomic.swap = note->value;
    } else if (operation != SEND && operation != SEND_IMM) {
        request.wr.rdma.remote_addr = there.address + note->offset;
        request.wr.rdma.rkey = there.rkey;
    }
    struct ibv_send_wr *bad;
    errno = ibv_post_send(qp, &request, &bad);
    check(!errno, "ibv_post_send");
    struct ibv_wc completion = wait_for(sends);
    if (completion.wr_id != note->seed)
        die("completion of %" PRIu64 " for %u", completion.wr_id, note->seed);
}

static void expect_guards(const char *what, const uint8_t *start, uint32_t length)
{
    for (uint32_t i = 1; i <= GUARD; i++)
        if (start[-(long)i] != 0xa5 || start[length + i - 1] != 0xa5)
            die("%s of %u bytes: a byte beside them has changed", what, length);
}

static void set_guards(uint8_t *start, uint32_t length)
{
    memset(start - GUARD, 0xa5, GUARD);
    memset(start + length, 0xa5, GUARD);
}

static void initiate(uint64_t *word)
{
    for (unsigned round = 0; round < options.rounds; round++) {
        uint64_t chance = mix((uint64_t)options.seed << 32 | round);
        struct note note = {.operation = round % OPERATIONS, .seed = options.seed * 100000 + round};
        enum operation operation = note.operation;
        int message = operation == SEND || operation == SEND_IMM;
        /* Mostly short, sometimes long; and the edges of packets. */
        uint32_t limit = message ? SLOT : options.longest;
        uint32_t length = (chance >> 8) % ((chance & 3) ? 5000 : limit) + 1;
        if ((chance >> 60) == 0)
            length = message || operation == WRITE_IMM ? 0 : 1;
        if ((chance >> 60) == 1)
            length = 4096;
        note.length = length;
        note.offset = GUARD + 8 + (chance >> 32) % (ROOM - options.longest - 2 * GUARD - 8);
        uint64_t before = *word;
        if (operation == CAS || operation == ADD) {
            note.length = 8;
            note.offset = 0;
            note.value = mix(chance);
            *word = operation == CAS ? note.value : before + note.value;
        }
        report(&note, sizeof note);
        char ready;
        receive_exactly(&ready, 1); /* The target has set its memory. */
        set_guards(source + GUARD, note.length);
        if (operation == READ || operation == CAS || operation == ADD)
            memset(source + GUARD, 0xee, note.length);
        else
            fill(source + GUARD, note.length, note.seed);
        post(operation, &note, before);
        if (operation == READ)
            compare("READ", source + GUARD, note.length, note.seed);
        if (operation == CAS || operation == ADD) {
            uint64_t old;
            memcpy(&old, source + GUARD, 8);
            if (old != before)
                die("%s found %" PRIx64 ", not %" PRIx64, names[operation], old, before);
        }
        expect_guards(names[operation], source + GUARD, note.length);
        report(&ready, 1); /* It is done: now the target compares. */
        receive_exactly(&ready, 1);
    }
    struct note note = {.operation = SWAP};
    report(&note, sizeof note);
}

static void take_message(const struct note *note)
{
    struct ibv_wc completion = wait_for(receives);
    int immediate = note->operation != SEND;
    if (immediate != !!(completion.wc_flags & IBV_WC_WITH_IMM))
        die("immediate data where there should be none, or none");
    if (immediate && ntohl(completion.imm_data) != note->seed)
        die("immediate data %x, not %x", ntohl(completion.imm_data), note->seed);
    if (note->operation == WRITE_IMM && completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
        die("a WRITE with immediate data completed as something else");
    if (completion.byte_len != note->length)
        die("%u bytes received, not %u", completion.byte_len, note->length);
    if (note->operation != WRITE_IMM)
        compare(names[note->operation], receive + completion.wr_id * SLOT, note->length,
                note->seed);
    post_receive((uint32_t)completion.wr_id);
}

static void serve(uint64_t *word)
{
    memcpy(memory, word, 8);
    for (;;) {
        struct note note;
        receive_exactly(&note, sizeof note);
        if (note.operation == SWAP)
            return;
        uint8_t *target = memory + note.offset;
        int atomic = note.operation == CAS || note.operation == ADD;
        if (!atomic) {
            set_guards(target, note.length);
            if (note.operation == READ)
                fill(target, note.length, note.seed);
            else
                memset(target, 0x11, note.length);
        }
        char ready = 1;
        report(&ready, 1);
        receive_exactly(&ready, 1);
        if (note.operation == WRITE_IMM || note.operation == SEND || note.operation == SEND_IMM)
            take_message(&note);
        if (note.operation == WRITE || note.operation == WRITE_IMM)
            compare(names[note.operation], target, note.length, note.seed);
        if (atomic) {
            uint64_t now;
            memcpy(&now, memory, 8);
            *word = note.operation == CAS ? note.value : *word + note.value;
            if (now != *word)
                die("after %s the word is %" PRIx64 ", not %" PRIx64, names[note.operation], now,
                    *word);
        } else {
            expect_guards(names[note.operation], target, note.length);
        }
        report(&ready, 1);
    }
}

static void usage(const char *program)
{
    fprintf(stderr,
            "usage: %s [-d DEVICE] [-g GID_INDEX | -a GID_ADDRESS] [-p TCP_PORT] [-m MTU] [-n ROUNDS] [-s SEED]\n"
            "       [-l LONGEST] [-t TIMEOUT] [-e] [ADDRESS]\n",
            program);
    exit(2);
}

int main(int argc, char **argv)
{
    int option;
    while ((option = getopt(argc, argv, "a:d:g:p:m:n:s:l:t:e")) != -1) {
        switch (option) {
        case 'a': options.address = optarg; break;
        case 'd': options.device = optarg; break;
        case 'g': options.gid = atoi(optarg); break;
        case 'p': options.port = atoi(optarg); break;
        case 'n': options.rounds = (unsigned)atoi(optarg); break;
        case 's': options.seed = (unsigned)atoi(optarg); break;
        case 'l': options.longest = (unsigned)atoi(optarg); break;
        case 't': options.timeout = atoi(optarg); break;
        case 'e': options.events = 1; break;
        case 'm':
            options.mtu = 0;
            for (int mtu = 256; mtu <= atoi(optarg) && options.mtu < IBV_MTU_4096; mtu *= 2)
                options.mtu++;
            break;
        default: usage(argv[0]);
        }
    }
    if (options.longest < 3 || options.longest > ROOM / 2 || !options.mtu)
        usage(argv[0]);
    const char *host = optind < argc ? argv[optind] : NULL;
    meet(host);
    open_device();
    make();
    join();
    /* Each in turn works on the other's memory. */
    uint64_t mine = 7, theirs = 7;
    if (host) {
        initiate(&theirs);
        serve(&mine);
    } else {
        serve(&mine);
        initiate(&theirs);
    }
    printf("%u operations each way, every byte compared\n", options.rounds);
    check(!ibv_destroy_qp(qp), "ibv_destroy_qp");
    check(!ibv_destroy_cq(sends) && !ibv_destroy_cq(receives), "ibv_destroy_cq");
    check(!ibv_dereg_mr(memory_mr) && !ibv_dereg_mr(source_mr) && !ibv_dereg_mr(receive_mr),
          "ibv_dereg_mr");
    if (channel)
        check(!ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
    check(!ibv_dealloc_pd(pd), "ibv_dealloc_pd");
    check(!ibv_close_device(context), "ibv_close_device");
    return 0;
}
