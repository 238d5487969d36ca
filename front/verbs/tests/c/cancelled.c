/* A thread that sleeps for a completion event is cancelled, and a child of fork() exits. */
#include "check.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static struct ibv_comp_channel *channel;

static void *sleeper(void *unused)
{
    struct ibv_cq *cq;
    void *context;
    ibv_get_cq_event(channel, &cq, &context);
    return unused;
}

int main(void)
{
    struct ibv_context *context = open_first();
    CHECK((channel = ibv_create_comp_channel(context)));
    CHECK(ibv_create_cq(context, 8, NULL, channel, 0));
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
    puts("all fine");
    return 0;
}
