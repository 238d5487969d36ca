/* Windows, epochs, and every option of puts and gets, within one process. */
#include "check.h"
#include <sys/mman.h>

enum { SIZE = 64 };

static char put_bytes[1024];

static RVMA_Win window(uintptr_t box, int64_t threshold, RVMA_Epoch_type type, uint32_t flags,
                       uint32_t retired)
{
    RVMA_Win_options options = {.struct_size = sizeof options, .flags = flags, .retired = retired};
    RVMA_Win win = RVMA_Init_window_opts(BOX(box), NULL, threshold, type, &options);
    CHECK(win != NULL);
    return win;
}

static void an_epoch_ends_at_its_threshold(void)
{
    char buffers[3][SIZE] = {{0}};
    void *ended[2] = {NULL, NULL};
    RVMA_Win win = RVMA_Init_window(BOX(1), NULL, SIZE, RVMA_EPOCH_BYTES);
    OK(RVMA_Post_buffer(buffers[0], SIZE, &ended[0], win));
    OK(RVMA_Post_buffer(buffers[1], SIZE, &ended[1], win));
    CHECK(RVMA_Win_get_epoch(win) == 0);

    RVMA_Op_options second_half = at(SIZE / 2, RVMA_EPOCH_ANY);
    OK(RVMA_Put_opts(put_bytes + SIZE / 2, SIZE / 2, &self, BOX(1), &second_half));
    EXPECT(RVMA_ERR_TIMEOUT, RVMA_Wait_ptr(&ended[0], NULL, 20));
    CHECK(RVMA_Win_get_epoch(win) == 0 && ended[0] == NULL);
    OK(RVMA_Put(put_bytes, SIZE / 2, &self, BOX(1)));
    OK(RVMA_Wait_ptr(&ended[0], NULL, PATIENCE));
    CHECK(RVMA_Load_ptr(&ended[0]) == buffers[0]);
    CHECK(memcmp(buffers[0], put_bytes, SIZE) == 0);
    CHECK(RVMA_Win_get_epoch(win) == 1 && ended[1] == NULL);

    RVMA_Epoch epoch;
    OK(RVMA_Wait(win, &epoch, PATIENCE));
    CHECK(epoch.buffer == buffers[0] && epoch.size == SIZE && epoch.length == SIZE);
    CHECK(epoch.epoch == 0 && epoch.operations == 2 && epoch.virtual_addr == BOX(1));
    CHECK(epoch.flags == 0 && epoch.cancelled == 0);
    EXPECT(RVMA_ERR_TIMEOUT, RVMA_Wait(win, &epoch, 20));

    /* Room is not given back: the next buffer takes the next epoch. */
    OK(RVMA_Put(put_bytes, SIZE, &self, BOX(1)));
    OK(RVMA_Wait_ptr(&ended[1], NULL, PATIENCE));
    CHECK(memcmp(buffers[1], put_bytes, SIZE) == 0);
    void *pointers[4];
    CHECK(RVMA_Win_get_buf_ptrs(win, pointers, 4) == 1 && pointers[0] == buffers[1]);
    CHECK(RVMA_Win_get_buf_ptrs(win, pointers, 4) == 0);
    OK(RVMA_Win_free(win));
}

static void several_epochs_are_told_in_order(void)
{
    enum { EPOCHS = 40 };
    static char buffers[EPOCHS][SIZE];
    void *last = NULL, *pointers[EPOCHS];
    RVMA_Request requests[2 * EPOCHS];
    RVMA_Win win = RVMA_Init_window(BOX(2), NULL, 2, RVMA_EPOCH_OPS);
    for (int i = 0; i < EPOCHS; i++)
        OK(RVMA_Post_buffer(buffers[i], SIZE, &last, win)); /* one pointer: the newest */
    for (int i = 0; i < 2 * EPOCHS; i++) {
        RVMA_Op_options details = at(i % 2 * SIZE / 2, RVMA_EPOCH_ANY);
        OK(RVMA_Iput(put_bytes + i, SIZE / 2, &self, BOX(2), &details, &requests[i]));
    }
    for (int i = 0; i < 2 * EPOCHS; i++) {
        int done = 0;
        while (!done)
            OK(RVMA_Test(&requests[i], &done));
        CHECK(requests[i] == RVMA_REQUEST_NULL);
    }
    while (RVMA_Win_get_epoch(win) < EPOCHS)
        usleep(100);
    CHECK(RVMA_Load_ptr(&last) == buffers[EPOCHS - 1]);
    CHECK(RVMA_Win_get_buf_ptrs(win, pointers, 10) == 10);
    CHECK(RVMA_Win_get_buf_ptrs(win, pointers + 10, EPOCHS) == EPOCHS - 10);
    for (int i = 0; i < EPOCHS; i++) {
        CHECK(pointers[i] == buffers[i]);
        CHECK(memcmp(buffers[i], put_bytes + 2 * i, SIZE / 2) == 0);
        CHECK(memcmp(buffers[i] + SIZE / 2, put_bytes + 2 * i + 1, SIZE / 2) == 0);
    }
    OK(RVMA_Win_free(win));
}

static void a_record_tells_everything(void)
{
    char buffers[2][SIZE];
    RVMA_Record records[2] = {{0}, {0}};
    RVMA_Epoch epoch;
    CHECK(sizeof records[0] == 64 && (uintptr_t)&records[1] % 64 == 0);
    RVMA_Win win = RVMA_Init_window(BOX(3), NULL, 3, RVMA_EPOCH_OPS);
    OK(RVMA_Post_buffer_record(buffers[0], SIZE, &records[0], win));
    OK(RVMA_Post_buffer_record(buffers[1], SIZE, &records[1], win));
    EXPECT(RVMA_ERR_TIMEOUT, RVMA_Wait_record(&records[0], 0));
    for (int i = 0; i < 3; i++)
        OK(RVMA_Put(put_bytes, 10, &self, BOX(3)));
    OK(RVMA_Wait_record(&records[0], PATIENCE));
    CHECK(RVMA_Load_ptr(&records[0].buffer) == buffers[0]);
    CHECK(records[0].length == 30 && records[0].bytes == 30 && records[0].operations == 3 && records[0].epoch == 0);
    CHECK(records[0].number == 0 && records[0].virtual_addr == BOX(3) && records[0].flags == 0);
    EXPECT(RVMA_ERR_TIMEOUT, RVMA_Wait(win, &epoch, 0)); /* reported once */
    OK(RVMA_Win_inc_epoch(win));
    OK(RVMA_Wait_record(&records[1], PATIENCE));
    CHECK(records[1].flags == RVMA_EPOCH_EARLY && records[1].length == 0);
    CHECK(records[1].number == 1 && records[1].epoch == 1);
    OK(RVMA_Win_free(win));
}

static void refusals_reach_the_sender(void)
{
    char buffer[SIZE];
    RVMA_Op_options details = at(1, RVMA_EPOCH_ANY);
    EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Put(put_bytes, 8, &self, BOX(0xdead)));
    EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Get(buffer, 8, &self, BOX(0xdead)));
    CHECK(strstr(RVMA_Last_error(), "0xdead") != NULL);

    RVMA_Win win = window(4, 1, RVMA_EPOCH_OPS, RVMA_WIN_REFUSE_EMPTY, 0);
    EXPECT(RVMA_ERR_NO_BUFFER, RVMA_Put(put_bytes, 8, &self, BOX(4)));
    OK(RVMA_Post_buffer(buffer, SIZE, NULL, win));
    EXPECT(RVMA_ERR_LENGTH, RVMA_Put(put_bytes, SIZE + 1, &self, BOX(4)));
    EXPECT(RVMA_ERR_LENGTH, RVMA_Put_opts(put_bytes, SIZE, &self, BOX(4), &details));
    OK(RVMA_Put(put_bytes, SIZE, &self, BOX(4)));
    details = at(0, 0);
    EXPECT(RVMA_ERR_EPOCH, RVMA_Put_opts(put_bytes, 8, &self, BOX(4), &details));
    /* Without a request the flush reports it, once. */
    OK(RVMA_Iput(put_bytes, 8, &self, BOX(0xdead), NULL, NULL));
    EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Flush(PATIENCE));
    OK(RVMA_Flush(PATIENCE));
    OK(RVMA_Win_free(win));
}

static void keys_are_needed(void)
{
    char buffers[2][SIZE];
    RVMA_Key drawn = RVMA_KEY_NEW, given = 77;
    RVMA_Op_options details = at(0, RVMA_EPOCH_ANY);
    RVMA_Win secret = RVMA_Init_window(BOX(5), &drawn, 1, RVMA_EPOCH_OPS);
    RVMA_Win known = RVMA_Init_window(BOX(6), &given, 1, RVMA_EPOCH_OPS);
    CHECK(secret != NULL && known != NULL);
    CHECK(drawn != RVMA_KEY_NEW && drawn != 0 && given == 77);
    OK(RVMA_Post_buffer(buffers[0], SIZE, NULL, secret));
    OK(RVMA_Post_buffer(buffers[1], SIZE, NULL, known));
    EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Put(put_bytes, 8, &self, BOX(5)));
    details.key = drawn ^ 1;
    EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Put_opts(put_bytes, 8, &self, BOX(5), &details));
    EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Get_opts(buffers, 8, &self, BOX(5), &details));
    details.key = drawn;
    OK(RVMA_Put_opts(put_bytes, 8, &self, BOX(5), &details));
    details.key = 77;
    OK(RVMA_Put_opts(put_bytes, 8, &self, BOX(6), &details));
    OK(RVMA_Win_free(secret));
    OK(RVMA_Win_free(known));
}

static void a_put_waits_for_a_buffer(void)
{
    char buffer[SIZE];
    RVMA_Request request;
    int done = 1;
    RVMA_Win win = RVMA_Init_window(BOX(7), NULL, 1, RVMA_EPOCH_OPS);
    OK(RVMA_Iput(put_bytes, SIZE, &self, BOX(7), NULL, &request));
    EXPECT(RVMA_ERR_TIMEOUT, RVMA_Wait_request(&request, 20));
    OK(RVMA_Test(&request, &done));
    CHECK(done == 0 && request != RVMA_REQUEST_NULL);
    EXPECT(RVMA_ERR_NO_EPOCH, RVMA_Win_inc_epoch(win));
    OK(RVMA_Post_buffer(buffer, SIZE, NULL, win));
    RVMA_Request copy = request;
    OK(RVMA_Wait_request(&request, PATIENCE));
    CHECK(request == RVMA_REQUEST_NULL && memcmp(buffer, put_bytes, SIZE) == 0);
    EXPECT(RVMA_ERR_REQUEST, RVMA_Wait_request(&copy, 0)); /* waited for already */

    /* One that names a later epoch waits for that one's buffer. */
    RVMA_Op_options later = at(0, 2);
    RVMA_Op_options beyond = at(0, (int64_t)1 << 32); /* epochs have 32 bits on their way */
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Put_opts(put_bytes, SIZE, &self, BOX(7), &beyond));
    OK(RVMA_Iput(put_bytes + 1, SIZE, &self, BOX(7), &later, NULL));
    EXPECT(RVMA_ERR_TIMEOUT, RVMA_Flush(20));
    char others[2][SIZE];
    OK(RVMA_Post_buffer(others[0], SIZE, NULL, win));
    OK(RVMA_Post_buffer(others[1], SIZE, NULL, win));
    OK(RVMA_Flush(PATIENCE));
    CHECK(RVMA_Win_get_epoch(win) == 1); /* the one before is not complete */
    OK(RVMA_Put(put_bytes + 2, SIZE, &self, BOX(7)));
    CHECK(memcmp(others[0], put_bytes + 2, SIZE) == 0);
    CHECK(memcmp(others[1], put_bytes + 1, SIZE) == 0);
    CHECK(RVMA_Win_get_epoch(win) == 3);
    OK(RVMA_Win_free(win));
}

static void a_stream_is_handed_over_early(void)
{
    char buffers[2][SIZE];
    RVMA_Epoch epoch;
    RVMA_Win win = window(8, 1000, RVMA_EPOCH_OPS, RVMA_WIN_STREAM, 0);
    OK(RVMA_Post_buffer(buffers[0], SIZE, NULL, win));
    OK(RVMA_Post_buffer(buffers[1], SIZE, NULL, win));
    OK(RVMA_Put("one ", 4, &self, BOX(8)));
    OK(RVMA_Put("two ", 4, &self, BOX(8)));
    OK(RVMA_Put("three", 6, &self, BOX(8)));
    OK(RVMA_Win_inc_epoch(win));
    OK(RVMA_Wait(win, &epoch, PATIENCE));
    CHECK(epoch.flags == RVMA_EPOCH_EARLY && epoch.operations == 3 && epoch.length == 14);
    CHECK(epoch.bytes == 14);
    CHECK(strcmp(epoch.buffer, "one two three") == 0);
    /* What does not fit goes to the next buffer, and the one before is over. */
    OK(RVMA_Post_buffer(buffers[0], SIZE, NULL, win));
    OK(RVMA_Put(put_bytes, 60, &self, BOX(8)));
    OK(RVMA_Put(put_bytes, 5, &self, BOX(8)));
    OK(RVMA_Wait(win, &epoch, PATIENCE));
    CHECK(epoch.buffer == buffers[1] && epoch.length == 60 && epoch.flags == 0);
    OK(RVMA_Win_free(win));
}

static void the_past_is_kept_and_gone_back_to(void)
{
    char buffers[5][SIZE], back[SIZE];
    RVMA_Epoch epoch;
    RVMA_Win win = window(9, 1, RVMA_EPOCH_OPS, 0, 2);
    for (int i = 0; i < 5; i++)
        OK(RVMA_Post_buffer(buffers[i], SIZE, NULL, win));
    for (int i = 0; i < 3; i++)
        OK(RVMA_Put(put_bytes + i, SIZE, &self, BOX(9)));
    CHECK(RVMA_Win_get_epoch(win) == 3);

    RVMA_Op_options details = at(4, 1);
    OK(RVMA_Get_opts(back, SIZE - 4, &self, BOX(9), &details)); /* a kept epoch */
    CHECK(memcmp(back, put_bytes + 1 + 4, SIZE - 4) == 0);
    details = at(0, 0);
    EXPECT(RVMA_ERR_EPOCH, RVMA_Get_opts(back, SIZE, &self, BOX(9), &details)); /* not kept */
    memset(buffers[3], 7, SIZE);
    OK(RVMA_Get(back, SIZE, &self, BOX(9))); /* the current one */
    CHECK(memcmp(back, buffers[3], SIZE) == 0);
    EXPECT(RVMA_ERR_LENGTH, RVMA_Get(back, SIZE + 1, &self, BOX(9)));

    EXPECT(RVMA_ERR_NO_EPOCH, RVMA_Win_rewind(win, 3, &epoch));
    OK(RVMA_Win_rewind(win, 2, &epoch));
    CHECK(epoch.epoch == 1 && epoch.buffer == buffers[1] && epoch.length == SIZE);
    CHECK(epoch.size == SIZE && epoch.operations == 1);
    CHECK(memcmp(epoch.buffer, put_bytes + 1, SIZE) == 0);
    CHECK(RVMA_Win_get_epoch(win) == 1);
    EXPECT(RVMA_ERR_EPOCH, RVMA_Put(put_bytes, SIZE, &self, BOX(9)));
    OK(RVMA_Wait(win, &epoch, PATIENCE)); /* before the rewind, and not reported yet */
    CHECK(epoch.epoch == 0);
    EXPECT(RVMA_ERR_TIMEOUT, RVMA_Wait(win, &epoch, 0));
    OK(RVMA_Post_buffer(buffers[4], SIZE, NULL, win)); /* for epoch 1 again */
    OK(RVMA_Put(put_bytes + 9, SIZE, &self, BOX(9)));
    OK(RVMA_Wait(win, &epoch, PATIENCE));
    CHECK(epoch.epoch == 1 && epoch.buffer == buffers[4]);
    CHECK(memcmp(buffers[4], put_bytes + 9, SIZE) == 0);
    OK(RVMA_Win_free(win));
}

static void the_catch_all_takes_the_rest(void)
{
    char buffers[2][SIZE], own[SIZE];
    RVMA_Epoch epoch;
    RVMA_Record record = {0};
    RVMA_Win rest = RVMA_Init_catch_all(NULL, 1, RVMA_EPOCH_OPS, NULL);
    CHECK(rest != NULL);
    CHECK(RVMA_Init_catch_all(NULL, 1, RVMA_EPOCH_OPS, NULL) == NULL);
    CHECK(RVMA_Last_status() == RVMA_ERR_ADDRESS_USED);
    RVMA_Win win = RVMA_Init_window(BOX(10), NULL, 1, RVMA_EPOCH_OPS);
    OK(RVMA_Post_buffer(buffers[0], SIZE, NULL, rest));
    OK(RVMA_Post_buffer_record(buffers[1], SIZE, &record, rest));
    OK(RVMA_Post_buffer(own, SIZE, NULL, win));
    OK(RVMA_Put(put_bytes, SIZE, &self, BOX(0x123456789abcdef0)));
    OK(RVMA_Put(put_bytes, SIZE, &self, BOX(10)));
    OK(RVMA_Wait(rest, &epoch, PATIENCE));
    CHECK(epoch.virtual_addr == BOX(0x123456789abcdef0));
    OK(RVMA_Wait(win, &epoch, PATIENCE));
    CHECK(epoch.virtual_addr == BOX(10));
    OK(RVMA_Put(put_bytes, SIZE, &self, BOX(11)));
    OK(RVMA_Wait_record(&record, PATIENCE));
    CHECK(record.virtual_addr == BOX(11));
    OK(RVMA_Win_free(rest));
    OK(RVMA_Win_free(win));
    EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Put(put_bytes, SIZE, &self, BOX(11)));
}

static void a_closed_window_refuses_or_is_silent(void)
{
    char buffer[SIZE] = {0}, untouched[SIZE] = {0};
    RVMA_Epoch epoch;
    RVMA_Win win = RVMA_Init_window(BOX(12), NULL, 1, RVMA_EPOCH_OPS);
    OK(RVMA_Post_buffer(buffer, SIZE, NULL, win));
    OK(RVMA_Post_buffer(untouched, SIZE, NULL, win));
    OK(RVMA_Put(put_bytes, SIZE, &self, BOX(12)));
    OK(RVMA_Close_Win(win));
    EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Put(put_bytes, SIZE, &self, BOX(12)));
    EXPECT(RVMA_ERR_CLOSED, RVMA_Post_buffer(buffer, SIZE, NULL, win));
    OK(RVMA_Wait(win, &epoch, PATIENCE)); /* what was complete is reported */
    CHECK(epoch.buffer == buffer);
    OK(RVMA_Close_Win_opts(win, 0)); /* from now on no sender is notified */
    OK(RVMA_Put(put_bytes, SIZE, &self, BOX(12)));
    OK(RVMA_Win_free(win));

    win = window(12, 1, RVMA_EPOCH_OPS, RVMA_WIN_NO_NACK, 0);
    OK(RVMA_Post_buffer(untouched, SIZE, NULL, win));
    OK(RVMA_Close_Win(win));
    OK(RVMA_Put(put_bytes, SIZE, &self, BOX(12)));
    OK(RVMA_Win_free(win));
    for (int i = 0; i < SIZE; i++)
        CHECK(untouched[i] == 0);
}

static void buffers_may_go_as_soon_as_they_are_back(void)
{
    /* Under AddressSanitizer any touch of ours after free() ends the test. */
    RVMA_Win win = window(13, 1, RVMA_EPOCH_OPS, 0, 0);
    for (int i = 0; i < 300; i++) {
        char *buffer = malloc(SIZE + i), *source = malloc(SIZE + i);
        void **ended = calloc(1, sizeof *ended);
        memset(source, i, SIZE + i);
        OK(RVMA_Post_buffer(buffer, SIZE + i, ended, win));
        OK(RVMA_Put(source, SIZE + i, &self, BOX(13)));
        free(source);
        OK(RVMA_Wait_ptr(ended, NULL, PATIENCE));
        CHECK(*ended == buffer && buffer[SIZE + i - 1] == (char)i);
        free(buffer);
        free(ended);
    }
    RVMA_Record *record = aligned_alloc(64, sizeof *record);
    memset(record, 0, sizeof *record);
    char *buffer = malloc(SIZE);
    OK(RVMA_Post_buffer_record(buffer, SIZE, record, win));
    OK(RVMA_Win_free(win)); /* handed back, unused */
    free(buffer);
    free(record);
    EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Put(put_bytes, SIZE, &self, BOX(13)));
}

static void empty_and_large_puts(void)
{
    enum { LARGE = 5 * 1000 * 1000 };
    RVMA_Win win = RVMA_Init_window(BOX(14), NULL, 2, RVMA_EPOCH_OPS);
    unsigned char *buffer = calloc(1, LARGE), *source = malloc(LARGE);
    RVMA_Epoch epoch;
    for (int i = 0; i < LARGE; i++)
        source[i] = (unsigned char)(i * 7 + i / 251);
    OK(RVMA_Post_buffer(buffer, LARGE, NULL, win));
    OK(RVMA_Put(NULL, 0, &self, BOX(14)));
    OK(RVMA_Put(source, LARGE, &self, BOX(14)));
    OK(RVMA_Wait(win, &epoch, PATIENCE));
    CHECK(epoch.length == LARGE && memcmp(buffer, source, LARGE) == 0);
    free(source);
    free(buffer);
    OK(RVMA_Win_free(win));
}

static void more_at_once_than_there_is_room_for(void)
{
    RVMA_Status status;
    int begun = 0;
    RVMA_Win win = RVMA_Init_window(BOX(15), NULL, 1, RVMA_EPOCH_OPS);
    /* None can end: no buffer is posted. */
    while ((status = RVMA_Iput(put_bytes, 8, &self, BOX(15), NULL, NULL)) == RVMA_SUCCESS)
        begun++;
    CHECK(status == RVMA_ERR_RESOURCES && begun > 1000);
    OK(RVMA_Win_free(win));
    EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Flush(PATIENCE));
    OK(RVMA_Iput(put_bytes, 8, &self, BOX(15), NULL, NULL));
    EXPECT(RVMA_ERR_NO_MAILBOX, RVMA_Flush(PATIENCE));
}

/* Memory that is missing is reported for the side on which it is. */
static void missing_memory_is_told_by_side(void)
{
    char buffer[SIZE];
    void *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(gone != MAP_FAILED);
    CHECK(munmap(gone, 4096) == 0);
    RVMA_Win win = RVMA_Init_window(BOX(16), NULL, 1, RVMA_EPOCH_OPS);
    OK(RVMA_Post_buffer(buffer, SIZE, NULL, win));
    EXPECT(RVMA_ERR_MEMORY, RVMA_Put(gone, SIZE, &self, BOX(16)));
    RVMA_Win other = RVMA_Init_window(BOX(17), NULL, 1, RVMA_EPOCH_OPS);
    void *theirs = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(theirs != MAP_FAILED);
    OK(RVMA_Post_buffer(theirs, 4096, NULL, other));
    CHECK(munmap(theirs, 4096) == 0);
    EXPECT(RVMA_ERR_NO_BUFFER, RVMA_Put(put_bytes, SIZE, &self, BOX(17)));
    CHECK(strstr(RVMA_Last_error(), "the memory of its buffer is gone") != NULL);
    OK(RVMA_Win_free(other));
    OK(RVMA_Win_free(win));
}

int main(void)
{
    for (size_t i = 0; i < sizeof put_bytes; i++)
        put_bytes[i] = (char)(i * 31 + i / 7);
    start();
    an_epoch_ends_at_its_threshold();
    several_epochs_are_told_in_order();
    a_record_tells_everything();
    refusals_reach_the_sender();
    keys_are_needed();
    a_put_waits_for_a_buffer();
    a_stream_is_handed_over_early();
    the_past_is_kept_and_gone_back_to();
    the_catch_all_takes_the_rest();
    a_closed_window_refuses_or_is_silent();
    buffers_may_go_as_soon_as_they_are_back();
    empty_and_large_puts();
    more_at_once_than_there_is_room_for();
    missing_memory_is_told_by_side();
    OK(RVMA_Finalize());
    return 0;
}
