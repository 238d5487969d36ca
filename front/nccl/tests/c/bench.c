/* Rate and delay of the plug-in between two processes, beside a plain TCP connection of the same
 * processes. Prints medians of five runs, which alternate.
 *
 * bench LIBRARY VERSION [MESSAGES [ROUND TRIPS]] */
#include "pair.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define RUNS 5
#define MESSAGE (1 << 20)
/* Messages in flight, as NCCL has in a channel. */
#define DEPTH 8
#define WORD 8

static int messages = 1000, trips = 5000;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Polls, as the plug-in and NCCL's own sockets do. */
static void whole(int socket, char *data, size_t size, int sends)
{
    while (size > 0) {
        ssize_t moved = sends ? send(socket, data, size, MSG_DONTWAIT)
                              : recv(socket, data, size, MSG_DONTWAIT);
        CHECK(moved > 0 || (moved < 0 && errno == EAGAIN));
        if (moved > 0) {
            data += moved;
            size -= (size_t)moved;
        }
    }
}

/* A TCP connection between the processes. */
static int connect_tcp(int is_parent, int listener, struct sockaddr_in *address)
{
    int yes = 1, connection;
    if (is_parent) {
        connection = accept(listener, NULL, NULL);
    } else {
        connection = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(connect(connection, (struct sockaddr *)address, sizeof *address) == 0);
    }
    CHECK(connection >= 0);
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return connection;
}

/* Bytes per second from the child to the parent. */
static double tcp_rate(int socket, int is_parent, char *data)
{
    double start = now();
    for (int i = 0; i < messages; i++)
        whole(socket, data, MESSAGE, !is_parent);
    whole(socket, data, 1, is_parent);
    return (double)messages * MESSAGE / (now() - start);
}

/* Half of a round trip in seconds. */
static double tcp_delay(int socket, int is_parent, char *data)
{
    double start = now();
    for (int i = 0; i < trips; i++) {
        whole(socket, data, WORD, is_parent);
        whole(socket, data, WORD, !is_parent);
    }
    return (now() - start) / trips / 2;
}

static double plugin_rate(struct pair *pair, int is_parent, struct buffer *from, struct buffer *to)
{
    void *requests[DEPTH] = {NULL};
    double start = now();
    for (int i = 0; i < messages + DEPTH; i++) {
        int at = i % DEPTH;
        if (requests[at] != NULL)
            finish(requests[at], NULL);
        requests[at] = NULL;
        if (i < messages && is_parent)
            requests[at] = post_recv(pair, to, (size_t)at * MESSAGE, MESSAGE, 0);
        else if (i < messages)
            requests[at] = post_send(pair, from, (size_t)at * MESSAGE, MESSAGE, 0);
    }
    return (double)messages * MESSAGE / (now() - start);
}

/* Receives are posted ahead, and sends are tested when their place is needed, as NCCL does. */
static double plugin_delay(struct pair *pair, int is_parent, struct buffer *from, struct buffer *to)
{
    void *sends[DEPTH] = {NULL}, *recvs[DEPTH];
    for (int i = 0; i < DEPTH; i++)
        recvs[i] = post_recv(pair, to, (size_t)i * WORD, WORD, 0);
    double start = now();
    for (int i = 0; i < trips + DEPTH; i++) {
        int at = i % DEPTH;
        if (sends[at] != NULL)
            finish(sends[at], NULL);
        sends[at] = NULL;
        if (i >= trips)
            continue;
        if (is_parent)
            sends[at] = post_send(pair, from, (size_t)at * WORD, WORD, 0);
        finish(recvs[at], NULL);
        if (!is_parent)
            sends[at] = post_send(pair, from, (size_t)at * WORD, WORD, 0);
        if (i + DEPTH < trips)
            recvs[at] = post_recv(pair, to, (size_t)at * WORD, WORD, 0);
    }
    return (now() - start) / trips / 2;
}

static int compare(const void *one, const void *other)
{
    double difference = *(const double *)one - *(const double *)other;
    return difference < 0 ? -1 : difference > 0;
}

static void print(const char *what, double *runs, double factor, const char *unit)
{
    qsort(runs, RUNS, sizeof *runs, compare);
    printf("%-28s %8.2f %s (%.2f to %.2f)\n", what, runs[RUNS / 2] * factor, unit,
           runs[0] * factor, runs[RUNS - 1] * factor);
}

static struct pair connect_plugin(void *context, int *out, int *in)
{
    struct pair pair = {context, context, NULL, NULL};
    char own[HANDLE_SIZE], others[HANDLE_SIZE];
    void *listener;
    OK(net_listen(context, 0, own, &listener));
    CHECK(write(out[1], own, sizeof own) == sizeof own);
    CHECK(read(in[0], others, sizeof others) == sizeof others);
    while (pair.send == NULL || pair.recv == NULL) {
        if (pair.send == NULL)
            OK(net_connect(context, 0, others, &pair.send));
        if (pair.recv == NULL)
            OK(net_accept(listener, &pair.recv));
    }
    OK(net_close_listen(listener));
    return pair;
}

static void measure(int is_parent, int tcp, struct pair *pair)
{
    double rates[2][RUNS], delays[2][RUNS];
    struct buffer from = make_buffer(pair->send, DEPTH * MESSAGE);
    struct buffer to = make_buffer(pair->recv, DEPTH * MESSAGE);
    fill(from.data, from.size, 1);
    fill(to.data, to.size, 2);
    for (int run = 0; run < RUNS; run++) {
        rates[0][run] = plugin_rate(pair, is_parent, &from, &to);
        rates[1][run] = tcp_rate(tcp, is_parent, (char *)(is_parent ? to.data : from.data));
        delays[0][run] = plugin_delay(pair, is_parent, &from, &to);
        delays[1][run] = tcp_delay(tcp, is_parent, (char *)to.data);
    }
    if (is_parent) {
        print("plug-in, 1 MiB messages", rates[0], 1e-9, "GB/s");
        print("TCP, 1 MiB messages", rates[1], 1e-9, "GB/s");
        print("plug-in, half round trip", delays[0], 1e6, "us");
        print("TCP, half round trip", delays[1], 1e6, "us");
    }
    free_buffer(&from);
    free_buffer(&to);
}

int main(int count, char **arguments)
{
    CHECK(count >= 3);
    messages = count > 3 ? atoi(arguments[3]) : messages;
    trips = count > 4 ? atoi(arguments[4]) : trips;
    int to_child[2], to_parent[2];
    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
    struct sockaddr_in address = {.sin_family = AF_INET};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(listener, 1) == 0);
    CHECK(getsockname(listener, (struct sockaddr *)&address, &length) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    begin_time_limit(300);
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(child == 0, &core);
    /* A machine with one core measures, too. */
    (void)sched_setaffinity(0, sizeof core, &core);
    load(arguments[1], atoi(arguments[2]));
    void *context;
    OK(net_init(&context));
    struct pair pair = child != 0 ? connect_plugin(context, to_child, to_parent)
                                  : connect_plugin(context, to_parent, to_child);
    measure(child != 0, connect_tcp(child != 0, listener, &address), &pair);
    close_pair(&pair);
    OK(net_finalize(context));
    if (child != 0)
        CHECK(waitpid(child, NULL, 0) == child);
    return 0;
}
