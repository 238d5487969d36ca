/* Many threads at once, and ends that come while others wait. */
#include "check.h"
#include <pthread.h>
#include <stdatomic.h>

enum { WRITERS = 8, READERS = 3, PUTS = 300, BUFFERS = 16, BATCH = 25 };

struct letter {
    uint32_t writer, number;
};

static RVMA_Win stream;
static atomic_int received;
static atomic_uchar seen[WRITERS][PUTS];

static void *write_letters(void *argument)
{
    uint32_t writer = (uint32_t)(uintptr_t)argument;
    struct letter letters[PUTS];
    RVMA_Request requests[PUTS];
    for (uint32_t i = 0; i < PUTS; i++) {
        letters[i] = (struct letter){writer, i};
        if (i % 3 == 0) { /* every way there is to put */
            requests[i] = RVMA_REQUEST_NULL;
            OK(RVMA_Put(&letters[i], sizeof letters[i], &self, BOX(1)));
        } else if (i % 3 == 1) {
            requests[i] = RVMA_REQUEST_NULL;
            OK(RVMA_Iput(&letters[i], sizeof letters[i], &self, BOX(1), NULL, NULL));
        } else {
            OK(RVMA_Iput(&letters[i], sizeof letters[i], &self, BOX(1), NULL, &requests[i]));
        }
    }
    for (int i = 0; i < PUTS; i++)
        OK(RVMA_Wait_request(&requests[i], PATIENCE));
    OK(RVMA_Flush(PATIENCE));
    return NULL;
}

static void *read_letters(void *argument)
{
    (void)argument;
    RVMA_Epoch epoch;
    while (RVMA_Wait(stream, &epoch, PATIENCE) == RVMA_SUCCESS) {
        const struct letter *letters = epoch.buffer;
        CHECK(epoch.length == BATCH * (int64_t)sizeof *letters);
        for (int i = 0; i < BATCH; i++)
            CHECK(atomic_fetch_add(&seen[letters[i].writer][letters[i].number], 1) == 0);
        OK(RVMA_Post_buffer(epoch.buffer, epoch.size, NULL, stream));
        /* The window is freed once all letters are counted. */
        atomic_fetch_add(&received, BATCH);
    }
    /* The window was freed while this thread waited. */
    CHECK(RVMA_Last_status() == RVMA_ERR_CANCELLED || RVMA_Last_status() == RVMA_ERR_WINDOW);
    return NULL;
}

static void every_letter_arrives_once(void)
{
    static struct letter buffers[BUFFERS][BATCH];
    pthread_t writers[WRITERS], readers[READERS];
    RVMA_Win_options options = {.struct_size = sizeof options, .flags = RVMA_WIN_STREAM};
    stream = RVMA_Init_window_opts(BOX(1), NULL, BATCH, RVMA_EPOCH_OPS, &options);
    for (int i = 0; i < BUFFERS; i++)
        OK(RVMA_Post_buffer(buffers[i], sizeof buffers[i], NULL, stream));
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_create(&readers[i], NULL, read_letters, NULL) == 0);
    for (int i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&writers[i], NULL, write_letters, (void *)(uintptr_t)i) == 0);
    for (int i = 0; i < WRITERS; i++)
        CHECK(pthread_join(writers[i], NULL) == 0);
    while (atomic_load(&received) < WRITERS * PUTS)
        usleep(100);
    OK(RVMA_Win_free(stream));
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_join(readers[i], NULL) == 0);
    for (int w = 0; w < WRITERS; w++)
        for (int i = 0; i < PUTS; i++)
            CHECK(atomic_load(&seen[w][i]) == 1);
}

/* Windows come and go while others put to them. */
static void *come_and_go(void *argument)
{
    uintptr_t number = (uintptr_t)argument;
    RVMA_Win_options options = {.struct_size = sizeof options, .flags = RVMA_WIN_REFUSE_EMPTY};
    for (int i = 0; i < 50; i++) {
        char buffers[2][64];
        RVMA_Win win = RVMA_Init_window_opts(BOX(100 + number), NULL, 1, RVMA_EPOCH_OPS, &options);
        CHECK(win != NULL);
        OK(RVMA_Post_buffer(buffers[0], sizeof buffers[0], NULL, win));
        OK(RVMA_Post_buffer(buffers[1], sizeof buffers[1], NULL, win));
        for (uintptr_t other = 0; other < WRITERS; other++) {
            RVMA_Status status = RVMA_Put("there?", 7, &self, BOX(100 + other));
            CHECK(status == RVMA_SUCCESS || status == RVMA_ERR_NO_MAILBOX ||
                  status == RVMA_ERR_NO_BUFFER);
        }
        RVMA_Epoch epoch;
        OK(RVMA_Wait(win, &epoch, PATIENCE)); /* at least this thread's own */
        CHECK(strcmp(epoch.buffer, "there?") == 0);
        OK(RVMA_Win_free(win));
    }
    return NULL;
}

static void windows_come_and_go(void)
{
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&threads[i], NULL, come_and_go, (void *)(uintptr_t)i) == 0);
    for (int i = 0; i < WRITERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static RVMA_Win quiet;
static atomic_int waiting;

static void *wait_for_an_epoch(void *argument)
{
    (void)argument;
    RVMA_Epoch epoch;
    atomic_fetch_add(&waiting, 1);
    RVMA_Status status = RVMA_Wait(quiet, &epoch, -1);
    CHECK(status == RVMA_ERR_CANCELLED || status == RVMA_ERR_NOT_INIT);
    return NULL;
}

static void *wait_for_a_pointer(void *argument)
{
    (void)argument;
    void *pointer = NULL;
    atomic_fetch_add(&waiting, 1);
    RVMA_Status status = RVMA_Wait_ptr(&pointer, NULL, -1);
    CHECK(status == RVMA_ERR_CANCELLED || status == RVMA_ERR_NOT_INIT);
    return NULL;
}

static void *wait_for_a_put(void *argument)
{
    (void)argument;
    atomic_fetch_add(&waiting, 1);
    RVMA_Status status = RVMA_Put("nowhere to go", 13, &self, BOX(2));
    CHECK(status == RVMA_ERR_CANCELLED || status == RVMA_ERR_NOT_INIT ||
          status == RVMA_ERR_NO_MAILBOX);
    return NULL;
}

static void *wait_for_all(void *argument)
{
    (void)argument;
    RVMA_Request request;
    OK(RVMA_Iput("nor I", 5, &self, BOX(2), NULL, NULL));
    OK(RVMA_Iput("nor I", 5, &self, BOX(2), NULL, &request));
    atomic_fetch_add(&waiting, 1);
    RVMA_Status status = RVMA_Flush(-1);
    CHECK(status != RVMA_SUCCESS && status != RVMA_ERR_TIMEOUT);
    status = RVMA_Wait_request(&request, -1);
    CHECK(status != RVMA_SUCCESS && status != RVMA_ERR_TIMEOUT);
    return NULL;
}

static void the_end_wakes_all(void)
{
    void *(*const bodies[])(void *) = {wait_for_an_epoch, wait_for_a_pointer, wait_for_a_put,
                                       wait_for_all};
    enum { BODIES = sizeof bodies / sizeof bodies[0] };
    pthread_t threads[BODIES];
    quiet = RVMA_Init_window(BOX(2), NULL, 1, RVMA_EPOCH_OPS);
    for (int i = 0; i < BODIES; i++)
        CHECK(pthread_create(&threads[i], NULL, bodies[i], NULL) == 0);
    while (atomic_load(&waiting) < BODIES)
        usleep(100);
    usleep(20 * 1000); /* most sleep by now; it must end well either way */
    OK(RVMA_Finalize());
    for (int i = 0; i < BODIES; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(void)
{
    start();
    every_letter_arrives_once();
    windows_come_and_go();
    the_end_wakes_all();
    start(); /* and again */
    OK(RVMA_Finalize());
    return 0;
}
