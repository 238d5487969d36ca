/*
 * Halo exchange: eight processes, each with an eighth of a periodic grid, average every cell with
 * its six neighbours, step after step. The faces that a process needs from its neighbours come into
 * six mailboxes, one per direction, whose addresses are fixed: 0 to 5.
 *
 *   cc halo.c $(pkg-config --cflags --libs rvma) -o halo && ./halo
 */
#include "common.h"
#include <string.h>

enum { N = 12, STEPS = 20, PROCESSES = 8, DIRECTIONS = 6, BUFFERS = 2, FACE = N * N };

/* Cells, and around them the neighbours' faces. */
typedef double Grid[N + 2][N + 2][N + 2];

static struct {
    RVMA_Addr address[PROCESSES];
    double result[2 * N][2 * N][2 * N];
    atomic_int ready, done;
} *job;

static double initial(int x, int y, int z) { return (x * 31 + y * 17 + z * 7) % 23; }

/* Process p has the coordinates (p & 1, p >> 1 & 1, p >> 2). With two per axis, either way round
 * leads to the same neighbour. Direction 2 * axis looks down the axis, 2 * axis + 1 up. */
static int neighbour(int process, int direction) { return process ^ 1 << direction / 2; }

/* The cell `at` of a face: of my own outermost layer (depth 1), or the neighbour's (depth 0). */
static double *cell(Grid grid, int direction, int depth, int at)
{
    int axis = direction / 2, i = at / N + 1, j = at % N + 1;
    int layer = direction % 2 ? N + 1 - depth : depth;
    return axis == 0   ? &grid[layer][i][j]
           : axis == 1 ? &grid[i][layer][j]
                       : &grid[i][j][layer];
}

static void average(Grid from, Grid to)
{
    for (int x = 1; x <= N; x++)
        for (int y = 1; y <= N; y++)
            for (int z = 1; z <= N; z++)
                to[x][y][z] = (from[x - 1][y][z] + from[x + 1][y][z] + from[x][y - 1][z] +
                               from[x][y + 1][z] + from[x][y][z - 1] + from[x][y][z + 1] +
                               from[x][y][z]) / 7;
}

/* Sends my faces of this step, and takes in the neighbours'. */
static void exchange(int me, int64_t step, Grid grid, RVMA_Win *windows)
{
    static double outgoing[DIRECTIONS][FACE];
    RVMA_Request requests[DIRECTIONS];
    RVMA_Op_options options = RVMA_OP_OPTIONS_INIT;
    options.epoch = step; /* a neighbour that is behind does not take it for its own step's */

    for (int d = 0; d < DIRECTIONS; d++) {
        for (int at = 0; at < FACE; at++)
            outgoing[d][at] = *cell(grid, d, 1, at);
        /* What I see below me, my neighbour sees above it. */
        TRY(RVMA_Iput(outgoing[d], sizeof outgoing[d], &job->address[neighbour(me, d)],
                      (void *)(intptr_t)(d ^ 1), &options, &requests[d]));
    }
    for (int d = 0; d < DIRECTIONS; d++) {
        RVMA_Epoch face;
        TRY(RVMA_Wait(windows[d], &face, 60000));
        const double *incoming = face.buffer;
        for (int at = 0; at < FACE; at++)
            *cell(grid, d, 0, at) = incoming[at];
        /* Ready for the step after the next: the other buffer is there for the next. */
        TRY(RVMA_Post_buffer(face.buffer, face.size, NULL, windows[d]));
    }
    for (int d = 0; d < DIRECTIONS; d++)
        TRY(RVMA_Wait_request(&requests[d], 60000));
}

static void run(int me)
{
    static Grid grids[2];
    static double incoming[DIRECTIONS][BUFFERS][FACE];
    RVMA_Win windows[DIRECTIONS];
    int x0 = (me & 1) * N, y0 = (me >> 1 & 1) * N, z0 = (me >> 2) * N;

    RVMA_Init_options init = {.struct_size = sizeof init, .bind = "127.0.0.1", .sockets = 1};
    TRY(RVMA_Init(&init));
    TRY(RVMA_Local_addr(&job->address[me]));
    for (int d = 0; d < DIRECTIONS; d++) {
        windows[d] = RVMA_Init_window((void *)(intptr_t)d, NULL, sizeof incoming[d][0],
                                      RVMA_EPOCH_BYTES);
        for (int b = 0; b < BUFFERS; b++)
            TRY(RVMA_Post_buffer(incoming[d][b], sizeof incoming[d][b], NULL, windows[d]));
    }
    for (int x = 0; x < N; x++)
        for (int y = 0; y < N; y++)
            for (int z = 0; z < N; z++)
                grids[0][x + 1][y + 1][z + 1] = initial(x0 + x, y0 + y, z0 + z);
    meet(&job->ready, PROCESSES); /* all mailboxes are there */

    for (int step = 0; step < STEPS; step++) {
        exchange(me, step, grids[step % 2], windows);
        average(grids[step % 2], grids[(step + 1) % 2]);
    }

    for (int x = 0; x < N; x++)
        for (int y = 0; y < N; y++)
            memcpy(job->result[x0 + x][y0 + y] + z0, grids[STEPS % 2][x + 1][y + 1] + 1,
                   N * sizeof(double));
    meet(&job->done, PROCESSES); /* no process ends while others may still need it */
    TRY(RVMA_Finalize());
}

/* The same without exchange: every cell by itself, on the whole grid. */
static int is_right(void)
{
    enum { M = 2 * N };
    static double whole[2][M][M][M];
    for (int i = 0; i < M * M * M; i++)
        whole[0][i / M / M][i / M % M][i % M] = initial(i / M / M, i / M % M, i % M);
    for (int step = 0; step < STEPS; step++) {
        double(*from)[M][M] = whole[step % 2], (*to)[M][M] = whole[(step + 1) % 2];
        for (int i = 0; i < M * M * M; i++) {
            int x = i / M / M, y = i / M % M, z = i % M;
            to[x][y][z] = (from[(x + M - 1) % M][y][z] + from[(x + 1) % M][y][z] +
                           from[x][(y + M - 1) % M][z] + from[x][(y + 1) % M][z] +
                           from[x][y][(z + M - 1) % M] + from[x][y][(z + 1) % M] +
                           from[x][y][z]) / 7;
        }
    }
    return memcmp(whole[STEPS % 2], job->result, sizeof job->result) == 0;
}

int main(void)
{
    job = shared(sizeof *job);
    if (in_processes(PROCESSES, run) != 0)
        return 1;
    if (!is_right()) {
        fprintf(stderr, "halo: the result differs from the serial one\n");
        return 1;
    }
    printf("halo: %d processes, %d steps of %d^3 cells: equal to the serial result\n", PROCESSES,
           STEPS, 2 * N);
    return 0;
}
