/* Frees memory that the library still has, which AddressSanitizer is to notice: it sees what the
 * library's system calls read, and is notified of what the library's copies read and write. */
#include "check.h"

enum { SIZE = 1 << 20 };

int main(int count, char **arguments)
{
    start();
    RVMA_Win win = RVMA_Init_window(BOX(1), NULL, 1, RVMA_EPOCH_OPS);
    char *buffer = malloc(SIZE), *source = malloc(SIZE);
    memset(source, 1, SIZE);
    CHECK(count == 2);
    if (strcmp(arguments[1], "buffer") == 0) {
        OK(RVMA_Post_buffer(buffer, SIZE, NULL, win));
        free(buffer);
        OK(RVMA_Put(source, SIZE, &self, BOX(1)));
    } else {
        OK(RVMA_Iput(source, SIZE, &self, BOX(1), NULL, NULL));
        free(source);
        OK(RVMA_Post_buffer(buffer, SIZE, NULL, win));
        OK(RVMA_Flush(PATIENCE));
    }
    _exit(0); /* unnoticed */
}
