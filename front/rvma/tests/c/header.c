/* The header by itself, in C and in C++, and the sizes that the library counts on. */
#include <rvma.h>

RVMA_Op_options options = RVMA_OP_OPTIONS_INIT;
RVMA_Record records[2];

#ifdef __cplusplus
#define SIZE_IS(type, size) static_assert(sizeof(type) == size, "as in types.rs")
#else
#define SIZE_IS(type, size) _Static_assert(sizeof(type) == size, "as in types.rs")
#endif
SIZE_IS(struct addr_in, 24);
SIZE_IS(RVMA_Init_options, 48);
SIZE_IS(RVMA_Win_options, 16);
SIZE_IS(RVMA_Op_options, 24);
SIZE_IS(RVMA_Epoch, 64);
SIZE_IS(RVMA_Record, 64);
SIZE_IS(records, 128); /* one cache line each */

void *newest(void **pointer);
void *newest(void **pointer) { return RVMA_Load_ptr(pointer); }
