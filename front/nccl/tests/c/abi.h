/* The interface between NCCL and network plug-ins, versions 8 to 12, as declarations of this
 * project's own. They are independent of the library's, so that a difference is found. */
#ifndef ABI_H
#define ABI_H

#include <stddef.h>
#include <stdint.h>

enum result { SUCCESS, CUDA_ERROR, SYSTEM_ERROR, INTERNAL_ERROR, BAD_ARGUMENT, BAD_USAGE, REMOTE };

#define HANDLE_SIZE 128
#define PTR_HOST 1
#define PTR_CUDA 2
#define OPTIONAL_COMPLETION ((void *)1)
#define REQUESTS 32

typedef void (*logger)(int level, unsigned long flags, const char *file, int line,
                       const char *format, ...);
typedef int (*profiler)(void **event, int type, void *handle, int64_t plugin, void *data);

/* clang-format off */
#define PROPERTIES_HEAD \
    char *name; char *pci_path; uint64_t guid; int ptr_support; int reg_is_global;

#define PROPERTIES_TAIL \
    int speed; int port; float latency; int max_comms; int max_recvs; int device_type; \
    int device_version;

struct properties_v8 { PROPERTIES_HEAD PROPERTIES_TAIL };

struct vnic4 { int count; int devices[4]; };
struct vnic8 { int count; int devices[8]; };

struct properties_v9 {
    PROPERTIES_HEAD int force_flush; PROPERTIES_TAIL
    struct vnic4 vnic; size_t max_p2p; size_t max_coll;
};
struct properties_v11 {
    PROPERTIES_HEAD int force_flush; PROPERTIES_TAIL
    struct vnic4 vnic; size_t max_p2p; size_t max_coll; int max_multi;
};
struct properties_v12 {
    PROPERTIES_HEAD int force_flush; PROPERTIES_TAIL
    struct vnic8 vnic; size_t max_p2p; size_t max_coll; int max_multi; int16_t rail; int16_t plane;
};

struct config { int traffic_class; };

#define TABLE_MIDDLE \
    int (*accept)(void *listener, void **comm, void **device_handle); \
    int (*reg_mr)(void *comm, void *data, size_t size, int type, void **mhandle); \
    int (*reg_mr_dma_buf)(void *comm, void *data, size_t size, int type, uint64_t offset, int fd, \
                          void **mhandle); \
    int (*dereg_mr)(void *comm, void *mhandle);

#define TABLE_TAIL \
    int (*iflush)(void *comm, int n, void **data, int *sizes, void **mhandles, void **request); \
    int (*test)(void *request, int *done, int *sizes); \
    int (*close_send)(void *comm); \
    int (*close_recv)(void *comm); \
    int (*close_listen)(void *listener); \
    int (*get_device_mr)(void *comm, void *mhandle, void **pointer); \
    int (*irecv_consumed)(void *comm, int n, void *request);

#define SEND(size_type) \
    int (*isend)(void *comm, void *data, size_type size, int tag, void *mhandle, void **request); \
    int (*irecv)(void *comm, int n, void **data, size_type *sizes, int *tags, void **mhandles, \
                 void **request);

#define SEND_PROFILED \
    int (*isend)(void *comm, void *data, size_t size, int tag, void *mhandle, void *phandle, \
                 void **request); \
    int (*irecv)(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles, \
                 void **phandles, void **request);

struct net_v8 {
    const char *name;
    int (*init)(logger log);
    int (*devices)(int *count);
    int (*properties)(int device, struct properties_v8 *properties);
    int (*listen)(int device, void *handle, void **listener);
    int (*connect)(int device, void *handle, void **comm, void **device_handle);
    TABLE_MIDDLE
    SEND(int)
    TABLE_TAIL
};

struct net_v9 {
    const char *name;
    int (*init)(logger log);
    int (*devices)(int *count);
    int (*properties)(int device, struct properties_v9 *properties);
    int (*listen)(int device, void *handle, void **listener);
    int (*connect)(int device, void *handle, void **comm, void **device_handle);
    TABLE_MIDDLE
    SEND(size_t)
    TABLE_TAIL
    int (*make_vdevice)(int *device, struct vnic4 *vnic);
};

struct net_v10 {
    const char *name;
    int (*init)(logger log, profiler profile);
    int (*devices)(int *count);
    int (*properties)(int device, struct properties_v9 *properties);
    int (*listen)(int device, void *handle, void **listener);
    int (*connect)(int device, struct config *config, void *handle, void **comm,
                   void **device_handle);
    TABLE_MIDDLE
    SEND_PROFILED
    TABLE_TAIL
    int (*make_vdevice)(int *device, struct vnic4 *vnic);
};

#define CONTEXT_TABLE(version, properties_type, vnic_type) \
    struct version { \
        const char *name; \
        int (*init)(void **context, uint64_t comm_id, struct config *config, logger log, \
                    profiler profile); \
        int (*devices)(int *count); \
        int (*properties)(int device, struct properties_type *properties); \
        int (*listen)(void *context, int device, void *handle, void **listener); \
        int (*connect)(void *context, int device, void *handle, void **comm, \
                       void **device_handle); \
        TABLE_MIDDLE \
        SEND_PROFILED \
        TABLE_TAIL \
        int (*make_vdevice)(int *device, struct vnic_type *vnic); \
        int (*finalize)(void *context); \
        int (*set_attributes)(void *context, void *attributes); \
    };

CONTEXT_TABLE(net_v11, properties_v11, vnic4)
CONTEXT_TABLE(net_v12, properties_v12, vnic8)
/* clang-format on */

#endif
