// Ranks of an MPI program: rings, sums, exchanges of all with all and one-sided access, from a word
// to a mebibyte, every word compared.

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { WORDS_MAX = 1 << 17 };

static int rank, ranks;

#define DEMAND(what)                                                                       \
    do {                                                                                   \
        if (!(what)) {                                                                     \
            fprintf(stderr, "rank %d, line %d: not so: %s\n", rank, __LINE__, #what);      \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                  \
        }                                                                                  \
    } while (0)

/// A word that no other place, sender or round has.
static uint64_t word(int from, int round, int at)
{
    uint64_t x = ((uint64_t)from << 48) ^ ((uint64_t)round << 40) ^ (uint64_t)at;
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    return x ^ (x >> 29);
}

static void fill(uint64_t *to, int words, int round)
{
    for (int at = 0; at < words; at++)
        to[at] = word(rank, round, at);
}

static void compare(const uint64_t *found, int words, int from, int round, int first)
{
    for (int at = 0; at < words; at++)
        DEMAND(found[at] == word(from, round, first + at));
}

/// Each rank sends to the next and receives from the one before.
static void ring(uint64_t *to, uint64_t *from, int words, int round)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    MPI_Status status;
    int count;
    fill(to, words, round);
    MPI_Sendrecv(to, words, MPI_UINT64_T, next, round, from, words, MPI_UINT64_T, before, round,
                 MPI_COMM_WORLD, &status);
    MPI_Get_count(&status, MPI_UINT64_T, &count);
    DEMAND(count == words);
    compare(from, words, before, round, 0);
}

static void sums(uint64_t *to, uint64_t *from, int words, int round)
{
    fill(to, words, round);
    MPI_Allreduce(to, from, words, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
    for (int at = 0; at < words; at++) {
        uint64_t sum = 0;
        for (int other = 0; other < ranks; other++)
            sum += word(other, round, at);
        DEMAND(from[at] == sum);
    }
}

static void all_to_all(uint64_t *to, uint64_t *from, int words, int round)
{
    int part = words / ranks;
    fill(to, part * ranks, round);
    MPI_Alltoall(to, part, MPI_UINT64_T, from, part, MPI_UINT64_T, MPI_COMM_WORLD);
    for (int other = 0; other < ranks; other++)
        compare(from + other * part, part, other, round, rank * part);
}

/// Into the memory of the next, out of that of the one before, and a counter that all add to.
static void one_sided(uint64_t *to, uint64_t *from, int words, int round)
{
    int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    uint64_t *window, one = 1, old;
    MPI_Win handle;
    MPI_Win_allocate((words + 1) * sizeof *window, sizeof *window, MPI_INFO_NULL, MPI_COMM_WORLD,
                     &window, &handle);
    window[words] = 0;
    fill(to, words, round);
    MPI_Win_fence(0, handle);
    MPI_Put(to, words, MPI_UINT64_T, next, 0, words, MPI_UINT64_T, handle);
    MPI_Win_fence(0, handle);
    compare(window, words, before, round, 0);
    // What the one before has was written by the one before that.
    MPI_Get(from, words, MPI_UINT64_T, before, 0, words, MPI_UINT64_T, handle);
    MPI_Win_fence(0, handle);
    compare(from, words, (before + ranks - 1) % ranks, round, 0);
    for (int time = 0; time < 8; time++)
        MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, 0, words, MPI_SUM, handle);
    MPI_Win_fence(0, handle);
    if (rank == 0)
        DEMAND(window[words] == (uint64_t)(8 * ranks));
    MPI_Win_free(&handle);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    DEMAND(ranks > 1);
    uint64_t *to = malloc(WORDS_MAX * sizeof *to), *from = malloc(WORDS_MAX * sizeof *from);
    DEMAND(to && from);
    static const int sizes[] = { 1, 16, 200, 1500, 12345, WORDS_MAX };
    int round = 0;
    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        ring(to, from, sizes[size], ++round);
        sums(to, from, sizes[size], ++round);
        if (sizes[size] >= ranks)
            all_to_all(to, from, sizes[size], ++round);
        one_sided(to, from, sizes[size], ++round);
    }
    free(to);
    free(from);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0)
        printf("all fine: %d ranks\n", ranks);
    return 0;
}
