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
