/* The header by itself, in C and in C++, and the sizes that the library counts on. */
#include <rvma.h>

#ifdef RVMA_PAPER_NAMES
/* The paper's names stand for the same types and values. */
struct addr_in address;
RVMA_Addr *same_address = &address;
key_t key;
RVMA_Key *same_key = &key;
epoch_type types[2] = {EPOCH_BYTES, EPOCH_OPS};
RVMA_Epoch_type *same_types = types;
#else
/* The header takes none of these names from a program. */
struct addr_in {
    int unused;
};
#ifndef _SYS_IPC_H
typedef struct addr_in key_t;
#endif
typedef enum epoch_type { EPOCH_BYTES = 7, EPOCH_OPS = 9 } epoch_type;
#endif

RVMA_Op_options options = RVMA_OP_OPTIONS_INIT;
RVMA_Record records[2];

#ifdef __cplusplus
#define SIZE_IS(type, size) static_assert(sizeof(type) == size, "as in types.rs")
#else
#define SIZE_IS(type, size) _Static_assert(sizeof(type) == size, "as in types.rs")
#endif
SIZE_IS(RVMA_Addr, 24);
SIZE_IS(RVMA_Init_options, 48);
SIZE_IS(RVMA_Win_options, 16);
SIZE_IS(RVMA_Op_options, 24);
SIZE_IS(RVMA_Epoch, 64);
SIZE_IS(RVMA_Record, 64);
SIZE_IS(records, 128); /* one cache line each */

void *newest(void **pointer);
void *newest(void **pointer) { return RVMA_Load_ptr(pointer); }
