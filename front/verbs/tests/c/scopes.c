/* Binds an id to each address, resolves the way to it, and prints the device and the interface of the local
 * address for both.
 *
 *   scopes ADDRESS%INTERFACE... */
#include "check.h"
#include <net/if.h>
#include <netdb.h>
#include <rdma/rdma_cma.h>

static void print(const char *what, struct rdma_cm_id *id, struct sockaddr *address)
{
    struct sockaddr_in6 *at = (struct sockaddr_in6 *)address;
    char name[IF_NAMESIZE] = "no interface";
    CHECK(at->sin6_family == AF_INET6);
    if (at->sin6_scope_id)
        CHECK(if_indextoname(at->sin6_scope_id, name));
    printf("%s %s %s\n", what, ibv_get_device_name(id->verbs->device), name);
}

int main(int count, char **arguments)
{
    struct rdma_event_channel *events;
    CHECK((events = rdma_create_event_channel()));
    for (int i = 1; i < count; i++) {
        struct addrinfo *found;
        CHECK(!getaddrinfo(arguments[i], "4000", NULL, &found));
        struct rdma_cm_id *bound, *active;
        CHECK(!rdma_create_id(events, &bound, NULL, RDMA_PS_TCP));
        CHECK(!rdma_bind_addr(bound, found->ai_addr));
        print("bound", bound, rdma_get_local_addr(bound));
        CHECK(!rdma_create_id(events, &active, NULL, RDMA_PS_TCP));
        CHECK(!rdma_resolve_addr(active, NULL, found->ai_addr, 1000));
        struct rdma_cm_event *event;
        CHECK(!rdma_get_cm_event(events, &event));
        CHECK(event->event == RDMA_CM_EVENT_ADDR_RESOLVED);
        CHECK(!rdma_ack_cm_event(event));
        print("from", active, rdma_get_local_addr(active));
        print("to", active, rdma_get_peer_addr(active));
        freeaddrinfo(found);
    }
    return 0;
}
