/* Two processes: what passes between them, and what one learns when the other goes. */
#include "check.h"
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <netinet/in.h>

enum { SIZE = 20000, EPOCHS = 60 };

static struct {
    RVMA_Addr server;
    atomic_int ready, finished, succeed;
} *job;

static void fill(unsigned char *bytes, int64_t epoch)
{
    for (int i = 0; i < SIZE; i++)
        bytes[i] = (unsigned char)(i * 13 + i / 256 + epoch * 7);
}

static void wait_until(atomic_int *flag)
{
    while (!atomic_load(flag))
        usleep(200);
}

/* A child that runs `body`, after which it is ready. */
static pid_t child_of(void (*body)(void))
{
    atomic_store(&job->ready, 0);
    atomic_store(&job->finished, 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        body();
        exit(0);
    }
    while (!atomic_load(&job->ready)) {
        int status;
        CHECK(waitpid(child, &status, WNOHANG) == 0);
        usleep(200);
    }
    return child;
}

static void join(pid_t child, int how)
{
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(how == 0 ? status == 0 : WIFSIGNALED(status) && WTERMSIG(status) == how);
}

static void be_ready(void)
{
    OK(RVMA_Local_addr(&job->server));
    atomic_store(&job->ready, 1);
}

/* Takes epochs of many packets each in pieces, and compares every byte. */
static void take_epochs(void)
{
    static unsigned char buffers[3][SIZE], expected[SIZE];
    start();
    RVMA_Win win = RVMA_Init_window(BOX(1), NULL, SIZE, RVMA_EPOCH_BYTES);
    for (int i = 0; i < 3; i++)
        OK(RVMA_Post_buffer(buffers[i], SIZE, NULL, win));
    be_ready();
    for (int64_t i = 0; i < EPOCHS; i++) {
        RVMA_Epoch epoch;
        OK(RVMA_Wait(win, &epoch, PATIENCE));
        fill(expected, i);
        CHECK(epoch.epoch == i && epoch.length == SIZE);
        CHECK(memcmp(epoch.buffer, expected, SIZE) == 0);
        OK(RVMA_Post_buffer(epoch.buffer, SIZE, NULL, win));
    }
    wait_until(&job->finished);
    OK(RVMA_Finalize());
}

static void send_epochs(void)
{
    static unsigned char bytes[EPOCHS][SIZE];
    enum { PIECES = 4 };
    for (int64_t i = 0; i < EPOCHS; i++) {
        fill(bytes[i], i);
        for (int piece = PIECES - 1; piece >= 0; piece--) {
            RVMA_Op_options details = at(piece * (SIZE / PIECES), RVMA_EPOCH_ANY);
            OK(RVMA_Iput(bytes[i] + piece * (SIZE / PIECES), SIZE / PIECES, &job->server, BOX(1),
                         &details, NULL));
        }
    }
    OK(RVMA_Flush(PATIENCE));
    atomic_store(&job->finished, 1);
}

static void bytes_arrive(void)
{
    pid_t child = child_of(take_epochs);
    start();
    send_epochs();
    join(child, 0);
    OK(RVMA_Finalize());
}

static void bytes_arrive_in_spite_of_loss(void)
{
    setenv("RVMA_EMULATE", "loss=3%,reorder=8,dup=2%", 1);
    setenv("RVMA_SEED", "7", 1);
    bytes_arrive();
    unsetenv("RVMA_EMULATE");
    unsetenv("RVMA_SEED");
}

/* Has a mailbox without a buffer, and is killed. */
static void be_killed(void)
{
    start();
    CHECK(RVMA_Init_window(BOX(1), NULL, 1, RVMA_EPOCH_OPS) != NULL);
    be_ready();
    for (;;)
        pause();
}

static void a_killed_peer_is_told_of(void)
{
    pid_t child = child_of(be_killed);
    RVMA_Init_options options = {.struct_size = sizeof options,
                                 .bind = loopback,
                                 .connect_timeout_ms = 100,
                                 .peer_timeout_ms = 300};
    RVMA_Request request;
    OK(RVMA_Init(&options));
    OK(RVMA_Iput("x", 1, &job->server, BOX(1), NULL, &request));
    EXPECT(RVMA_ERR_TIMEOUT, RVMA_Wait_request(&request, 10));
    CHECK(kill(child, SIGKILL) == 0);
    EXPECT(RVMA_ERR_PEER, RVMA_Wait_request(&request, PATIENCE));
    EXPECT(RVMA_ERR_UNREACHABLE, RVMA_Put("x", 1, &job->server, BOX(1)));
    join(child, SIGKILL);
    OK(RVMA_Finalize());
}

/* Takes one put, then leaves. */
static void take_one(void)
{
    char buffer[8];
    RVMA_Epoch epoch;
    start();
    RVMA_Win win = RVMA_Init_window(BOX(1), NULL, 1, RVMA_EPOCH_OPS);
    OK(RVMA_Post_buffer(buffer, sizeof buffer, NULL, win));
    be_ready();
    OK(RVMA_Wait(win, &epoch, PATIENCE));
    CHECK(strcmp(buffer, "hello") == 0);
    wait_until(&job->finished);
    OK(RVMA_Finalize());
}

/* Takes the place of one that has left. */
static void succeed(void)
{
    char port[16];
    wait_until(&job->succeed);
    snprintf(port, sizeof port, "%u", job->server.port);
    setenv("RVMA_PORT", port, 1);
    take_one();
}

static void a_peer_that_leaves_is_told_of_and_met_again(void)
{
    pid_t successor = fork(); /* before the library runs here */
    if (successor == 0) {
        succeed();
        exit(0);
    }
    pid_t child = child_of(take_one);
    RVMA_Request request;
    start();
    OK(RVMA_Put("hello", 6, &job->server, BOX(1)));
    OK(RVMA_Iput("again", 6, &job->server, BOX(1), NULL, &request)); /* waits for a buffer */
    atomic_store(&job->finished, 1);
    RVMA_Status status = RVMA_Wait_request(&request, PATIENCE);
    CHECK(status == RVMA_ERR_PEER || status == RVMA_ERR_NO_MAILBOX);
    join(child, 0);

    RVMA_Addr before = job->server;
    atomic_store(&job->finished, 0);
    atomic_store(&job->ready, 0);
    atomic_store(&job->succeed, 1);
    wait_until(&job->ready);
    CHECK(job->server.port == before.port);
    OK(RVMA_Put("hello", 6, &before, BOX(1)));
    atomic_store(&job->finished, 1);
    join(successor, 0);
    OK(RVMA_Finalize());
}

static void nobody_is_there(void)
{
    /* A socket that is bound and never answers. */
    int silent = socket(AF_INET, SOCK_DGRAM, 0);
    struct sockaddr_in name = {.sin_family = AF_INET};
    socklen_t length = sizeof name;
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(bind(silent, (struct sockaddr *)&name, sizeof name) == 0);
    CHECK(getsockname(silent, (struct sockaddr *)&name, &length) == 0);
    RVMA_Addr address = {.bytes = {127, 0, 0, 1}, .port = ntohs(name.sin_port), .version = 4};
    RVMA_Init_options options = {
        .struct_size = sizeof options, .bind = "127.0.0.1", .connect_timeout_ms = 50};
    OK(RVMA_Init(&options));
    EXPECT(RVMA_ERR_UNREACHABLE, RVMA_Put("x", 1, &address, BOX(1)));
    RVMA_Addr v6 = {.bytes = {[15] = 1}, .port = 9, .version = 6};
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Put("x", 1, &v6, BOX(1)));
    OK(RVMA_Finalize());
    close(silent);
}

static void ipv6_will_do(void)
{
    RVMA_Init_options options = {.struct_size = sizeof options, .bind = "::1", .sockets = 1};
    if (RVMA_Init(&options) == RVMA_ERR_SYSTEM)
        return; /* a machine without it */
    char buffer[8];
    OK(RVMA_Local_addr(&self));
    CHECK(self.version == 6);
    RVMA_Win win = RVMA_Init_window(BOX(1), NULL, 1, RVMA_EPOCH_OPS);
    OK(RVMA_Post_buffer(buffer, sizeof buffer, NULL, win));
    OK(RVMA_Put("v6", 3, &self, BOX(1)));
    CHECK(strcmp(buffer, "v6") == 0);
    OK(RVMA_Finalize());
}

int main(void)
{
    job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(job != MAP_FAILED);
    bytes_arrive();
    bytes_arrive_in_spite_of_loss();
    a_killed_peer_is_told_of();
    a_peer_that_leaves_is_told_of_and_met_again();
    nobody_is_there();
    ipv6_will_do();
    return 0;
}
