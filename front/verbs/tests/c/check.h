/* Checks that say what failed, and where. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                  \
    do {                                                                                  \
        if (!(condition)) {                                                               \
            fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__, #condition,     \
                    errno);                                                               \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* A call that returns zero or an error number. */
#define REFUSED(call, error)                                                              \
    do {                                                                                  \
        int status_ = (call);                                                             \
        if (status_ != (error)) {                                                         \
            fprintf(stderr, "%s:%d: %s is %d, not %s\n", __FILE__, __LINE__, #call,       \
                    status_, #error);                                                     \
            exit(1);                                                                      \
        }                                                                                 \
    } while (0)

/* A call that returns an object, or a null pointer with errno. */
#define NONE(call, error)                                                                 \
    do {                                                                                  \
        errno = 0;                                                                        \
        CHECK((call) == NULL);                                                            \
        CHECK(errno == (error));                                                          \
    } while (0)

static inline struct ibv_context *open_first(void)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    CHECK(list && count > 0 && list[0] && !list[count]);
    struct ibv_context *context = ibv_open_device(list[0]);
    CHECK(context);
    ibv_free_device_list(list);
    return context;
}

/* Connects one reliable queue pair to another one of this process. */
static inline void join_pairs(struct ibv_context *context, struct ibv_qp *from, struct ibv_qp *to)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1,
                                .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    CHECK(!ibv_modify_qp(from, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                                          IBV_QP_ACCESS_FLAGS));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = to->qp_num, .min_rnr_timer = 1,
                                .ah_attr = {.is_global = 1, .port_num = 1}};
    CHECK(!ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid));
    CHECK(!ibv_modify_qp(from, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
                                          IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7,
                                .rnr_retry = 7};
    CHECK(!ibv_modify_qp(from, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                          IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                          IBV_QP_MAX_QP_RD_ATOMIC));
}
