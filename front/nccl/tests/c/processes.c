/* Two processes, as two ranks are: the parent receives, the child sends.
 *
 * processes LIBRARY VERSION exchange        messages in both directions, with bytes compared
 * processes LIBRARY VERSION sender-dies     the child is killed while the parent receives
 * processes LIBRARY VERSION receiver-dies   the parent is gone while the child sends
 * processes LIBRARY VERSION nobody-listens  the child connects to a process that has ended
 * processes LIBRARY VERSION many            hundreds of connections in each direction
 *
 * If CHILD_NETNS names the file of a network namespace, the child is there: on another host. */
#include "pair.h"
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS 60
#define DEPTH 8
#define LARGEST 300000

static int to_child[2], to_parent[2];

static void tell(int *pipe, const void *data, size_t size)
{
    CHECK(write(pipe[1], data, size) == (ssize_t)size);
}

static void hear(int *pipe, void *data, size_t size)
{
    CHECK(read(pipe[0], data, size) == (ssize_t)size);
}

/* Both directions between two processes: a sending and a receiving end. */
static struct pair connect_process(void *context, int *out, int *in)
{
    struct pair pair = {context, context, NULL, NULL};
    char own[HANDLE_SIZE], others[HANDLE_SIZE];
    void *listener;
    OK(net_listen(context, 0, own, &listener));
    tell(out, own, sizeof own);
    hear(in, others, sizeof others);
    while (pair.send == NULL || pair.recv == NULL) {
        if (pair.send == NULL)
            OK(net_connect(context, 0, others, &pair.send));
        if (pair.recv == NULL)
            OK(net_accept(listener, &pair.recv));
    }
    OK(net_close_listen(listener));
    return pair;
}

static size_t size_of_round(int round)
{
    return (size_t)(round * 2654435761u % LARGEST);
}

/* Streams of messages in both directions, with DEPTH in flight in each. */
static void exchange(struct pair *pair, unsigned own, unsigned others)
{
    struct buffer from = make_buffer(pair->send, DEPTH * LARGEST);
    struct buffer to = make_buffer(pair->recv, DEPTH * LARGEST);
    void *sends[DEPTH] = {NULL}, *recvs[DEPTH] = {NULL};
    int sent = 0, received = 0, posted = 0, done;
    while (sent < ROUNDS || received < ROUNDS) {
        int at = posted % DEPTH, tag = 7;
        void *data = to.data + at * LARGEST;
        size_t size = LARGEST;
        if (posted < ROUNDS && posted - received < DEPTH && recvs[at] == NULL) {
            OK(net_irecv(pair->recv, 1, &data, &size, &tag, &to.mhandle, &recvs[at]));
            posted += recvs[at] != NULL;
        }
        at = sent % DEPTH;
        if (sends[at] != NULL) {
            OK(net_test(sends[at], &done, NULL));
            sends[at] = done ? NULL : sends[at];
        }
        if (sent < ROUNDS && sends[at] == NULL) {
            fill(from.data + at * LARGEST, size_of_round(sent), own + (unsigned)sent);
            OK(net_isend(pair->send, from.data + at * LARGEST, size_of_round(sent), tag,
                         from.mhandle, &sends[at]));
            sent += sends[at] != NULL;
        }
        at = received % DEPTH;
        if (received < posted) {
            int arrived = -1;
            OK(net_test(recvs[at], &done, &arrived));
            if (done) {
                CHECK((size_t)arrived == size_of_round(received));
                CHECK(is_filled(to.data + at * LARGEST, (size_t)arrived,
                                others + (unsigned)received));
                recvs[at] = NULL;
                received++;
            }
        }
    }
    for (int i = 0; i < DEPTH; i++)
        if (sends[i] != NULL)
            finish(sends[i], NULL);
    free_buffer(&from);
    free_buffer(&to);
}

static void both_exchange(int is_parent)
{
    void *context;
    OK(net_init(&context));
    struct pair pair = is_parent ? connect_process(context, to_child, to_parent)
                                 : connect_process(context, to_parent, to_child);
    exchange(&pair, is_parent ? 1000 : 2000, is_parent ? 2000 : 1000);
    close_pair(&pair);
    OK(net_finalize(context));
    CHECK(warnings == 0);
}

/* The process that dies posts what it can, and is killed by the other. */
static void one_dies(int is_parent, int sender_dies, pid_t child)
{
    void *context;
    OK(net_init(&context));
    struct pair pair = is_parent ? connect_process(context, to_child, to_parent)
                                 : connect_process(context, to_parent, to_child);
    struct buffer from = make_buffer(pair.send, LARGEST), to = make_buffer(pair.recv, LARGEST);
    char byte = 0;
    if (!is_parent) {
        if (!sender_dies)
            for (int i = 0; i < DEPTH; i++)
                post_recv(&pair, &to, 0, LARGEST, i);
        tell(to_parent, &byte, 1);
        for (;;)
            pause();
    }
    hear(to_parent, &byte, 1);
    void *request, *more = NULL;
    if (sender_dies) {
        request = post_recv(&pair, &to, 0, LARGEST, 0);
    } else {
        /* One message arrives, and then the receiver is gone. */
        finish(post_send(&pair, &from, 0, LARGEST, 0), NULL);
        request = NULL;
    }
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    if (request == NULL)
        request = post_send(&pair, &from, 0, LARGEST, 1);
    CHECK(outcome(request) == REMOTE);
    CHECK(net_isend(pair.send, from.data, 1, 2, from.mhandle, &more) != SUCCESS || more == NULL);
    free_buffer(&from);
    free_buffer(&to);
    close_pair(&pair);
    OK(net_finalize(context));
}

#define MANY 300

/* As many connections as a rank has with all others together, at once. */
static void many_connections(int is_parent)
{
    static struct pair pairs[MANY];
    static char own[MANY][HANDLE_SIZE], others[MANY][HANDLE_SIZE];
    static void *listeners[MANY], *sends[MANY], *recvs[MANY];
    int *out = is_parent ? to_child : to_parent, *in = is_parent ? to_parent : to_child;
    int left = 2 * MANY;
    void *context;
    OK(net_init(&context));
    for (int i = 0; i < MANY; i++) {
        OK(net_listen(context, 0, own[i], &listeners[i]));
        tell(out, own[i], HANDLE_SIZE);
        hear(in, others[i], HANDLE_SIZE);
    }
    while (left > 0) {
        for (int i = 0; i < MANY; i++) {
            if (pairs[i].send == NULL) {
                OK(net_connect(context, 0, others[i], &pairs[i].send));
                left -= pairs[i].send != NULL;
            }
            if (pairs[i].recv == NULL) {
                OK(net_accept(listeners[i], &pairs[i].recv));
                left -= pairs[i].recv != NULL;
            }
        }
    }
    struct buffer from = make_buffer(pairs[0].send, MANY * DEPTH);
    struct buffer to = make_buffer(pairs[0].recv, MANY * DEPTH);
    fill(from.data, from.size, is_parent ? 1 : 2);
    for (int i = 0; i < MANY; i++)
        recvs[i] = post_recv(&pairs[i], &to, (size_t)i * DEPTH, DEPTH, i);
    for (int i = 0; i < MANY; i++)
        sends[i] = post_send(&pairs[i], &from, (size_t)i * DEPTH, DEPTH, i);
    for (int i = 0; i < MANY; i++) {
        finish(recvs[i], NULL);
        finish(sends[i], NULL);
    }
    CHECK(is_filled(to.data, to.size, is_parent ? 2 : 1));
    free_buffer(&from);
    free_buffer(&to);
    for (int i = 0; i < MANY; i++) {
        OK(net_close_listen(listeners[i]));
        close_pair(&pairs[i]);
    }
    OK(net_finalize(context));
    CHECK(warnings == 0);
}

static void nobody_listens(int is_parent)
{
    void *context, *listener, *comm = NULL;
    char handle[HANDLE_SIZE];
    int result = SUCCESS;
    OK(net_init(&context));
    if (is_parent) {
        hear(to_parent, handle, sizeof handle);
        CHECK(wait(NULL) > 0);
        while (result == SUCCESS && comm == NULL)
            result = net_connect(context, 0, handle, &comm);
        CHECK(result == REMOTE && comm == NULL);
        OK(net_finalize(context));
    } else {
        OK(net_listen(context, 0, handle, &listener));
        tell(to_parent, handle, sizeof handle);
        OK(net_close_listen(listener));
        OK(net_finalize(context));
    }
}

int main(int count, char **arguments)
{
    CHECK(count == 4);
    const char *what = arguments[3];
    begin_time_limit(60);
    CHECK(pipe(to_child) == 0 && pipe(to_parent) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    begin_time_limit(60);
    const char *elsewhere = child == 0 ? getenv("CHILD_NETNS") : NULL;
    if (elsewhere != NULL)
        CHECK(setns(open(elsewhere, O_RDONLY), CLONE_NEWNET) == 0);
    load(arguments[1], atoi(arguments[2]));
    if (strcmp(what, "exchange") == 0)
        both_exchange(child != 0);
    else if (strcmp(what, "many") == 0)
        many_connections(child != 0);
    else if (strcmp(what, "nobody-listens") == 0)
        nobody_listens(child != 0);
    else
        one_dies(child != 0, strcmp(what, "sender-dies") == 0, child);
    unload();
    int status = 0;
    if (child != 0 && waitpid(child, &status, 0) == child)
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    return 0;
}
