/* Two ends of a connection in one process, as two communicators of a process have them. */
#ifndef PAIR_H
#define PAIR_H

#include "plugin.h"

struct pair {
    void *here, *there; /* contexts of the sender and the receiver */
    void *send, *recv;
};

/* Memory that both ends may use. */
struct buffer {
    unsigned char *data;
    size_t size;
    void *mhandle;
    void *comm;
};

/* Connects the contexts by a device: first `accepts` calls of accept, then both in turn. */
static inline struct pair connect_by(int device, void *here, void *there, int accepts)
{
    struct pair pair = {here, there, NULL, NULL};
    char handle[HANDLE_SIZE];
    void *listener;
    OK(net_listen(there, device, handle, &listener));
    for (int i = 0; i < accepts; i++) {
        OK(net_accept(listener, &pair.recv));
        CHECK(pair.recv == NULL);
    }
    while (pair.send == NULL || pair.recv == NULL) {
        if (pair.send == NULL)
            OK(net_connect(here, device, handle, &pair.send));
        if (pair.recv == NULL)
            OK(net_accept(listener, &pair.recv));
    }
    OK(net_close_listen(listener));
    return pair;
}

static inline struct pair connect_pair(void *here, void *there, int accepts)
{
    return connect_by(0, here, there, accepts);
}

static inline void close_pair(struct pair *pair)
{
    OK(net_close_send(pair->send));
    OK(net_close_recv(pair->recv));
}

static inline struct buffer make_buffer(void *comm, size_t size)
{
    struct buffer buffer = {malloc(size), size, NULL, comm};
    CHECK(buffer.data != NULL);
    OK(net_reg(comm, buffer.data, size, &buffer.mhandle));
    return buffer;
}

static inline void free_buffer(struct buffer *buffer)
{
    OK(net_dereg(buffer->comm, buffer->mhandle));
    free(buffer->data);
}

/* Bytes that depend on the seed and on their place. */
static inline unsigned char byte_at(unsigned seed, size_t at)
{
    return (unsigned char)((at * 2654435761u + seed * 40503u) >> 11);
}

static inline void fill(unsigned char *data, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        data[i] = byte_at(seed, i);
}

static inline int is_filled(const unsigned char *data, size_t size, unsigned seed)
{
    for (size_t i = 0; i < size; i++)
        if (data[i] != byte_at(seed, i))
            return 0;
    return 1;
}

static inline void *post_send(struct pair *pair, struct buffer *from, size_t at, size_t size,
                              int tag)
{
    void *request = NULL;
    while (request == NULL)
        OK(net_isend(pair->send, from->data + at, size, tag, from->mhandle, &request));
    return request;
}

static inline void *post_recv(struct pair *pair, struct buffer *to, size_t at, size_t size, int tag)
{
    void *request = NULL, *data = to->data + at;
    while (request == NULL)
        OK(net_irecv(pair->recv, 1, &data, &size, &tag, &to->mhandle, &request));
    return request;
}

#endif
