/* Drives every call of one version, with both ends in this process.
 *
 * exchange LIBRARY VERSION [BYTES]: BYTES is the size of the largest message. */
#include "pair.h"
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

static void *one, *other; /* contexts */

static int threads_of_process(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/task");
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

static void properties_are_sensible(void)
{
    int count = 0;
    struct properties found;
    OK(net_devices(&count));
    CHECK(count >= 1);
    for (int device = 0; device < count; device++) {
        OK(net_properties(device, &found));
        CHECK(strlen(found.name) > 0 && found.ptr_support == PTR_HOST);
        CHECK(found.speed > 0 && found.port == 1 && found.max_recvs == 8 && found.max_comms > 1000);
        CHECK(found.device_type == 0 && found.device_version == 0 && found.force_flush == 0);
        CHECK(found.vnic_count == 1 && found.vnic_first == device && found.max_multi == 1);
        CHECK(found.max_p2p == 1 << 30 && found.max_coll == 1 << 30);
        CHECK(found.rail == -1 && found.plane == -1 && found.latency > 0 && found.guid != 0);
        CHECK(strcmp(found.name, "lo") != 0 || found.pci_path == NULL);
        if (found.pci_path != NULL)
            CHECK(access(found.pci_path, F_OK) == 0);
    }
    FAILS(BAD_ARGUMENT, net_properties(count, &found));
    FAILS(BAD_ARGUMENT, net_properties(-1, &found));
}

static void connections_in_all_orders(void)
{
    for (int accepts = 0; accepts < 3; accepts++) {
        struct pair pair = connect_pair(one, other, accepts);
        close_pair(&pair);
    }
    /* One end does not need the calls of the other. Several senders use one listener. */
    char handle[HANDLE_SIZE], copies[3][HANDLE_SIZE];
    void *listener, *senders[3] = {NULL}, *receivers[3] = {NULL};
    OK(net_listen(other, 0, handle, &listener));
    for (int i = 0; i < 3; i++)
        memcpy(copies[i], handle, sizeof handle);
    for (int i = 0; i < 3; i++)
        while (senders[i] == NULL)
            OK(net_connect(one, 0, copies[i], &senders[i]));
    for (int i = 0; i < 3; i++)
        while (receivers[i] == NULL)
            OK(net_accept(listener, &receivers[i]));
    for (int i = 0; i < 3; i++) {
        OK(net_close_recv(receivers[i]));
        OK(net_close_send(senders[i]));
    }
    /* Senders that were never accepted notice that the listener has been closed. */
    senders[0] = NULL;
    while (senders[0] == NULL)
        OK(net_connect(one, 0, handle, &senders[0]));
    OK(net_close_listen(listener));
    int byte, result = SUCCESS;
    void *request = NULL;
    while (result == SUCCESS)
        result = net_isend(senders[0], &byte, 0, 0, NULL, &request);
    CHECK(result == REMOTE && request == NULL);
    OK(net_close_send(senders[0]));
}

static void every_device_carries_messages(void)
{
    int count = 0;
    OK(net_devices(&count));
    for (int device = 0; device < count; device++) {
        struct pair pair = connect_by(device, one, other, 0);
        struct buffer from = make_buffer(pair.send, 30000), to = make_buffer(pair.recv, 30000);
        fill(from.data, from.size, 77);
        void *recv = post_recv(&pair, &to, 0, to.size, 0);
        finish(post_send(&pair, &from, 0, from.size, 0), NULL);
        finish(recv, NULL);
        CHECK(is_filled(to.data, to.size, 77));
        free_buffer(&from);
        free_buffer(&to);
        close_pair(&pair);
    }
}

static void messages_of_all_sizes(size_t largest)
{
    size_t sizes[] = {0, 1, 7, 64, 4097, 65536, 1 << 20, largest};
    struct pair pair = connect_pair(one, other, 0);
    struct buffer from = make_buffer(pair.send, largest), to = make_buffer(pair.recv, largest);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (int receive_first = 0; receive_first < 2; receive_first++) {
            size_t size = sizes[i];
            int sent = -1, received = -1;
            void *send = NULL, *recv;
            fill(from.data, size, i);
            memset(to.data, 0xee, size + (size < largest));
            if (receive_first) {
                recv = post_recv(&pair, &to, 0, size, 5);
                send = post_send(&pair, &from, 0, size, 5);
            } else {
                /* No buffer has been announced. */
                OK(net_isend(pair.send, from.data, size, 5, from.mhandle, &send));
                CHECK(send == NULL);
                recv = post_recv(&pair, &to, 0, size, 5);
                send = post_send(&pair, &from, 0, size, 5);
            }
            finish(recv, &received);
            CHECK((size_t)received == size && is_filled(to.data, size, i));
            CHECK(size == largest || to.data[size] == 0xee);
            finish(send, &sent);
            CHECK((size_t)sent == size);
        }
    }
    free_buffer(&from);
    free_buffer(&to);
    close_pair(&pair);
}

static void receives_larger_than_messages(void)
{
    struct pair pair = connect_pair(one, other, 0);
    struct buffer from = make_buffer(pair.send, 8192), to = make_buffer(pair.recv, 8192);
    fill(from.data, 8192, 3);
    memset(to.data, 0, 8192);
    int size = 0;
    /* A place within the memory, at an odd address. */
    void *recv = post_recv(&pair, &to, 1001, 7000, 1);
    void *send = post_send(&pair, &from, 0, 333, 1);
    finish(send, NULL);
    finish(recv, &size);
    CHECK(size == 333 && is_filled(to.data + 1001, 333, 3));
    CHECK(to.data[1000] == 0 && to.data[1334] == 0);

    /* A message that is larger than the receive is an error of the caller, and sends nothing. */
    recv = post_recv(&pair, &to, 0, 100, 2);
    void *request = NULL;
    int result = SUCCESS;
    while (result == SUCCESS && request == NULL)
        result = net_isend(pair.send, from.data, 101, 2, from.mhandle, &request);
    CHECK(result == BAD_USAGE && request == NULL);
    send = post_send(&pair, &from, 0, 100, 2);
    finish(recv, &size);
    finish(send, NULL);
    CHECK(size == 100 && is_filled(to.data, 100, 3));

    /* Completion is optional for these; bytes and sizes are the same. */
    void *data = to.data;
    size_t wanted = 4096;
    int tag = 9;
    void *hinted = OPTIONAL_COMPLETION;
    fill(from.data, 4096, 12);
    OK(net_irecv(pair.recv, 1, &data, &wanted, &tag, &to.mhandle, &hinted));
    CHECK(hinted != NULL && hinted != OPTIONAL_COMPLETION);
    send = post_send(&pair, &from, 0, 4096, 9);
    finish(hinted, &size);
    finish(send, NULL);
    CHECK(size == 4096 && is_filled(to.data, 4096, 12));

    /* A message without bytes needs no place, also with the handle of some memory. */
    void *nowhere = NULL, *empty = NULL;
    wanted = 0;
    OK(net_irecv(pair.recv, 1, &nowhere, &wanted, &tag, &to.mhandle, &empty));
    CHECK(empty != NULL);
    send = NULL;
    while (send == NULL)
        OK(net_isend(pair.send, NULL, 0, 9, from.mhandle, &send));
    finish(empty, &size);
    finish(send, NULL);
    CHECK(size == 0);

    /* There is nothing to flush in host memory. */
    void *flush = &flush;
    OK(net.calls.iflush(pair.recv, 1, &data, &size, &to.mhandle, &flush));
    CHECK(flush == NULL);
    free_buffer(&from);
    free_buffer(&to);
    close_pair(&pair);
}

#define GROUP 8
#define PIECE 3000

static void grouped_receives(void)
{
    struct pair pair = connect_pair(one, other, 0);
    struct buffer from = make_buffer(pair.send, GROUP * PIECE);
    struct buffer to = make_buffer(pair.recv, GROUP * PIECE);
    for (int shift = 0; shift < GROUP; shift++) {
        int count = shift + 1, tags[GROUP], found[GROUP];
        size_t sizes[GROUP];
        void *data[GROUP], *mhandles[GROUP], *recv = NULL, *sends[GROUP];
        for (int i = 0; i < count; i++) {
            tags[i] = 100 + i, sizes[i] = PIECE;
            data[i] = to.data + i * PIECE, mhandles[i] = to.mhandle;
            fill(from.data + i * PIECE, PIECE, (unsigned)(shift * GROUP + i));
        }
        OK(net_irecv(pair.recv, count, data, sizes, tags, mhandles, &recv));
        CHECK(recv != NULL);
        /* The messages come in another order than the buffers, and each is shorter than its buffer
         * by its number. */
        for (int i = 0; i < count; i++) {
            int at = (i * 3 + shift) % count;
            if (count % 3 == 0)
                at = count - 1 - i;
            sends[i] = post_send(&pair, &from, (size_t)at * PIECE, (size_t)(PIECE - at), 100 + at);
        }
        for (int i = 0; i < count; i++)
            finish(sends[i], NULL);
        memset(found, 0, sizeof found);
        finish(recv, found);
        for (int i = 0; i < count; i++) {
            unsigned seed = (unsigned)(shift * GROUP + i);
            CHECK(found[i] == PIECE - i && is_filled(to.data + i * PIECE, PIECE - (size_t)i, seed));
        }
    }
    free_buffer(&from);
    free_buffer(&to);
    close_pair(&pair);
}

#define SMALL 512

static void all_requests_in_flight(void)
{
    struct pair pair = connect_pair(one, other, 0);
    size_t total = (size_t)REQUESTS * GROUP * SMALL;
    struct buffer from = make_buffer(pair.send, total), to = make_buffer(pair.recv, total);
    for (int round = 0; round < 3; round++) {
        void *recvs[REQUESTS], *sends[REQUESTS * GROUP], *data[GROUP], *mhandles[GROUP];
        size_t sizes[GROUP];
        int tags[GROUP], done;
        fill(from.data, total, (unsigned)round);
        memset(to.data, 0, total);
        for (int i = 0; i <= REQUESTS; i++) {
            void *request = NULL;
            for (int k = 0; k < GROUP; k++) {
                tags[k] = k, sizes[k] = SMALL, mhandles[k] = to.mhandle;
                data[k] = to.data + (i % REQUESTS * GROUP + k) * SMALL;
            }
            /* Announcements of the round before may be under way for a moment. */
            do
                OK(net_irecv(pair.recv, GROUP, data, sizes, tags, mhandles, &request));
            while (request == NULL && i < REQUESTS);
            CHECK(i < REQUESTS ? request != NULL : request == NULL);
            if (i < REQUESTS)
                recvs[i] = request;
        }
        for (int i = 0; i < REQUESTS; i++) {
            OK(net_test(recvs[i], &done, NULL));
            CHECK(!done);
        }
        for (int i = 0; i < REQUESTS * GROUP; i++)
            sends[i] = post_send(&pair, &from, (size_t)i * SMALL, SMALL, i % GROUP);
        /* They end in any order; they are tested from the last to the first. */
        for (int i = REQUESTS * GROUP - 1; i >= 0; i--)
            finish(sends[i], NULL);
        for (int i = REQUESTS - 1; i >= 0; i--)
            finish(recvs[i], tags);
        CHECK(is_filled(to.data, total, (unsigned)round));
    }
    free_buffer(&from);
    free_buffer(&to);
    close_pair(&pair);
}

static void illegal_arguments(void)
{
    struct pair pair = connect_pair(one, other, 0);
    struct buffer from = make_buffer(pair.send, 4096), to = make_buffer(pair.recv, 4096);
    void *request = NULL, *data = to.data, *mhandle = NULL;
    void *places[9] = {to.data}, *mhandles[9] = {to.mhandle};
    size_t size = 4096, sizes[9] = {1};
    int tag = 0, tags[9] = {0}, done;
    FAILS(BAD_ARGUMENT, net.calls.reg_mr(pair.send, from.data, 64, PTR_CUDA, &mhandle));
    FAILS(BAD_ARGUMENT, net_reg(pair.send, NULL, 64, &mhandle));
    CHECK(mhandle == NULL);
    FAILS(BAD_ARGUMENT, net_irecv(pair.recv, 9, places, sizes, tags, mhandles, &request));
    FAILS(BAD_ARGUMENT, net_irecv(pair.recv, 0, &data, &size, &tag, &to.mhandle, &request));
    size = 4097;
    FAILS(BAD_ARGUMENT, net_irecv(pair.recv, 1, &data, &size, &tag, &to.mhandle, &request));
    FAILS(BAD_ARGUMENT, net_irecv(pair.send, 1, &data, &size, &tag, &to.mhandle, &request));
    FAILS(BAD_ARGUMENT, net_isend(pair.recv, from.data, 1, 0, from.mhandle, &request));
    FAILS(BAD_ARGUMENT, net_close_recv(pair.send));
    FAILS(BAD_ARGUMENT, net_close_send(pair.recv));
    FAILS(BAD_ARGUMENT, net_test(NULL, &done, NULL));
    FAILS(BAD_ARGUMENT, net_close_listen(NULL));
    char handle[HANDLE_SIZE] = {0};
    void *comm = NULL;
    FAILS(BAD_ARGUMENT, net_connect(one, 0, handle, &comm));
    /* Memory outside the registered is refused when a buffer is there for it. */
    void *recv = post_recv(&pair, &to, 0, 4096, 3);
    void *send = post_send(&pair, &from, 0, 4096, 3);
    finish(send, NULL);
    finish(recv, NULL);
    recv = post_recv(&pair, &to, 0, 4096, 3);
    int result = SUCCESS;
    while (result == SUCCESS && request == NULL)
        result = net_isend(pair.send, from.data + 1, 4096, 3, from.mhandle, &request);
    CHECK(result == BAD_ARGUMENT && request == NULL);
    finish(post_send(&pair, &from, 0, 4096, 3), NULL);
    finish(recv, NULL);
    FAILS(BAD_USAGE, net_test(recv, &done, NULL));
    free_buffer(&from);
    free_buffer(&to);
    close_pair(&pair);
}

/* Closes and frees with requests open, in several orders, as when a program is aborted. */
static void closing_with_open_requests(size_t largest)
{
    for (int order = 0; order < 6; order++) {
        struct pair pair = connect_pair(one, other, 0);
        struct buffer from = make_buffer(pair.send, largest);
        struct buffer to = make_buffer(pair.recv, largest);
        void *recvs[4], *sends[2] = {NULL};
        for (int i = 0; i < 4; i++)
            recvs[i] = post_recv(&pair, &to, 0, largest, i);
        for (int i = 0; i < 2; i++)
            sends[i] = post_send(&pair, &from, 0, largest, i);
        switch (order) {
        case 0: /* The sender goes first: the receiver's requests fail. */
            free_buffer(&from);
            OK(net_close_send(pair.send));
            CHECK(outcome(recvs[3]) == REMOTE);
            free_buffer(&to);
            OK(net_close_recv(pair.recv));
            break;
        case 1: /* The receiver goes first: the sender's fail, if they have not ended. */
            free_buffer(&to);
            OK(net_close_recv(pair.recv));
            for (int i = 0; i < 2; i++)
                (void)outcome(sends[i]);
            free_buffer(&from);
            OK(net_close_send(pair.send));
            break;
        case 2: /* Connections are closed before memory is deregistered. */
            OK(net_close_recv(pair.recv));
            OK(net_close_send(pair.send));
            free_buffer(&from);
            free_buffer(&to);
            break;
        case 3:
            OK(net_close_send(pair.send));
            free_buffer(&to);
            OK(net_close_recv(pair.recv));
            free_buffer(&from);
            break;
        case 4: /* Memory goes away under receives. */
            free_buffer(&to);
            CHECK(outcome(recvs[3]) == BAD_USAGE);
            OK(net_close_recv(pair.recv));
            free_buffer(&from);
            OK(net_close_send(pair.send));
            break;
        default: /* Memory goes away under sends. */
            free_buffer(&from);
            CHECK(outcome(recvs[3]) == REMOTE);
            OK(net_close_send(pair.send));
            free_buffer(&to);
            OK(net_close_recv(pair.recv));
        }
    }
}

/* A receiver that is closed as soon as it has its data does not take the sender's completion. */
static void a_receiver_that_leaves_early(void)
{
    for (int i = 0; i < 20; i++) {
        struct pair pair = connect_pair(one, other, 0);
        struct buffer from = make_buffer(pair.send, 50000), to = make_buffer(pair.recv, 50000);
        fill(from.data, from.size, (unsigned)i);
        void *recv = post_recv(&pair, &to, 0, to.size, 0);
        void *send = post_send(&pair, &from, 0, from.size, 0);
        finish(recv, NULL);
        CHECK(is_filled(to.data, to.size, (unsigned)i));
        free_buffer(&to);
        OK(net_close_recv(pair.recv));
        finish(send, NULL);
        free_buffer(&from);
        OK(net_close_send(pair.send));
    }
}

/* A communicator ends with connections, a listener and an attempt to connect left. */
static void a_communicator_that_ends_early(void)
{
    void *early, *listener, *comm = NULL;
    char handle[HANDLE_SIZE];
    OK(net_init(&early));
    struct pair pair = connect_pair(early, other, 0);
    struct buffer from = make_buffer(pair.send, 4096), to = make_buffer(pair.recv, 4096);
    void *recv = post_recv(&pair, &to, 0, 4096, 0);
    OK(net_listen(early, 0, handle, &listener));
    OK(net_connect(early, 0, handle, &comm));
    OK(net_finalize(early));
    CHECK(outcome(recv) == REMOTE);
    int result = SUCCESS;
    void *request = NULL;
    while (result == SUCCESS && request == NULL)
        result = net_isend(pair.send, from.data, 1, 7, from.mhandle, &request);
    CHECK(result == REMOTE && request == NULL);
    free_buffer(&from);
    free_buffer(&to);
    if (comm != NULL)
        OK(net_close_send(comm));
    OK(net_close_listen(listener));
    close_pair(&pair);
}

#define STREAM 40

/* One connection of several that are in use at once. */
static void *stream(void *argument)
{
    unsigned seed = (unsigned)(size_t)argument;
    struct pair pair = connect_pair(seed % 2 ? one : other, seed % 2 ? other : one, 0);
    for (int i = 0; i < STREAM; i++) {
        size_t size = 1 + (size_t)(seed * 7919 + (unsigned)i * 104729) % 100000;
        struct buffer from = make_buffer(pair.send, size), to = make_buffer(pair.recv, size);
        fill(from.data, size, seed + (unsigned)i);
        void *recv = post_recv(&pair, &to, 0, size, i);
        void *send = post_send(&pair, &from, 0, size, i);
        finish(send, NULL);
        finish(recv, NULL);
        CHECK(is_filled(to.data, size, seed + (unsigned)i));
        free_buffer(&from);
        free_buffer(&to);
    }
    close_pair(&pair);
    return NULL;
}

static void threads(void)
{
    pthread_t all[4];
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&all[i], NULL, stream, (void *)(i + 1)) == 0);
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
}

int main(int count, char **arguments)
{
    CHECK(count >= 3);
    int version = atoi(arguments[2]);
    size_t largest = count > 3 ? (size_t)atol(arguments[3]) : 8 << 20;
    begin_time_limit(100);
    int before = threads_of_process();
    for (int loads = 0; loads < 3; loads++) {
        load(arguments[1], version);
        CHECK(net.version == version);
        OK(net_init(&one));
        OK(net_init(&other));
        CHECK((one != NULL) == (version >= 11) && (one == NULL || one != other));
        properties_are_sensible();
        messages_of_all_sizes(loads == 0 ? largest : 1 << 20);
        if (loads == 0) {
            every_device_carries_messages();
            connections_in_all_orders();
            receives_larger_than_messages();
            grouped_receives();
            all_requests_in_flight();
            illegal_arguments();
            closing_with_open_requests(largest);
            a_receiver_that_leaves_early();
            if (version >= 11)
                a_communicator_that_ends_early();
            threads();
        }
        OK(net_finalize(one));
        OK(net_finalize(other));
        /* Nothing runs once the last communicator is gone; NCCL unloads the library then. The
           kernel lists a thread for a moment after it has been joined. */
        while (threads_of_process() != before)
            sched_yield();
        unload();
    }
    return 0;
}
