/* Preloaded into servers: writes to their standard input, which is a pipe to the test, that they
 * listen now, because the system does not notify of new listeners. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

int listen(int socket, int backlog)
{
    int (*next)(int, int) = (int (*)(int, int))dlsym(RTLD_NEXT, "listen");
    int result = next(socket, backlog);
    struct sockaddr_in6 at;
    socklen_t length = sizeof at;
    if (result == 0 && getsockname(socket, (struct sockaddr *)&at, &length) == 0 &&
        (at.sin6_family == AF_INET || at.sin6_family == AF_INET6))
        /* The port is at the same place in both families. */
        dprintf(0, "tcp %d\n", ntohs(at.sin6_port));
    return result;
}

int rdma_listen(void *id, int backlog)
{
    int (*next)(void *, int) = (int (*)(void *, int))dlsym(RTLD_NEXT, "rdma_listen");
    int result = next(id, backlog);
    if (result == 0)
        dprintf(0, "rdma\n");
    return result;
}
