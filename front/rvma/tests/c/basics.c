/* Beginning and end, addresses, statuses, and what becomes of nonsense. */
#include "check.h"
#include <sys/wait.h>

static void nothing_works_before_the_beginning(void)
{
    char bytes[8] = {0};
    RVMA_Addr address = {.bytes = {127, 0, 0, 1}, .port = 9, .version = 4};
    RVMA_Request request = RVMA_REQUEST_NULL;
    RVMA_Epoch epoch;
    RVMA_Record record = {0};
    void *pointer = NULL;

    CHECK(RVMA_Last_status() == RVMA_SUCCESS);
    CHECK(strcmp(RVMA_Last_error(), "") == 0);
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Finalize());
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Local_addr(&address));
    CHECK(RVMA_Init_window(BOX(1), NULL, 1, RVMA_EPOCH_OPS) == RVMA_WIN_NULL);
    CHECK(RVMA_Last_status() == RVMA_ERR_NOT_INIT);
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Post_buffer(bytes, 8, NULL, RVMA_WIN_NULL));
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Put(bytes, 8, &address, BOX(1)));
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Get(bytes, 8, &address, BOX(1)));
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Iput(bytes, 8, &address, BOX(1), NULL, &request));
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Iget(bytes, 8, &address, BOX(1), NULL, &request));
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Wait(RVMA_WIN_NULL, &epoch, 0));
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Wait_ptr(&pointer, NULL, 0));
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Wait_record(&record, 0));
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Wait_request(&request, 0));
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Flush(0));
    CHECK(RVMA_Win_get_epoch(RVMA_WIN_NULL) == -1);
    CHECK(RVMA_Win_get_buf_ptrs(RVMA_WIN_NULL, &pointer, 1) == -1);
}

static void every_status_has_a_meaning(void)
{
    for (int status = RVMA_SUCCESS; status <= RVMA_ERR_MEMORY; status++)
        CHECK(strlen(RVMA_Strerror((RVMA_Status)status)) > 0);
    for (int status = RVMA_ERR_UNREACHABLE; status <= RVMA_ERR_REFUSED; status++)
        CHECK(strcmp(RVMA_Strerror((RVMA_Status)status), RVMA_Strerror((RVMA_Status)99)) != 0);
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", RVMA_VERSION_MAJOR, RVMA_VERSION_MINOR,
             RVMA_VERSION_PATCH);
    CHECK(strcmp(RVMA_Version(), version) == 0);
}

static void addresses_are_text_and_back(void)
{
    RVMA_Addr address;
    char text[64];
    OK(RVMA_Resolve("127.0.0.1:4810", &address));
    CHECK(address.version == 4 && address.port == 4810 && address.bytes[0] == 127);
    OK(RVMA_Addr_string(&address, text, sizeof text));
    CHECK(strcmp(text, "127.0.0.1:4810") == 0);
    OK(RVMA_Resolve("[2001:db8::7]:1", &address));
    OK(RVMA_Addr_string(&address, text, sizeof text));
    CHECK(strcmp(text, "[2001:db8::7]:1") == 0);
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Addr_string(&address, text, 15));
    OK(RVMA_Addr_string(&address, text, 16));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Addr_string(NULL, text, sizeof text));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Addr_string(&address, NULL, 64));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Resolve(NULL, &address));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Resolve("127.0.0.1:1", NULL));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Resolve("no port", &address));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Resolve("127.0.0.1:0", &address));
    address.version = 5;
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Addr_string(&address, text, sizeof text));
}

static void options_are_checked(void)
{
    RVMA_Init_options options = {.struct_size = 4};
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Init(&options));
    options = (RVMA_Init_options){.struct_size = sizeof options, .bind = "nowhere"};
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Init(&options));
    options = (RVMA_Init_options){.struct_size = sizeof options, .sockets = 17};
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Init(&options));
    options = (RVMA_Init_options){.struct_size = sizeof options, .paths = 257};
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Init(&options));
    options = (RVMA_Init_options){.struct_size = sizeof options, .policy = "cc=wishful"};
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Init(&options));
    options = (RVMA_Init_options){.struct_size = sizeof options, .windows = 65537};
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Init(&options));
    options = (RVMA_Init_options){.struct_size = sizeof options, .buffers = 524289};
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Init(&options));
    options = (RVMA_Init_options){.struct_size = sizeof options, .reserved = 1};
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Init(&options));
    options = (RVMA_Init_options){.struct_size = sizeof options, .bind = "192.0.2.1"};
    EXPECT(RVMA_ERR_SYSTEM, RVMA_Init(&options));
    setenv("RVMA_PORT", "many", 1);
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Init(NULL));
    unsetenv("RVMA_PORT");
}

static void the_environment_fills_in(void)
{
    setenv("RVMA_BIND", "127.0.0.1", 1);
    setenv("RVMA_SOCKETS", "1", 1);
    OK(RVMA_Init(NULL));
    OK(RVMA_Local_addr(&self));
    CHECK(self.bytes[0] == 127 && self.bytes[3] == 1);
    RVMA_Addr other;
    EXPECT(RVMA_ERR_SYSTEM, RVMA_Resolve("[::1]:9", &other)); /* of the other family */
    OK(RVMA_Finalize());
    unsetenv("RVMA_BIND");
    OK(RVMA_Init(NULL));
    OK(RVMA_Local_addr(&self));
    CHECK(self.bytes[0] != 0); /* not the wildcard */
    OK(RVMA_Finalize());
    unsetenv("RVMA_SOCKETS");
}

static void null_and_nonsense_are_refused(void)
{
    char bytes[64] = {0};
    void *pointer = NULL;
    RVMA_Request request = RVMA_REQUEST_NULL;
    RVMA_Record record = {0};
    RVMA_Epoch epoch;
    int done;
    start();
    EXPECT(RVMA_ERR_INIT, RVMA_Init(NULL));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Local_addr(NULL));

    CHECK(RVMA_Init_window(BOX(1), NULL, 0, RVMA_EPOCH_OPS) == NULL);
    CHECK(RVMA_Last_status() == RVMA_ERR_ARGUMENT);
    CHECK(RVMA_Init_window(BOX(1), NULL, 1, (RVMA_Epoch_type)2) == NULL);
    RVMA_Win_options options = {.struct_size = sizeof options, .flags = 64};
    CHECK(RVMA_Init_window_opts(BOX(1), NULL, 1, RVMA_EPOCH_OPS, &options) == NULL);
    RVMA_Win win = RVMA_Init_window(BOX(1), NULL, 1, RVMA_EPOCH_OPS);
    CHECK(win != NULL);
    CHECK(RVMA_Init_window(BOX(1), NULL, 1, RVMA_EPOCH_OPS) == NULL);
    CHECK(RVMA_Last_status() == RVMA_ERR_ADDRESS_USED);

    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Post_buffer(NULL, 8, NULL, win));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Post_buffer(bytes, -1, NULL, win));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Post_buffer(bytes, (int64_t)1 << 32, NULL, win));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Post_buffer(bytes, 8, (void **)((char *)&pointer + 1), win));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Post_buffer_record(bytes, 8, NULL, win));
    EXPECT(RVMA_ERR_ARGUMENT,
           RVMA_Post_buffer_record(bytes, 8, (RVMA_Record *)((char *)&record + 8), win));
    RVMA_Win wrong[] = {NULL, (RVMA_Win)&record, (RVMA_Win)(uintptr_t)-1, (RVMA_Win)1};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        EXPECT(RVMA_ERR_WINDOW, RVMA_Post_buffer(bytes, 8, NULL, wrong[i]));
        EXPECT(RVMA_ERR_WINDOW, RVMA_Post_buffer_record(bytes, 8, &record, wrong[i]));
        EXPECT(RVMA_ERR_WINDOW, RVMA_Close_Win(wrong[i]));
        EXPECT(RVMA_ERR_WINDOW, RVMA_Close_Win_opts(wrong[i], 1));
        EXPECT(RVMA_ERR_WINDOW, RVMA_Win_free(wrong[i]));
        EXPECT(RVMA_ERR_WINDOW, RVMA_Win_inc_epoch(wrong[i]));
        EXPECT(RVMA_ERR_WINDOW, RVMA_Win_rewind(wrong[i], 1, NULL));
        EXPECT(RVMA_ERR_WINDOW, RVMA_Wait(wrong[i], &epoch, 0));
        CHECK(RVMA_Win_get_epoch(wrong[i]) == -1);
        CHECK(RVMA_Win_get_buf_ptrs(wrong[i], &pointer, 1) == -1);
        CHECK(RVMA_Last_status() == RVMA_ERR_WINDOW);
    }
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Wait(win, NULL, 0));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Wait_ptr(NULL, NULL, 0));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Wait_record(NULL, 0));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Win_rewind(win, 0, NULL));
    CHECK(RVMA_Win_get_buf_ptrs(win, NULL, 1) == -1);
    CHECK(RVMA_Win_get_buf_ptrs(win, &pointer, -1) == -1);
    CHECK(RVMA_Win_get_buf_ptrs(win, NULL, 0) == 0);

    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Put(bytes, 8, NULL, BOX(1)));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Put(NULL, 8, &self, BOX(1)));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Put(bytes, -8, &self, BOX(1)));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Get(NULL, 8, &self, BOX(1)));
    RVMA_Op_options details = at(-1, RVMA_EPOCH_ANY);
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Put_opts(bytes, 8, &self, BOX(1), &details));
    details = at(0, -2);
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Iput(bytes, 8, &self, BOX(1), &details, &request));
    details.struct_size = 0;
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Get_opts(bytes, 8, &self, BOX(1), &details));
    RVMA_Addr unknown = {0};
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Iget(bytes, 8, &unknown, BOX(1), NULL, &request));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Test(NULL, &done));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Test(&request, NULL));
    EXPECT(RVMA_ERR_ARGUMENT, RVMA_Wait_request(NULL, 0));
    OK(RVMA_Test(&request, &done));
    CHECK(done == 1);
    OK(RVMA_Wait_request(&request, 0));
    request = (RVMA_Request)win; /* a handle of another kind */
    EXPECT(RVMA_ERR_REQUEST, RVMA_Test(&request, &done));
    EXPECT(RVMA_ERR_REQUEST, RVMA_Wait_request(&request, 0));
    OK(RVMA_Flush(0));

    OK(RVMA_Win_free(win));
    EXPECT(RVMA_ERR_WINDOW, RVMA_Win_free(win));
    win = RVMA_Init_window(BOX(1), NULL, 1, RVMA_EPOCH_OPS); /* its address is free again */
    CHECK(win != NULL);
    OK(RVMA_Finalize());
    EXPECT(RVMA_ERR_NOT_INIT, RVMA_Win_free(win));
}

static void handles_end_with_the_library(void)
{
    static char bytes[8] = "forward";
    char room[8] = {0};
    RVMA_Request earlier, later;
    int done;
    start();
    RVMA_Win before = RVMA_Init_window(BOX(1), NULL, 1, RVMA_EPOCH_OPS);
    CHECK(before != NULL);
    OK(RVMA_Iput(bytes, 8, &self, BOX(1), NULL, &earlier)); /* waits for a buffer */
    OK(RVMA_Finalize());

    start();
    RVMA_Win win = RVMA_Init_window(BOX(1), NULL, 1, RVMA_EPOCH_OPS);
    CHECK(win != NULL && win != before);
    OK(RVMA_Iput(bytes, 8, &self, BOX(1), NULL, &later));
    CHECK(later != earlier);
    EXPECT(RVMA_ERR_WINDOW, RVMA_Post_buffer(room, 8, NULL, before));
    EXPECT(RVMA_ERR_WINDOW, RVMA_Win_free(before));
    EXPECT(RVMA_ERR_REQUEST, RVMA_Test(&earlier, &done));
    OK(RVMA_Post_buffer(room, 8, NULL, win));
    OK(RVMA_Wait_request(&later, PATIENCE));
    OK(RVMA_Finalize());
    CHECK(memcmp(room, bytes, 8) == 0);
}

static void a_child_knows_that_it_is_one(void)
{
    start();
    pid_t child = fork();
    if (child == 0) {
        EXPECT(RVMA_ERR_FORKED, RVMA_Put("x", 1, &self, BOX(1)));
        EXPECT(RVMA_ERR_FORKED, RVMA_Init(NULL));
        EXPECT(RVMA_ERR_FORKED, RVMA_Finalize());
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    OK(RVMA_Finalize());
}

int main(void)
{
    nothing_works_before_the_beginning();
    every_status_has_a_meaning();
    addresses_are_text_and_back();
    options_are_checked();
    the_environment_fills_in();
    null_and_nonsense_are_refused();
    handles_end_with_the_library();
    a_child_knows_that_it_is_one();
    return 0;
}
