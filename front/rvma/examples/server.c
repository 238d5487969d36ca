/*
 * Many to one: clients put requests into one mailbox of a server, which answers into a mailbox of
 * each client. The server keeps nothing per client, and no client knows of its buffers: requests
 * are appended to whichever buffer is at the head (a stream), and the server takes a buffer when it
 * holds BATCH requests, or when nothing has come for a while. A buffer that is taken early may have
 * holes, where requests are still on their way, so it is cleared before it is posted.
 *
 *   cc server.c $(pkg-config --cflags --libs rvma) -o server && ./server
 */
#include "common.h"
#include <string.h>

enum { CLIENTS = 6, REQUESTS = 200, BATCH = 64, BUFFERS = 4, PATIENCE_MS = 5 };

static void *const REQUEST_BOX = (void *)0x11FF0011;
static void *const ANSWER_BOX = (void *)0x11FF0031;

struct request {
    RVMA_Addr from;
    int64_t number; /* from 1; 0 is a hole */
    int64_t value;
};

static struct {
    RVMA_Addr server;
    atomic_int ready, done;
} *job;

static int64_t answer_to(int64_t value) { return value * value + 1; }

static void init(void)
{
    RVMA_Init_options init = {.struct_size = sizeof init, .bind = "127.0.0.1", .sockets = 1};
    TRY(RVMA_Init(&init));
}

/* Answers what is in a buffer; returns how many requests that were. */
static int answer(const RVMA_Epoch *batch)
{
    static int64_t answers[BATCH];
    const struct request *requests = batch->buffer;
    int places = (int)(batch->length / (int64_t)sizeof *requests), count = 0;
    for (int i = 0; i < places; i++) {
        if (requests[i].number == 0)
            continue;
        RVMA_Op_options options = RVMA_OP_OPTIONS_INIT;
        options.offset = (requests[i].number - 1) * (int64_t)sizeof answers[i];
        answers[i] = answer_to(requests[i].value);
        TRY(RVMA_Iput(&answers[i], sizeof answers[i], &requests[i].from, ANSWER_BOX, &options,
                      NULL));
        count++;
    }
    TRY(RVMA_Flush(60000)); /* `answers` is used again */
    return count;
}

static void serve(void)
{
    static struct request buffers[BUFFERS][BATCH];
    RVMA_Win_options stream = {.struct_size = sizeof stream, .flags = RVMA_WIN_STREAM};
    init();
    TRY(RVMA_Local_addr(&job->server));
    RVMA_Win window = RVMA_Init_window_opts(REQUEST_BOX, NULL, BATCH, RVMA_EPOCH_OPS, &stream);
    for (int b = 0; b < BUFFERS; b++)
        TRY(RVMA_Post_buffer(buffers[b], sizeof buffers[b], NULL, window));
    meet(&job->ready, CLIENTS + 1);

    int answered = 0, batches = 0;
    while (answered < CLIENTS * REQUESTS) {
        RVMA_Epoch batch;
        RVMA_Status status = RVMA_Wait(window, &batch, PATIENCE_MS);
        if (status == RVMA_ERR_TIMEOUT) {
            status = RVMA_Win_inc_epoch(window); /* hand over what there is */
            if (status != RVMA_ERR_NO_EPOCH)     /* all buffers have become full just now */
                TRY(status);
            continue;
        }
        TRY(status);
        answered += answer(&batch);
        batches += batch.operations > 0;
        memset(batch.buffer, 0, (size_t)batch.size);
        TRY(RVMA_Post_buffer(batch.buffer, batch.size, NULL, window));
    }
    printf("server: %d requests of %d clients answered, in %d batches\n", answered, CLIENTS,
           batches);
    fflush(stdout);
    meet(&job->done, CLIENTS + 1);
    TRY(RVMA_Finalize());
}

static void send_requests(int client)
{
    static struct request requests[REQUESTS];
    static int64_t answers[REQUESTS];
    void *complete = NULL;
    init();
    /* One epoch: all the answers, each at the place of its request. */
    RVMA_Win window = RVMA_Init_window(ANSWER_BOX, NULL, sizeof answers, RVMA_EPOCH_BYTES);
    TRY(RVMA_Post_buffer(answers, sizeof answers, &complete, window));
    meet(&job->ready, CLIENTS + 1);

    for (int i = 0; i < REQUESTS; i++) {
        TRY(RVMA_Local_addr(&requests[i].from));
        requests[i].number = i + 1;
        requests[i].value = client * 1000 + i;
        TRY(RVMA_Iput(&requests[i], sizeof requests[i], &job->server, REQUEST_BOX, NULL, NULL));
    }
    TRY(RVMA_Flush(60000));
    TRY(RVMA_Wait_ptr(&complete, NULL, 60000));
    for (int i = 0; i < REQUESTS; i++) {
        if (answers[i] != answer_to(requests[i].value)) {
            fprintf(stderr, "client %d: wrong answer to request %d\n", client, i);
            exit(1);
        }
    }
    meet(&job->done, CLIENTS + 1);
    TRY(RVMA_Finalize());
}

static void run(int number)
{
    if (number == 0)
        serve();
    else
        send_requests(number);
}

int main(void)
{
    job = shared(sizeof *job);
    return in_processes(CLIENTS + 1, run);
}
