#include "plugin.h"
#include <dlfcn.h>
#include <stdarg.h>
#include <unistd.h>

struct net net;
char last_warning[512] = "none";
int warnings;

static void log_message(int level, unsigned long flags, const char *file, int line,
                        const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    CHECK(flags != 0 && file != NULL && line >= 0);
    if (level == 2) {
        memcpy(last_warning, text, sizeof text);
        warnings++;
    }
    if (getenv("SHOW_LOG") != NULL)
        fprintf(stderr, "[%d] level %d: %s\n", getpid(), level, text);
}

static int profile(void **event, int type, void *handle, int64_t plugin, void *data)
{
    (void)event, (void)type, (void)handle, (void)plugin, (void)data;
    return SUCCESS;
}

#define V8 ((struct net_v8 *)net.table)
#define V9 ((struct net_v9 *)net.table)
#define V10 ((struct net_v10 *)net.table)
#define V11 ((struct net_v11 *)net.table)
#define V12 ((struct net_v12 *)net.table)

/* One call, by the table of the version at hand. */
#define BY_VERSION(v8, v9, v10, v11, v12)                                                  \
    switch (net.version) {                                                                 \
    case 8: return v8;                                                                     \
    case 9: return v9;                                                                     \
    case 10: return v10;                                                                   \
    case 11: return v11;                                                                   \
    default: return v12;                                                                   \
    }

#define TAKE_CALLS(table)                                                                  \
    do {                                                                                   \
        net.calls.accept = (table)->accept;                                                \
        net.calls.reg_mr = (table)->reg_mr;                                                \
        net.calls.reg_mr_dma_buf = (table)->reg_mr_dma_buf;                                \
        net.calls.dereg_mr = (table)->dereg_mr;                                            \
        net.calls.iflush = (table)->iflush;                                                \
        net.calls.test = (table)->test;                                                    \
        net.calls.close_send = (table)->close_send;                                        \
        net.calls.close_recv = (table)->close_recv;                                        \
        net.calls.close_listen = (table)->close_listen;                                    \
        net.calls.get_device_mr = (table)->get_device_mr;                                  \
        net.calls.irecv_consumed = (table)->irecv_consumed;                                \
        CHECK(strcmp((table)->name, "Fairway") == 0);                                      \
    } while (0)

void load(const char *path, int newest)
{
    net.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (net.library == NULL)
        fprintf(stderr, "%s\n", dlerror());
    CHECK(net.library != NULL);
    for (net.version = newest; net.version >= 6; net.version--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclNetPlugin_v%d", net.version);
        net.table = dlsym(net.library, symbol);
        if (net.table != NULL)
            break;
    }
    CHECK(net.table != NULL);
    CHECK(dlsym(net.library, "ncclCollNetPlugin_v12") == NULL);
    switch (net.version) {
    case 8: TAKE_CALLS(V8); break;
    case 9: TAKE_CALLS(V9); break;
    case 10: TAKE_CALLS(V10); break;
    case 11: TAKE_CALLS(V11); break;
    default: TAKE_CALLS(V12); break;
    }
    /* NCCL does not call what the properties exclude, and these may be absent. */
    CHECK(net.calls.reg_mr_dma_buf == NULL && net.calls.get_device_mr == NULL);
    CHECK(net.calls.irecv_consumed == NULL);
}

void unload(void)
{
    CHECK(dlclose(net.library) == 0);
    net.library = net.table = NULL;
}

int net_init(void **context)
{
    struct config config = {-1};
    *context = NULL;
    BY_VERSION(V8->init(log_message), V9->init(log_message), V10->init(log_message, profile),
               V11->init(context, 42, &config, log_message, profile),
               V12->init(context, 42, &config, log_message, profile));
}

int net_devices(int *count)
{
    BY_VERSION(V8->devices(count), V9->devices(count), V10->devices(count),
               V11->devices(count), V12->devices(count));
}

#define COPY(from)                                                                         \
    do {                                                                                   \
        to->name = (from).name, to->pci_path = (from).pci_path, to->guid = (from).guid;    \
        to->ptr_support = (from).ptr_support, to->reg_is_global = (from).reg_is_global;    \
        to->speed = (from).speed, to->port = (from).port, to->latency = (from).latency;    \
        to->max_comms = (from).max_comms, to->max_recvs = (from).max_recvs;                \
        to->device_type = (from).device_type, to->device_version = (from).device_version;  \
    } while (0)
#define COPY_NEWER(from)                                                                   \
    do {                                                                                   \
        COPY(from);                                                                        \
        to->force_flush = (from).force_flush, to->vnic_count = (from).vnic.count;          \
        to->vnic_first = (from).vnic.devices[0];                                           \
        to->max_p2p = (from).max_p2p, to->max_coll = (from).max_coll;                      \
    } while (0)

int net_properties(int device, struct properties *to)
{
    int result;
    memset(to, 0, sizeof *to);
    to->vnic_count = 1, to->vnic_first = device, to->max_multi = 1, to->rail = to->plane = -1;
    to->max_p2p = to->max_coll = 1 << 30;
    if (net.version == 8) {
        struct properties_v8 from;
        if ((result = V8->properties(device, &from)) == SUCCESS)
            COPY(from);
    } else if (net.version <= 10) {
        struct properties_v9 from;
        result = net.version == 9 ? V9->properties(device, &from) : V10->properties(device, &from);
        if (result == SUCCESS)
            COPY_NEWER(from);
    } else if (net.version == 11) {
        struct properties_v11 from;
        if ((result = V11->properties(device, &from)) == SUCCESS) {
            COPY_NEWER(from);
            to->max_multi = from.max_multi;
        }
    } else {
        struct properties_v12 from;
        if ((result = V12->properties(device, &from)) == SUCCESS) {
            COPY_NEWER(from);
            to->max_multi = from.max_multi, to->rail = from.rail, to->plane = from.plane;
        }
    }
    return result;
}

int net_listen(void *context, int device, void *handle, void **listener)
{
    BY_VERSION(V8->listen(device, handle, listener), V9->listen(device, handle, listener),
               V10->listen(device, handle, listener),
               V11->listen(context, device, handle, listener),
               V12->listen(context, device, handle, listener));
}

int net_connect(void *context, int device, void *handle, void **comm)
{
    struct config config = {-1};
    void *offload = NULL;
    BY_VERSION(V8->connect(device, handle, comm, &offload),
               V9->connect(device, handle, comm, &offload),
               V10->connect(device, &config, handle, comm, NULL),
               V11->connect(context, device, handle, comm, NULL),
               V12->connect(context, device, handle, comm, NULL));
}

int net_accept(void *listener, void **comm)
{
    return net.calls.accept(listener, comm, NULL);
}

int net_reg(void *comm, void *data, size_t size, void **mhandle)
{
    return net.calls.reg_mr(comm, data, size, PTR_HOST, mhandle);
}

int net_dereg(void *comm, void *mhandle)
{
    return net.calls.dereg_mr(comm, mhandle);
}

int net_isend(void *comm, void *data, size_t size, int tag, void *mhandle, void **request)
{
    /* What NCCL's profiler passes is opaque to a plug-in. */
    int event = 0;
    BY_VERSION(V8->isend(comm, data, (int)size, tag, mhandle, request),
               V9->isend(comm, data, size, tag, mhandle, request),
               V10->isend(comm, data, size, tag, mhandle, &event, request),
               V11->isend(comm, data, size, tag, mhandle, &event, request),
               V12->isend(comm, data, size, tag, mhandle, &event, request));
}

int net_irecv(void *comm, int n, void **data, size_t *sizes, int *tags, void **mhandles,
              void **request)
{
    int small[64];
    void *events[64] = {NULL};
    for (int i = 0; i < n && i < 64; i++)
        small[i] = (int)sizes[i];
    /* As NCCL's adapter of version 8 does. */
    if (net.version == 8 && *request == OPTIONAL_COMPLETION)
        *request = NULL;
    BY_VERSION(V8->irecv(comm, n, data, small, tags, mhandles, request),
               V9->irecv(comm, n, data, sizes, tags, mhandles, request),
               V10->irecv(comm, n, data, sizes, tags, mhandles, events, request),
               V11->irecv(comm, n, data, sizes, tags, mhandles, events, request),
               V12->irecv(comm, n, data, sizes, tags, mhandles, events, request));
}

int net_test(void *request, int *done, int *sizes)
{
    return net.calls.test(request, done, sizes);
}

int net_close_send(void *comm)
{
    return net.calls.close_send(comm);
}

int net_close_recv(void *comm)
{
    return net.calls.close_recv(comm);
}

int net_close_listen(void *listener)
{
    return net.calls.close_listen(listener);
}

int net_finalize(void *context)
{
    BY_VERSION(SUCCESS, SUCCESS, SUCCESS, V11->finalize(context), V12->finalize(context));
}

void finish(void *request, int *sizes)
{
    int done = 0;
    while (!done)
        OK(net_test(request, &done, sizes));
}

int outcome(void *request)
{
    int done = 0, result = SUCCESS;
    while (!done && result == SUCCESS)
        result = net_test(request, &done, NULL);
    return result;
}

void begin_time_limit(unsigned seconds)
{
    /* The program is ended by SIGALRM if it hangs. */
    alarm(seconds);
}
