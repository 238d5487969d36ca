/* What both examples need: processes that find each other, and an end if something fails. */
#ifndef COMMON_H
#define COMMON_H

#define _DEFAULT_SOURCE
#include <rvma.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* Ends the process if a call fails. */
#define TRY(call)                                                                        \
    do {                                                                                 \
        if ((call) != RVMA_SUCCESS) {                                                    \
            fprintf(stderr, "%s: %s\n", #call, RVMA_Last_error());                       \
            exit(1);                                                                     \
        }                                                                                \
    } while (0)

/* Memory that the children of this process share with it, all zero. */
static inline void *shared(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        exit(1);
    }
    return memory;
}

/* Waits until `count` processes have come here. On one machine shared memory will do; a job that
 * spans several has its launcher. */
static inline void meet(atomic_int *arrived, int count)
{
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < count)
        usleep(1000);
}

/* Runs `body` in `count` processes of their own, with their numbers; 0 if all succeeded. If one
 * fails, the others, which may wait for it, are ended. */
static inline int in_processes(int count, void (*body)(int number))
{
    pid_t children[64];
    for (int number = 0; number < count; number++) {
        children[number] = fork();
        if (children[number] < 0) {
            perror("fork");
            exit(1);
        }
        if (children[number] == 0) {
            body(number);
            exit(0);
        }
    }
    int failed = 0, status;
    while (wait(&status) > 0) {
        if (!failed && status != 0) {
            failed = 1;
            for (int number = 0; number < count; number++)
                kill(children[number], SIGTERM);
        }
    }
    return failed;
}

#endif
