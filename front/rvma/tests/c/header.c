/* The header by itself, in C and in C++. */
#include <rvma.h>

RVMA_Op_options options = RVMA_OP_OPTIONS_INIT;
RVMA_Record records[2];
#ifdef __cplusplus
static_assert(sizeof records == 128, "a record is one cache line");
#else
_Static_assert(sizeof records == 128, "a record is one cache line");
#endif

void *newest(void **pointer);
void *newest(void **pointer) { return RVMA_Load_ptr(pointer); }
