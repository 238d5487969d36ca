/* Mistakes of a program, which the sanitizers are to report because the library is compiled with
 * them, too: each is an access of the library that one of the program contradicts.
 *
 *   injected freed                   the library reads attributes that the program has freed
 *   injected race                    the library changes a queue pair that another thread reads */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static struct ibv_qp *qp;
static const int MASK =
    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

static void *reader(void *unused)
{
    while (*(volatile enum ibv_qp_state *)&qp->state != IBV_QPS_INIT)
        usleep(1000);
    return unused;
}

static void initialize(struct ibv_qp_attr *attr)
{
    CHECK(!ibv_modify_qp(qp, attr, MASK));
}

int main(int count, char **arguments)
{
    struct ibv_context *context = open_first();
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 4, NULL, NULL, 0);
    CHECK(pd && cq && count == 2);
    struct ibv_qp_init_attr init = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1}};
    CHECK((qp = ibv_create_qp(pd, &init)));
    struct ibv_qp_attr *attr = calloc(1, sizeof *attr);
    CHECK(attr);
    attr->qp_state = IBV_QPS_INIT;
    attr->port_num = 1;
    if (!strcmp(arguments[1], "freed")) {
        /* The compiler is not to notice. */
        struct ibv_qp_attr *volatile kept = attr;
        free(attr);
        initialize(kept);
        return 0;
    }
    pthread_t thread;
    CHECK(!pthread_create(&thread, NULL, reader, NULL));
    usleep(50000);
    initialize(attr);
    CHECK(!pthread_join(thread, NULL));
    free(attr);
    return 0;
}
