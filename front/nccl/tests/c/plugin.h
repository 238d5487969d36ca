/* A plug-in, loaded and called as NCCL does: through an adapter for each version, so that the tests
 * are written once. */
#ifndef PLUGIN_H
#define PLUGIN_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "abi.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                   \
    do {                                                                                   \
        if (!(condition)) {                                                                \
            fprintf(stderr, "%s:%d: not so: %s (version %d, last warning: %s)\n", __FILE__, \
                    __LINE__, #condition, net.version, last_warning);                      \
            abort();                                                                       \
        }                                                                                  \
    } while (0)

#define OK(call) CHECK((call) == SUCCESS)
/* The call fails with this result, and says why. */
#define FAILS(result, call)                                                                \
    do {                                                                                   \
        last_warning[0] = 0;                                                               \
        CHECK((call) == (result));                                                         \
        CHECK(last_warning[0] != 0);                                                       \
    } while (0)

/* Properties as NCCL's adapters pass them on. */
struct properties {
    char *name;
    char *pci_path;
    uint64_t guid;
    int ptr_support, reg_is_global, force_flush, speed, port;
    float latency;
    int max_comms, max_recvs, device_type, device_version;
    int vnic_count, vnic_first;
    size_t max_p2p, max_coll;
    int max_multi, rail, plane;
};

/* The loaded plug-in. */
struct net {
    void *library;
    int version;
    void *table;
    /* The same in all versions. */
    struct {
        TABLE_MIDDLE
        TABLE_TAIL
    } calls;
};

extern struct net net;
extern char last_warning[512];
extern int warnings;

/* Loads the library at `path` and takes the newest table, but none newer than `newest`. */
void load(const char *path, int newest);
void unload(void);

int net_init(void **context);
int net_devices(int *count);
int net_properties(int device, struct properties *properties);
int net_listen(void *context, int device, void *handle, void **listener);
int net_connect(void *context, int device, void *handle, void **comm);
int net_accept(void *listener, void **comm);
int net_reg(void *comm, void *data, size_t size, void **mhandle);
int net_dereg(void *comm, void *mhandle);
int net_isend(void *comm, void *data, size_t size, int tag, void *mhandle, void **request);
int net_irecv(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
              void **request);
int net_test(void *request, int *done, int *sizes);
int net_close_send(void *comm);
int net_close_recv(void *comm);
int net_close_listen(void *listener);
/* Before version 11 there is no end of a context, and this does nothing. */
int net_finalize(void *context);

/* Tests the request until it has ended. */
void finish(void *request, int *sizes);
/* Tests the request until it has ended or failed: 0 or the error. */
int outcome(void *request);
/* Whether the time that all tests together may take is over. */
void begin_time_limit(unsigned seconds);

#endif
