/* What the C tests share: checks that say where they failed, and a library on loopback. */
#ifndef CHECK_H
#define CHECK_H

#define _DEFAULT_SOURCE
#include <rvma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Far longer than anything takes: what runs into it has hung. */
#define PATIENCE 60000

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: not so: %s (last error: %s)\n", __FILE__, __LINE__,    \
                    #condition, RVMA_Last_error());                                        \
            exit(1);                                                                       \
        }                                                                                  \
    } while (0)

/* The call ends with this status; if that is a failure, it is remembered and explained. */
#define EXPECT(expected, call)                                                             \
    do {                                                                                   \
        RVMA_Status found_ = (call);                                                       \
        if (found_ != (expected)) {                                                        \
            fprintf(stderr, "%s:%d: %s: %s, not %s (last error: %s)\n", __FILE__, __LINE__, \
                    #call, RVMA_Strerror(found_), RVMA_Strerror(expected), RVMA_Last_error()); \
            exit(1);                                                                       \
        }                                                                                  \
        if (found_ != RVMA_SUCCESS) {                                                      \
            CHECK(RVMA_Last_status() == found_);                                           \
            CHECK(strlen(RVMA_Last_error()) > 0);                                          \
        }                                                                                  \
    } while (0)

#define OK(call) EXPECT(RVMA_SUCCESS, call)

/* A mailbox address. */
#define BOX(number) ((void *)(uintptr_t)(number))

static RVMA_Addr self;

/* An address on loopback of this program's own, and its children's: other programs that run at the
 * same time never get a port that one here has left. */
static char loopback[32];

__attribute__((constructor)) static void choose_loopback(void)
{
    unsigned number = (unsigned)getpid();
    snprintf(loopback, sizeof loopback, "127.%u.%u.%u", 1 + number / 62500 % 250,
             1 + number / 250 % 250, 1 + number % 250);
}

/* Starts the library on loopback. Puts to `self` come back to this process. */
static inline void start(void)
{
    RVMA_Init_options options = {.struct_size = sizeof options,
                                 .bind = loopback,
                                 .sockets = 1,
                                 .connect_timeout_ms = 5000,
                                 .peer_timeout_ms = 2000};
    OK(RVMA_Init(&options));
    OK(RVMA_Local_addr(&self));
}

static inline RVMA_Op_options at(int64_t offset, int64_t epoch)
{
    RVMA_Op_options options = RVMA_OP_OPTIONS_INIT;
    options.offset = offset;
    options.epoch = epoch;
    return options;
}

#endif
