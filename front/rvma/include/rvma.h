/*
 * rvma.h: Remote Virtual Memory Access, in software.
 *
 * The calls of R. E. Grant et al., "RVMA: Remote Virtual Memory Access", section III-C, with their
 * names and argument order, and what a complete library needs besides. Every name begins with
 * RVMA_; the paper's names of types (addr_in, key_t, epoch_type) are behind RVMA_PAPER_NAMES.
 *
 * A process that wants to be written to makes a *window* (a mailbox with a 64-bit address of its own
 * choice) and posts buffers to it; others put to the address and never learn where the bytes go.
 * When enough has arrived (the *epoch* ends), the address of the buffer is stored where its owner
 * said, and the next posted buffer takes over under the same address.
 *
 * Units.    Sizes and offsets are in bytes, 0 to 4 GiB - 1 for one buffer or operation. Times are in
 *           milliseconds; a negative time-out means for ever, 0 means do not wait.
 * Errors.   Calls return an RVMA_Status. Those that return something else return NULL or -1 if they
 *           fail, and RVMA_Last_status() returns why, RVMA_Last_error() describes it. Nothing has
 *           happened when a call fails, unless its description says so.
 * Ownership. A posted buffer, its notification pointer and its record are the library's until the
 *           buffer is handed back: its epoch has ended and, for windows that keep `retired` buffers,
 *           so many later ones have too; or the window was rewound past it; or it was freed with
 *           RVMA_Win_free(). The buffer of an operation is the library's until the operation has
 *           ended. Memory need not be registered or pinned, and may be freed once handed back.
 * Threads.  Every call may be made from any thread at any time, and several threads may use the same
 *           window; a request belongs to the one thread at a time that waits for it. No call may be
 *           made from a signal handler. A process that forks does so before RVMA_Init(): in a child
 *           of an initialised process every call fails with RVMA_ERR_FORKED. No call is a
 *           cancellation point (pthread_cancel): a thread that waits ends after its time-out.
 * Language. C99 or later, or C++11 or later.
 *
 * The man page rvma(7) is the overview; every call has a page of section 3.
 */
#ifndef RVMA_H
#define RVMA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The version of this header; RVMA_Version() returns the library's. */
#define RVMA_VERSION_MAJOR 0
#define RVMA_VERSION_MINOR 1
#define RVMA_VERSION_PATCH 0

/* A window's key. */
typedef int RVMA_Key;

/* ---- Results ------------------------------------------------------------------------------- */

typedef enum RVMA_Status {
    RVMA_SUCCESS = 0,
    /* Errors of the caller. */
    RVMA_ERR_ARGUMENT = 1,    /* an argument is NULL, out of range, or malformed */
    RVMA_ERR_NOT_INIT = 2,    /* RVMA_Init() was not called, or RVMA_Finalize() was */
    RVMA_ERR_INIT = 3,        /* RVMA_Init() was called already */
    RVMA_ERR_FORKED = 4,      /* this process is a child of the one that called RVMA_Init() */
    RVMA_ERR_WINDOW = 5,      /* no such window: it was freed, or never was one */
    RVMA_ERR_REQUEST = 6,     /* no such request: it was waited for already, or never was one */
    RVMA_ERR_CLOSED = 7,      /* the window is closed */
    RVMA_ERR_ADDRESS_USED = 8,/* another window has this address, or is the catch-all */
    RVMA_ERR_NO_EPOCH = 9,    /* the epoch has no buffer, or is not kept any more */
    /* Of no side in particular. */
    RVMA_ERR_TIMEOUT = 10,    /* it did not happen in time; it may yet */
    RVMA_ERR_RESOURCES = 11,  /* a limit of this process is reached: free or wait for something */
    RVMA_ERR_SYSTEM = 12,     /* the operating system refused */
    RVMA_ERR_CANCELLED = 13,  /* ended by RVMA_Finalize() or RVMA_Win_free() */
    RVMA_ERR_INTERNAL = 14,   /* a bug of the library */
    RVMA_ERR_MEMORY = 15,     /* memory here that it names is not mapped, or can't be written */
    /* How an operation ended at the other side. */
    RVMA_ERR_UNREACHABLE = 20,/* no answer came from there, or it refused to connect */
    RVMA_ERR_PEER = 21,       /* the peer died or left while the operation was under way */
    RVMA_ERR_NO_MAILBOX = 22, /* no such mailbox, another key, or closed with NACK */
    RVMA_ERR_EPOCH = 23,      /* the epoch that was named is over, or full */
    RVMA_ERR_LENGTH = 24,     /* it leaves the buffer */
    RVMA_ERR_NO_BUFFER = 25,  /* no buffer is posted, and the mailbox lets no put wait; or the
                                 buffer's memory is gone */
    RVMA_ERR_REFUSED = 26     /* the peer refused for another reason: RVMA_Last_error() */
} RVMA_Status;

/* What a status means, as one line of English. Never NULL; must not be freed. */
const char *RVMA_Strerror(RVMA_Status status);

/* Why the last call of this thread that failed did so, in words: what was wrong, and what to do.
 * "" if none failed. Valid until the next call of this thread that fails. */
const char *RVMA_Last_error(void);

/* The status of the last call of this thread that failed; RVMA_SUCCESS if none did. */
RVMA_Status RVMA_Last_status(void);

/* The library's version, such as "0.1.0". */
const char *RVMA_Version(void);

/* ---- Addresses of processes ---------------------------------------------------------------- */

/* Where a process is: an IP address and the port of its first socket (the paper's NID and PID). */
typedef struct RVMA_Addr {
    uint8_t bytes[16];  /* in network order; IPv4 has the first four, the others are 0 */
    uint32_t scope;     /* interface of a link-local IPv6 address, else 0 */
    uint16_t port;      /* in host order */
    uint8_t version;    /* 4 or 6 */
    uint8_t reserved;   /* 0 */
} RVMA_Addr;

/* Turns "host:port" or "[IPv6]:port" into an address. Names are looked up, which may block. With
 * RVMA_Init() done, only addresses of the family that it bound to are taken. */
RVMA_Status RVMA_Resolve(const char *text, RVMA_Addr *address);

/* The address at which others reach this process. If it is bound to no address in particular, the
 * one that packets to the rest of the world have. */
RVMA_Status RVMA_Local_addr(RVMA_Addr *address);

/* Writes an address as RVMA_Resolve() reads it, with a final NUL. 64 bytes are always enough. */
RVMA_Status RVMA_Addr_string(const RVMA_Addr *address, char *text, size_t size);

/* ---- Beginning and end --------------------------------------------------------------------- */

/* How this process is to be reached. Set struct_size, and leave at 0 what is to be the default;
 * where it says so an environment variable, if set, is the default. */
typedef struct RVMA_Init_options {
    uint32_t struct_size;       /* sizeof(RVMA_Init_options) */
    uint16_t port;              /* of the first socket; the others follow (RVMA_PORT; any) */
    uint16_t sockets;           /* 1 to 16 (RVMA_SOCKETS; as many as paths need, at least 4) */
    const char *bind;           /* numeric IP address to bind to (RVMA_BIND; all) */
    const char *policy;         /* congestion control and so on (RVMA_POLICY; the library's) */
    uint32_t paths;             /* per peer, 1 to 256 (RVMA_PATHS; 16) */
    uint32_t connect_timeout_ms;/* for a first contact (RVMA_CONNECT_TIMEOUT_MS; 5000) */
    uint32_t peer_timeout_ms;   /* a peer silent for so long is dead (RVMA_PEER_TIMEOUT_MS; 3000) */
    uint32_t windows;           /* most windows, up to 65536 (1024) */
    uint32_t buffers;           /* most posted and kept buffers, up to 524288 (16384) */
    uint32_t reserved;          /* 0 */
} RVMA_Init_options;

/* Opens the sockets and starts the thread that serves peers while the application computes. NULL:
 * all defaults. Once per process, until RVMA_Finalize(). */
RVMA_Status RVMA_Init(const RVMA_Init_options *options);

/* Ends everything: closes all windows, ends all operations (RVMA_ERR_CANCELLED), notifies the peers.
 * Calls that wait in other threads return. When it returns, no buffer is the library's any more.
 * RVMA_Init() may be called again. */
RVMA_Status RVMA_Finalize(void);

/* ---- Windows: the receiver's side ---------------------------------------------------------- */

/* A mailbox. A value that was freed is recognised. */
typedef struct RVMA_window *RVMA_Win;
#define RVMA_WIN_NULL ((RVMA_Win)0)

/* What an epoch's threshold counts. */
typedef enum RVMA_Epoch_type {
    RVMA_EPOCH_BYTES = 0, /* bytes put */
    RVMA_EPOCH_OPS = 1    /* puts */
} RVMA_Epoch_type;

/* As *key of a new window: draw a secret that others can't guess, and store it in *key. */
#define RVMA_KEY_NEW ((RVMA_Key)-1)

/* Puts are appended one behind the other, wherever they say they belong (section IV-B). */
#define RVMA_WIN_STREAM 1u
/* A put that finds no buffer is refused; without this it waits at its sender. */
#define RVMA_WIN_REFUSE_EMPTY 2u
/* Once closed, puts are discarded and their senders are not notified. */
#define RVMA_WIN_NO_NACK 4u

/* How a window is to be. Set struct_size; 0 elsewhere is the default. */
typedef struct RVMA_Win_options {
    uint32_t struct_size; /* sizeof(RVMA_Win_options) */
    uint32_t flags;       /* RVMA_WIN_..., or'ed */
    uint32_t retired;     /* buffers of ended epochs to keep for rewind and for gets by epoch */
    uint32_t reserved;    /* 0 */
} RVMA_Win_options;

/* Makes a window that others reach as `virtual_addr`, any 64-bit number. A put must name *key;
 * NULL, or a *key of 0, is the key of puts that name none. An epoch ends when at least
 * `epoch_threshold` (1 or more) bytes or puts are in place. NULL if it fails. */
RVMA_Win RVMA_Init_window(void *virtual_addr, RVMA_Key *key, int64_t epoch_threshold,
                          RVMA_Epoch_type type);

/* The same with options; NULL: none. */
RVMA_Win RVMA_Init_window_opts(void *virtual_addr, RVMA_Key *key, int64_t epoch_threshold,
                               RVMA_Epoch_type type, const RVMA_Win_options *options);

/* Makes the window for puts to addresses that no other window of this process has: one per
 * process. What the last put named is in RVMA_Epoch and RVMA_Record as virtual_addr. */
RVMA_Win RVMA_Init_catch_all(RVMA_Key *key, int64_t epoch_threshold, RVMA_Epoch_type type,
                             const RVMA_Win_options *options);

/* Adds a buffer to the window's bucket. When its epoch has ended, its address is stored in
 * *notification_ptr, after everything else is in place: read it with RVMA_Load_ptr(). Nothing is
 * stored before, so set it to NULL first. Several buffers may share a notification pointer; it may
 * be NULL, for those who use RVMA_Wait() or RVMA_Win_get_buf_ptrs(). */
RVMA_Status RVMA_Post_buffer(void *buffer, int64_t size, void **notification_ptr, RVMA_Win win);

/* One cache line that describes an ended epoch. Zero it before it is posted. */
typedef struct RVMA_Record {
    void *buffer;         /* the buffer, stored last; NULL until the epoch has ended */
    uint64_t length;      /* bytes put; of a stream: bytes up to the end of the last put */
    uint64_t epoch;       /* its number, from 0 */
    uint64_t operations;  /* puts made */
    uint64_t number;      /* of the buffer: counts what was posted to the window, from 0 */
    void *virtual_addr;   /* the address last put to: the window's own, but for the catch-all */
    uint32_t cancelled;   /* puts that are there in part: their sender died, or the buffer can't be
                           * written (read-only, unmapped); length counts what came */
    uint32_t flags;       /* RVMA_EPOCH_EARLY */
    uint64_t bytes;       /* bytes put; of a stream with holes, fewer than length */
} __attribute__((aligned(64))) RVMA_Record;

/* The epoch was ended by RVMA_Win_inc_epoch(). */
#define RVMA_EPOCH_EARLY 1u

/* As RVMA_Post_buffer(), with a record instead. The buffer is reported in the record only: neither
 * RVMA_Wait() nor RVMA_Win_get_buf_ptrs() give it. */
RVMA_Status RVMA_Post_buffer_record(void *buffer, int64_t size, RVMA_Record *record, RVMA_Win win);

/* Takes no more puts: those that come are refused, or discarded if the window has
 * RVMA_WIN_NO_NACK. Puts under way go on, and epochs that they end are reported. Buffers stay the
 * library's, and the address stays taken, until RVMA_Win_free(). */
RVMA_Status RVMA_Close_Win(RVMA_Win win);

/* The same; `nack` says whether senders are notified. May be called again, to change that. */
RVMA_Status RVMA_Close_Win_opts(RVMA_Win win, int nack);

/* Closes the window if need be, and forgets it: its buffers are handed back as they are, without
 * further notice, its address is free, and waiting calls end with RVMA_ERR_CANCELLED. */
RVMA_Status RVMA_Win_free(RVMA_Win win);

/* Ends the current epoch before its threshold. It takes no more puts; it is reported as soon as those
 * that it has taken are in place. RVMA_ERR_NO_EPOCH if no buffer is posted for it.
 *
 * A stream may be left with holes then: where a put was still missing, on its way, that its sender
 * had issued before others which have come. It goes to a later buffer. bytes < length means that
 * there are holes; to see where, clear the buffer before it is posted. */
RVMA_Status RVMA_Win_inc_epoch(RVMA_Win win);

/* The number of the current epoch, from 0: as many have ended. -1 if it fails. */
int64_t RVMA_Win_get_epoch(RVMA_Win win);

/* Takes the addresses of buffers whose epochs have ended, oldest first and each once: at most
 * `count`, into notification_ptrs. Returns how many, or -1. Does not wait. */
int RVMA_Win_get_buf_ptrs(RVMA_Win win, void *notification_ptrs[], int count);

/* An ended epoch. */
typedef struct RVMA_Epoch {
    void *buffer;
    int64_t size;         /* of the buffer, as posted */
    int64_t length;       /* bytes put; of a stream: bytes up to the end of the last put */
    int64_t bytes;        /* bytes put; of a stream with holes, fewer than length */
    int64_t epoch;        /* its number, from 0 */
    int64_t operations;   /* puts made */
    void *virtual_addr;   /* the address last put to */
    uint32_t cancelled;   /* puts that are there in part, as in RVMA_Record */
    uint32_t flags;       /* RVMA_EPOCH_EARLY */
} RVMA_Epoch;

/* Goes back to an earlier epoch: 1 is the newest that has ended. Its buffer, as it was, is reported in
 * *epoch (which may be NULL); it and all buffers posted after it are handed back without further
 * notice; the next one posted is for that epoch again. Until then puts are refused with
 * RVMA_ERR_EPOCH: have the senders stop first. RVMA_ERR_NO_EPOCH if the window does not keep so
 * many. Waiting calls go on waiting. */
RVMA_Status RVMA_Win_rewind(RVMA_Win win, int64_t back, RVMA_Epoch *epoch);

/* ---- Waiting ------------------------------------------------------------------------------- */

/* Sleeps until the window has an ended epoch that was not given yet, and gives it in *epoch: the
 * oldest, each once, and none that RVMA_Win_get_buf_ptrs() took. Of a window whose owner asks
 * neither, the 4096 newest are remembered. */
RVMA_Status RVMA_Wait(RVMA_Win win, RVMA_Epoch *epoch, int64_t timeout_ms);

/* Sleeps while *notification_ptr is `old` (NULL, most often). */
RVMA_Status RVMA_Wait_ptr(void **notification_ptr, void *old, int64_t timeout_ms);

/* Sleeps until the record's buffer is not NULL. */
RVMA_Status RVMA_Wait_record(const RVMA_Record *record, int64_t timeout_ms);

/* Reads a notification pointer, or a record's buffer, which the library may be storing to: if it is
 * not NULL, the buffer and the rest of the record can be read. */
static inline void *RVMA_Load_ptr(void *const *pointer)
{
    return __atomic_load_n(pointer, __ATOMIC_ACQUIRE);
}

/* ---- Putting and getting: the initiator's side --------------------------------------------- */

/* An operation under way. */
typedef struct RVMA_request *RVMA_Request;
#define RVMA_REQUEST_NULL ((RVMA_Request)0)

/* No epoch is named. */
#define RVMA_EPOCH_ANY ((int64_t)-1)

/* Details of a put or get. Begin with RVMA_OP_OPTIONS_INIT: epoch 0 is an epoch. */
typedef struct RVMA_Op_options {
    uint32_t struct_size; /* sizeof(RVMA_Op_options) */
    RVMA_Key key;         /* the window's key; 0: none */
    int64_t offset;       /* into the buffer; streams take no notice of it */
    int64_t epoch;        /* the epoch it is for, and no other, below 2^32; or RVMA_EPOCH_ANY */
} RVMA_Op_options;

#define RVMA_OP_OPTIONS_INIT {sizeof(RVMA_Op_options), 0, 0, RVMA_EPOCH_ANY}

/* Puts `size` bytes into the head buffer of the mailbox `virtual_addr` of the process at
 * *dest_addr, from its first byte on. Blocks until they are in place there, or it is sure that they
 * never will be: success means that the receiver has them. Connects on first use. If the receiver
 * has no buffer posted it waits until there is one, for as long as the receiver lives.
 *
 * Order: the puts that a process issues to one address of one peer fill its epochs in the order in
 * which they were issued, unless they name an epoch. While a put that names an epoch waits for that
 * epoch, puts to the same address that were issued after it and name none wait for it: name the
 * epochs of all of them, or issue it last. Within an epoch puts may be placed in any order: what
 * overlaps may end as a mixture. */
RVMA_Status RVMA_Put(void *send_buffer, int64_t size, RVMA_Addr *dest_addr,
                     void *virtual_addr);

/* The same with options; NULL: none. */
RVMA_Status RVMA_Put_opts(const void *send_buffer, int64_t size, const RVMA_Addr *dest_addr,
                          void *virtual_addr, const RVMA_Op_options *options);

/* Copies `size` bytes from the buffer that the mailbox is filling (as far as it is filled), or of
 * the epoch that is named, if it is kept. Blocks as RVMA_Put() does. */
RVMA_Status RVMA_Get(void *receive_buffer, int64_t size, RVMA_Addr *src_addr,
                     void *virtual_addr);

/* The same with options; NULL: none. */
RVMA_Status RVMA_Get_opts(void *receive_buffer, int64_t size, const RVMA_Addr *src_addr,
                          void *virtual_addr, const RVMA_Op_options *options);

/* Begins a put and returns (after connecting, on first use; RVMA_ERR_RESOURCES if too many are under
 * way, and none ends within some milliseconds). The buffer is the library's until the
 * operation has ended, which RVMA_Test() and RVMA_Wait_request() report. If `request` is NULL only
 * RVMA_Flush() does. */
RVMA_Status RVMA_Iput(const void *send_buffer, int64_t size, const RVMA_Addr *dest_addr,
                      void *virtual_addr, const RVMA_Op_options *options, RVMA_Request *request);

/* Begins a get, likewise. */
RVMA_Status RVMA_Iget(void *receive_buffer, int64_t size, const RVMA_Addr *src_addr,
                      void *virtual_addr, const RVMA_Op_options *options, RVMA_Request *request);

/* Tests whether the operation has ended. If it has, *done is set to 1, *request to RVMA_REQUEST_NULL,
 * and its status is returned. If not, *done is set to 0 and RVMA_SUCCESS is returned. An operation
 * that is RVMA_REQUEST_NULL has ended with success. */
RVMA_Status RVMA_Test(RVMA_Request *request, int *done);

/* Waits until it has ended, and returns how. After RVMA_ERR_TIMEOUT it goes on, *request stays, and
 * the buffer is still the library's. */
RVMA_Status RVMA_Wait_request(RVMA_Request *request, int64_t timeout_ms);

/* Waits until every operation that was begun without a request, before this call, has ended.
 * Returns the status of the first operation that failed since the last call of RVMA_Flush(), or
 * RVMA_SUCCESS. */
RVMA_Status RVMA_Flush(int64_t timeout_ms);

/* ---- The paper's own names ----------------------------------------------------------------- */

/* Everything above begins with RVMA_. A program that is written with the names of the paper, which
 * other headers may use as well, defines RVMA_PAPER_NAMES before it includes this header. */
#ifdef RVMA_PAPER_NAMES
typedef RVMA_Key key_t; /* the same type as in <sys/types.h> on Linux */
#define addr_in RVMA_Addr
#define epoch_type RVMA_Epoch_type
#define EPOCH_BYTES RVMA_EPOCH_BYTES
#define EPOCH_OPS RVMA_EPOCH_OPS
#endif

#ifdef __cplusplus
}
#endif

#endif /* RVMA_H */
