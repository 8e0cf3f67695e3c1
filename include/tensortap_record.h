/*
 * tensortap_record.h: record the inputs and outputs of a program's tasks, in C11 or C++17.
 *
 * 1. Overview
 *
 *    The program reports when a task begins and ends, and which tensors it reads and writes. tensortap copies and hashes
 *    the tensors into a dump, which `tensortap list`, `show`, `diff`, `blame` and `verify` read like any other dump.
 *
 *    The program links nothing. Run it under `tensortap record`:
 *
 *        tensortap record -- ./program
 *
 *    `tensortap record` sets two environment variables: TENSORTAP_LIBRARY, the path of a library, and TENSORTAP_SOCKET, the
 *    path of its socket. Without `tensortap record`, `tt_attach` returns NULL, and every other call returns at once for NULL.
 *    So the calls can stay in a shipped program. A `tt_recorder` is a recording handle of the program.
 *
 *    Define TT_LINKED before including this file to link the library (-ltensortap) instead of loading it. The loader must
 *    then find the library (rpath, LD_LIBRARY_PATH). A linked program can also record into its own folder, without
 *    `tensortap record`.
 *
 * 2. A task
 *
 *        #include <tensortap_record.h>
 *
 *        tt_session *session = tt_attach();              // once per process
 *        tt_recorder *r = tt_thread(session);            // once per recording thread
 *
 *        uint64_t shape[1] = {n};
 *        tt_task_info info = tt_task_of(tt_kernel_id(r, "saxpy"));
 *        tt_recorded_task task;
 *        tt_task_begin(r, &task, &info);
 *        tt_view x_view = tt_dense(0, TT_IN, x, TT_FLOAT32, 1, shape), y_view = tt_dense(1, TT_INOUT, y, TT_FLOAT32, 1, shape);
 *        tt_record_before(r, &task, &x_view);
 *        tt_record_before(r, &task, &y_view);
 *        tt_record_f32(r, &task, 2, a, 0);
 *
 *        saxpy(n, a, x, y);                              // the program's own work
 *
 *        tt_record_after(r, &task, &y_view);
 *        tt_task_end(r, &task);
 *
 *        tt_close(session);                              // once per tt_attach
 *
 *    Record inputs before the work and outputs after it. The first tensor recorded after the work marks the task as
 *    completed. A task without an end was still running when the program ended.
 *
 * 3. Threads and processes
 *
 *    - Any thread may use a session. Only one thread at a time may use a recorder.
 *    - `tt_thread` returns the recorder of the calling thread, which closes when the thread ends. `tt_recorder_open` opens a
 *      recorder that stays open until `tt_recorder_close`, for example for a queue or a pool.
 *    - Each open recorder uses a lane: its own part of the memory between the program and `tensortap record`. Without a
 *      free lane, no further recorder opens. `tensortap record` gives a process up to 256 lanes, because it does not know
 *      how many threads the program has (`--dump-threads` sets their number, and a large `--dump-arena` makes them fewer).
 *      A session with its own folder has 64, unless the program sets `tt_folder_options.lanes`. Unused pages of
 *      a lane take no memory.
 *    - A different recorder may end a task than the one that began it.
 *    - Destructors of thread-local and static objects, and handlers of `atexit`, may record. `tt_thread` returns NULL once
 *      the library's data for the thread is destroyed; recorders of `tt_recorder_open` keep working.
 *    - A closed handle stays valid: calls with it return TT_CLOSED. It takes 32 bytes, and is reused for another handle of
 *      its kind after 65,536 more were closed.
 *    - A process has one session. Attaching again opens the same session again, and the last `tt_close` ends it.
 *    - After `fork`, calls with the parent's handles return TT_FORKED in the child, which may attach again. After `exec`, a
 *      process attaches like any other program.
 *
 * 4. What a call may do
 *
 *    - A call never aborts, throws, installs a signal handler or writes to standard output.
 *    - A call waits for a slow `tensortap record` process, at most as long as `tt_set_max_wait` allows.
 *    - After `tensortap record` has exited, calls return TT_DROPPED and the program continues. One line on standard error
 *      reports this. A handle checks the process at most every 50 ms. Losses are counted in `tt_counters` and in the dump.
 *    - Memory is read during the call. If other threads write it meanwhile, the recorded content is a mixture, as it would
 *      be for the task.
 *
 * 5. Results
 *
 *    A call returns TT_OK or more on success, and a negative status on failure. `tt_status_text` describes a status.
 *    `tt_last_error` describes the last failure of the calling thread. Calls that return a number return 0 if nothing
 *    records.
 *
 * 6. Versions
 *
 *    The library has one symbol, the table `tensortap_record_1`. New functions are added at its end, and the table has its
 *    size. A call that the library does not have returns TT_TOO_OLD. An incompatible change would add a second symbol.
 *
 *    TENSORTAP_LIBRARY and TENSORTAP_SOCKET are ignored if they are not absolute paths, in set-uid programs, and in static
 *    programs, which cannot load libraries.
 */
#ifndef TENSORTAP_RECORD_H
#define TENSORTAP_RECORD_H

#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef TT_STATIC_ASSERT
#ifdef __cplusplus
#define TT_STATIC_ASSERT(what, text) static_assert(what, text)
#else
#define TT_STATIC_ASSERT(what, text) _Static_assert(what, text)
#endif
#endif

/* ---- Tensors (as in tensortap.h) ------------------------------------------------------------------------------- */

#ifndef TT_MAX_DIMS
#define TT_MAX_DIMS 8
#endif

#ifndef TT_DTYPES
#define TT_DTYPES
/* Element types. 4-bit elements are packed two per byte, low nibble first. */
enum tt_dtype {
    TT_FLOAT64 = 1,
    TT_FLOAT32 = 2,
    TT_FLOAT16 = 3,
    TT_BFLOAT16 = 4,
    TT_FLOAT8_E4M3FN = 5,
    TT_FLOAT8_E5M2 = 6,
    TT_FLOAT4_E2M1 = 7,
    TT_INT64 = 8,
    TT_INT32 = 9,
    TT_INT16 = 10,
    TT_INT8 = 11,
    TT_INT4 = 12,
    TT_UINT64 = 13,
    TT_UINT32 = 14,
    TT_UINT16 = 15,
    TT_UINT8 = 16,
    TT_BOOL = 17,
    TT_FLOAT8_E4M3FNUZ = 18,
    TT_FLOAT8_E5M2FNUZ = 19,
    TT_FLOAT8_E8M0FNU = 20,
    TT_COMPLEX64 = 21,  /* two 32-bit floats: real part, imaginary part */
    TT_COMPLEX128 = 22  /* two 64-bit floats */
};

/* How a task uses a tensor. */
enum tt_role { TT_IN = 1, TT_OUT = 2, TT_INOUT = 3 };
#endif

/* When a tensor is recorded. */
enum tt_stage { TT_BEFORE = 1, TT_AFTER = 2 };

/* Memory that contains a tensor. */
enum tt_space_kind { TT_DEVICE_MEMORY = 0, TT_HOST_MEMORY = 1, TT_PINNED_MEMORY = 2, TT_MANAGED_MEMORY = 3 };

/* What a task does. */
enum tt_operation {
    TT_RUN_KERNEL = 0,
    TT_COPY = 1,
    TT_FILL = 2,
    TT_HOST_READ = 3,
    TT_HOST_WRITE = 4,
    TT_GRAPH = 5,
    TT_OPERATOR = 6,
    TT_BARRIER = 7 /* only waits for other tasks, and other tasks wait for it */
};

/* Why a task waits for another: explicitly; because it reads or writes memory that the other writes or reads; because it
   follows the other in an ordered queue; because it waits for the other's event; or because the host waited for the other
   before submitting it. */
enum tt_edge_cause {
    TT_EXPLICIT = 0,
    TT_READ_AFTER_WRITE = 1,
    TT_WRITE_AFTER_WRITE = 2,
    TT_WRITE_AFTER_READ = 3,
    TT_QUEUE_ORDER = 4,
    TT_EVENT = 5,
    TT_HOST_WAIT = 6
};

/* Dump level: `--dump-tensor`. */
enum tt_level { TT_LEVEL_OFF = 0, TT_LEVEL_MARKED = 1, TT_LEVEL_FULL = 2, TT_LEVEL_META = 3, TT_LEVEL_HASH = 4 };

/* ---- Results ----------------------------------------------------------------------------------------------------- */

enum tt_status {
    TT_OK = 0,
    TT_OFF = 1,        /* not recording: the handle is NULL */
    TT_NOT_WANTED = 2, /* not recorded at this dump level */
    TT_FILTERED = 3,   /* filtered out; counted */
    TT_TOO_OLD = 4,    /* not recorded: the library is older than this call */

    TT_DROPPED = -1,       /* tensortap record has exited, its files are full, or the wait limit was reached; counted */
    TT_FORKED = -2,        /* the handle belongs to the parent process: attach again */
    TT_CLOSED = -3,        /* the session or the handle is closed */
    TT_NO_LANE = -4,       /* all lanes are in use, one per open recorder; counted */
    TT_BAD_ARGUMENT = -5,  /* see tt_last_error; counted. The dump lists a view as not captured if it exceeds its
                              buffer, has a size of 2^53 or more, or more than 1 TiB of content */
    TT_COMMIT_FIRST = -6,  /* no space until an earlier reservation of this recorder is committed */
    TT_TOO_LARGE = -7,     /* the reservation is too large; see tt_last_error for the limit */
    TT_NOT_ATTACHED = -8,  /* tensortap record cannot be reached, or the folder cannot be written; see tt_last_error */
    TT_NOT_FLUSHED = -9,   /* tensortap record has exited, or the wait limit was reached */
    TT_INTERNAL = -10      /* internal error; the call did not complete */
};

/* ---- Structures --------------------------------------------------------------------------------------------------- */

typedef struct tt_session tt_session;   /* the recording of a process */
typedef struct tt_recorder tt_recorder; /* a recording handle, used by one thread at a time */

/* Description of a task. Unknown fields are zero; tt_task_of clears them. */
typedef struct tt_task_info {
    uint64_t id;           /* unique in the session; 0: the session's next id. Set all ids or none. */
    uint32_t operation;    /* enum tt_operation */
    uint32_t kernel[3];    /* tt_kernel_id; 0 for none */
    uint32_t name;         /* tt_string; 0 for none, as in the following fields */
    uint32_t scope;        /* tt_scope_id */
    uint32_t queue;        /* tt_queue_id */
    uint32_t step;         /* tt_step_id */
    uint32_t module;       /* tt_module_id */
    uint32_t source_file;  /* tt_string */
    uint32_t source_line;  /* from 1 */
    uint32_t blocks;       /* runs per kernel; 0 means 1 */
    uint32_t grid[3];      /* work groups in each dimension */
    uint32_t group[3];     /* work items per group in each dimension */
    uint32_t flags;        /* TT_TASK_... */
    uint32_t records;      /* expected number of arguments, counted as filtered if a filter refuses the task */
    uint64_t parent;       /* with TT_TASK_HAS_PARENT: the region that contains it, or the task that submitted it.
                              Without: the innermost region that is open on the calling thread */
    uint64_t submitted_ns; /* time of submission, by CLOCK_MONOTONIC */
    uint64_t reserved[4];  /* zero */
} tt_task_info;

#define TT_TASK_MARKED 1u     /* all arguments are marked, for level `marked` */
#define TT_TASK_HAS_PARENT 2u
#define TT_TASK_REGION 4u     /* it is a region: see tt_region_begin */

/* A task that has begun: plain data, owned by the caller. */
typedef struct tt_recorded_task {
    uint64_t words[32];
} tt_recorded_task;

/* The id of a task. */
static inline uint64_t tt_task_id(const tt_recorded_task *task) { return task->words[1]; }

/* A strided view of a buffer, as an argument of a task. Offsets and strides count elements; strides may be zero or negative. */
typedef struct tt_view {
    const void *data;    /* first byte of the buffer */
    uint64_t bytes;      /* size of the buffer; the view must be inside */
    uint64_t start;      /* first element of the view */
    uint64_t shape[TT_MAX_DIMS];
    int64_t strides[TT_MAX_DIMS];
    uint16_t arg;        /* position among the task's arguments, up to 65534 */
    uint8_t dtype;       /* enum tt_dtype */
    uint8_t ndims;       /* dimensions in use; a view with more than 8 is listed as uncaptured */
    uint8_t role;        /* enum tt_role */
    uint8_t space;       /* enum tt_space_kind; device memory cannot be read, only reserved for */
    uint16_t flags;      /* TT_VIEW_... */
    uint32_t name;       /* tt_string; 0: the name that the kernel declares */
    uint32_t reserved0;  /* zero */
    uint64_t reserved[3]; /* zero */
} tt_view;

#define TT_VIEW_MARKED 1u         /* marked, for level `marked` */
#define TT_VIEW_DTYPE_GUESSED 2u  /* the element type is a guess */
#define TT_VIEW_ROLE_GUESSED 4u   /* the role is a guess */
#define TT_VIEW_EXTENT_GUESSED 8u /* the size is a guess */

/* Reserved space for content that arrives later. Only the caller uses it until it is committed. */
typedef struct tt_reserved_space {
    uint64_t number; /* number for tt_commit */
    void *start;     /* start of the space; the content is logical and contiguous. NULL if no content is needed */
    uint64_t bytes;  /* size of the space */
} tt_reserved_space;

/* Counters of recorded and lost data. */
typedef struct tt_counts {
    uint64_t recorded;   /* records */
    uint64_t dropped;    /* records, or payloads of records */
    uint64_t bytes;      /* recorded payload bytes */
    uint64_t lost_bytes; /* dropped payload bytes */
    uint64_t filtered;   /* filtered arguments */
    uint64_t refused;    /* recorders that got no lane */
    uint64_t uncaptured; /* arguments with an invalid view: TT_BAD_ARGUMENT */
    uint64_t reserved;   /* zero */
} tt_counts;

/* Options of a session with its own folder. Zero means the default. */
typedef struct tt_folder_options {
    uint32_t level;       /* enum tt_level; 0 means TT_LEVEL_FULL */
    uint32_t drops;       /* 1: records without space are dropped and counted; 0: calls wait for space */
    uint32_t lanes;       /* recorders that can be open at the same time; 0 means 64 */
    uint32_t reserved0;   /* zero */
    uint64_t arena_bytes; /* memory per lane, a multiple of 4096; 0 means 4 MiB */
    uint64_t reserved[5]; /* zero */
} tt_folder_options;

/* Declaration of a kernel argument. */
typedef struct tt_kernel_arg {
    const char *name; /* NULL for none */
    uint32_t role;    /* enum tt_role; 4 for a scalar, 0 if unknown */
    uint32_t reserved; /* zero */
} tt_kernel_arg;

/* Kind of a module image. */
enum tt_image_kind {
    TT_IMAGE_UNKNOWN = 0,
    TT_IMAGE_OPENCL_C = 1,
    TT_IMAGE_SPIRV = 2,
    TT_IMAGE_OPENCL_BINARY = 3,
    TT_IMAGE_PTX = 4,
    TT_IMAGE_CUBIN = 5,
    TT_IMAGE_FATBIN = 6
};

/* A module, the code of kernels, with its image. Texts may be NULL. */
typedef struct tt_module_image_info {
    const char *name;
    const char *options;  /* build options */
    const char *device;   /* device of the build */
    const void *image;
    uint64_t bytes;       /* size of the image, at most 4 GiB */
    uint32_t kind;        /* enum tt_image_kind */
    uint32_t reserved0;   /* zero */
    uint64_t reserved[2]; /* zero */
} tt_module_image_info;

/* Type of a value of an attribute. */
enum tt_value_type {
    TT_VALUE_NONE = 1,
    TT_VALUE_BOOL = 2,
    TT_VALUE_INT = 3,
    TT_VALUE_FLOAT = 4,
    TT_VALUE_TEXT = 5,
    TT_VALUE_DTYPE = 6,
    TT_VALUE_UNCAPTURED = 7 /* a value of another type */
};

/* A value of an attribute; see tt_value_int and its siblings. */
typedef struct tt_value {
    uint32_t type;      /* enum tt_value_type */
    uint32_t reserved0; /* zero */
    union {
        int64_t integer;  /* int; bool: 0 or 1; dtype: enum tt_dtype */
        double number;    /* float */
        const char *text; /* text; uncaptured: the name of the type */
    } as;
} tt_value;

/* Kind of a collective operation. */
enum tt_collective_kind {
    TT_COLLECTIVE_OTHER = 1,
    TT_ALL_REDUCE = 2,
    TT_ALL_GATHER = 3,
    TT_REDUCE_SCATTER = 4,
    TT_BROADCAST = 5,
    TT_ALL_TO_ALL = 6,
    TT_COLLECTIVE_BARRIER = 7,
    TT_SEND = 8,
    TT_RECV = 9
};

/* An allocation or a release of memory. Unknown fields are zero. */
typedef struct tt_allocation_info {
    uint64_t address;     /* first address */
    uint64_t bytes;       /* size */
    uint64_t storage;     /* identity of the storage, the same for its allocation and its release; 0 if unknown */
    uint64_t after_task;  /* the last task that was submitted to `queue` before it; 0 for none */
    uint32_t space;       /* enum tt_space_kind */
    uint32_t freed;       /* 1 for a release, 0 for an allocation */
    uint32_t pool;        /* tt_string of the pool or allocator; 0 if unknown */
    uint32_t queue;       /* tt_queue_id in whose order it takes effect; 0 for the order of the program */
    uint64_t reserved[2]; /* zero */
} tt_allocation_info;

/* Limit on the recorded values of a list. Further values are only counted. */
#define TT_MAX_VALUES 1024u

/* ---- The table ---------------------------------------------------------------------------------------------------- */

#define TT_RECORD_VERSION 1
/* Size of the table in the first version. Later functions are called only if the table has them. */
#define TT_RECORD_LEAST_BYTES (8 + 29 * sizeof(void (*)(void)))

typedef struct tt_record_api {
    uint32_t version; /* TT_RECORD_VERSION */
    uint32_t bytes;   /* size of this table */
    int (*attach)(tt_session **session);
    int (*attach_to)(const char *socket, tt_session **session);
    int (*open_folder)(const char *dir, const tt_folder_options *options, tt_session **session);
    int (*close)(tt_session *session);
    int (*counters)(tt_session *session, tt_counts *counts);
    int (*level)(tt_session *session);
    tt_recorder *(*thread)(tt_session *session);
    tt_recorder *(*recorder_open)(tt_session *session, const char *name);
    int (*recorder_close)(tt_recorder *r);
    uint32_t (*string)(tt_recorder *r, const char *text);
    uint32_t (*scope_id)(tt_recorder *r, const char *name, uint32_t parent);
    uint32_t (*kernel_id)(tt_recorder *r, const char *name, uint32_t module, const tt_kernel_arg *args, uint32_t count);
    uint32_t (*queue_id)(tt_recorder *r, const char *name);
    uint32_t (*step_id)(tt_recorder *r, const char *name);
    uint32_t (*module_id)(tt_recorder *r, const char *name, uint64_t bytes, const uint8_t *hash);
    int (*task_begin)(tt_recorder *r, tt_recorded_task *task, const tt_task_info *info);
    int (*record)(tt_recorder *r, tt_recorded_task *task, uint32_t stage, const tt_view *views, uint32_t count);
    int (*record_scalar)(tt_recorder *r, tt_recorded_task *task, uint16_t arg, uint32_t dtype, uint64_t bits, uint32_t name);
    int (*task_end)(tt_recorder *r, tt_recorded_task *task);
    int (*record_edge)(tt_recorder *r, uint64_t producer, uint64_t consumer, uint32_t cause, uint16_t arg);
    int (*wrote)(tt_recorder *r, const void *start, uint64_t bytes, uint32_t name);
    int (*allocation)(tt_recorder *r, uint64_t address, uint64_t bytes, uint32_t space, uint32_t freed);
    int (*reserve)(tt_recorder *r, tt_recorded_task *task, uint32_t stage, const tt_view *view, tt_reserved_space *space);
    int (*commit)(tt_recorder *r, uint64_t number, const uint8_t *hash);
    int (*give_up)(tt_recorder *r, uint64_t number);
    int (*flush)(tt_recorder *r);
    int (*set_max_wait)(tt_recorder *r, uint64_t milliseconds);
    const char *(*status_text)(int status);
    const char *(*last_error)(void);
    uint32_t (*module_image)(tt_recorder *r, const tt_module_image_info *module);
    int (*attribute)(tt_recorder *r, const tt_recorded_task *task, uint32_t name, const tt_value *values, uint32_t count,
                     uint32_t is_list);
    uint64_t (*current_region)(tt_recorder *r);
    int (*collective)(tt_recorder *r, const tt_recorded_task *task, uint32_t group, uint64_t sequence, uint32_t kind);
    int (*memory)(tt_recorder *r, const tt_allocation_info *info);
} tt_record_api;

/* Whether a recorder's library has a function. */
#define TT_RECORD_HAS(r, function) ((r)->api->bytes >= offsetof(tt_record_api, function) + sizeof (r)->api->function)

TT_STATIC_ASSERT(sizeof(tt_task_info) == 136, "a task has 136 bytes");
TT_STATIC_ASSERT(sizeof(tt_recorded_task) == 256, "a task that has begun has 256 bytes");
TT_STATIC_ASSERT(sizeof(tt_view) == 192, "a view has 192 bytes");
TT_STATIC_ASSERT(sizeof(tt_reserved_space) == 24 && sizeof(tt_counts) == 64, "results");
TT_STATIC_ASSERT(sizeof(tt_module_image_info) == 64, "a module with its image has 64 bytes");
TT_STATIC_ASSERT(sizeof(tt_value) == 16, "a value has 16 bytes");
TT_STATIC_ASSERT(sizeof(tt_allocation_info) == 64, "an allocation has 64 bytes");
TT_STATIC_ASSERT(sizeof(tt_folder_options) == 64 && sizeof(tt_kernel_arg) == 16, "options");
TT_STATIC_ASSERT(sizeof(tt_record_api) == 8 + 34 * sizeof(void (*)(void)), "the table of the library");

struct tt_session {
    const tt_record_api *api;
};

struct tt_recorder {
    const tt_record_api *api;
};

/* The library's only symbol. */
#ifdef TT_LINKED
extern const tt_record_api tensortap_record_1;
#elif defined(__GNUC__)
/* Before glibc 2.34 these are in libdl, which the program may not link. */
#pragma weak dlopen
#pragma weak dlsym
#endif

/* The table; NULL without a library. */
static inline const tt_record_api *tt_record_find(void)
{
#ifdef TT_LINKED
    return &tensortap_record_1;
#else
    const char *path = getenv("TENSORTAP_LIBRARY");
    const tt_record_api *api;
    void *library;
    if (!path || path[0] != '/' || getauxval(AT_SECURE) || !getauxval(AT_BASE) || !dlopen || !dlsym)
        return NULL;
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return NULL;
    api = (const tt_record_api *)dlsym(library, "tensortap_record_1");
    return api && api->version == TT_RECORD_VERSION && api->bytes >= TT_RECORD_LEAST_BYTES ? api : NULL;
#endif
}

/* ---- Sessions ----------------------------------------------------------------------------------------------------- */

/* Attaches to the `tensortap record` process that runs this program; NULL without one. Attaching again opens the same
   session. */
static inline tt_session *tt_attach(void)
{
    const tt_record_api *api = tt_record_find();
    tt_session *session = NULL;
    return api && api->attach(&session) == TT_OK ? session : NULL;
}

/* Opens a session with its own folder, which must not exist or must be empty; NULL without a library, or if the folder
   cannot be used. `options` may be NULL. */
static inline tt_session *tt_open_folder(const char *dir, const tt_folder_options *options)
{
    const tt_record_api *api = tt_record_find();
    tt_session *session = NULL;
    return api && api->open_folder(dir, options, &session) == TT_OK ? session : NULL;
}

/* Closes a session handle. The last close ends the session: it closes the calling thread's recorder, notifies
   `tensortap record`, and completes the files of a folder. Recorders of other threads record nothing more.
   TT_CLOSED if this handle is already closed, TT_NOT_FLUSHED if `tensortap record` had exited. */
static inline int tt_close(tt_session *session) { return session ? session->api->close(session) : TT_OFF; }

/* Gets the counters of all threads. */
static inline int tt_counters(tt_session *session, tt_counts *counts)
{
    if (!session) {
        memset(counts, 0, sizeof *counts);
        return TT_OFF;
    }
    return session->api->counters(session, counts);
}

/* The dump level: enum tt_level. */
static inline int tt_session_level(tt_session *session)
{
    return session ? session->api->level(session) : TT_LEVEL_OFF;
}

/* ---- Recorders ---------------------------------------------------------------------------------------------------- */

/* The recorder of this thread, which closes when the thread ends; NULL without a session, or if all lanes are in use.
   Store it instead of calling this for every task. */
static inline tt_recorder *tt_thread(tt_session *session) { return session ? session->api->thread(session) : NULL; }

/* Opens a recorder for the caller, until tt_recorder_close. The dump shows `name`. */
static inline tt_recorder *tt_recorder_open(tt_session *session, const char *name)
{
    return session ? session->api->recorder_open(session, name) : NULL;
}

/* Closes a recorder of either kind. Only its own thread may close a thread's recorder. Open reservations count as
   dropped. */
static inline int tt_recorder_close(tt_recorder *r) { return r ? r->api->recorder_close(r) : TT_OFF; }

/* Waits until all records of this recorder are in files. TT_NOT_FLUSHED if that is impossible or takes too long. */
static inline int tt_flush(tt_recorder *r) { return r ? r->api->flush(r) : TT_OFF; }

/* Limits how long a call waits for `tensortap record`. Records without space by then are dropped and counted. The default,
   UINT64_MAX, waits as long as that process runs. */
static inline int tt_set_max_wait(tt_recorder *r, uint64_t milliseconds)
{
    return r ? r->api->set_max_wait(r, milliseconds) : TT_OFF;
}

/* ---- Names ---------------------------------------------------------------------------------------------------------- */

/* Each name is recorded once and has a number, which is the same in every thread. Calling again returns the same number. */

static inline uint32_t tt_string(tt_recorder *r, const char *text) { return r ? r->api->string(r, text) : 0; }

/* A scope inside of the scope `parent`; 0 for none. */
static inline uint32_t tt_scope_id(tt_recorder *r, const char *name, uint32_t parent)
{
    return r ? r->api->scope_id(r, name, parent) : 0;
}

/* A kernel. */
static inline uint32_t tt_kernel_id(tt_recorder *r, const char *name)
{
    return r ? r->api->kernel_id(r, name, 0, NULL, 0) : 0;
}

/* A kernel with its module and the declarations of its arguments, in order. */
static inline uint32_t tt_kernel_with(tt_recorder *r, const char *name, uint32_t module, const tt_kernel_arg *args,
                                      uint32_t count)
{
    return r ? r->api->kernel_id(r, name, module, args, count) : 0;
}

/* A queue or stream. */
static inline uint32_t tt_queue_id(tt_recorder *r, const char *name) { return r ? r->api->queue_id(r, name) : 0; }

/* A step: an iteration, or one run of a long-lived program. It begins with the first call. */
static inline uint32_t tt_step_id(tt_recorder *r, const char *name) { return r ? r->api->step_id(r, name) : 0; }

/* A module, the code of kernels: its size and the 16 bytes of its hash; 0 and NULL if unknown. */
static inline uint32_t tt_module_id(tt_recorder *r, const char *name, uint64_t bytes, const uint8_t *hash)
{
    return r ? r->api->module_id(r, name, bytes, hash) : 0;
}

/* A module with its image, which is stored in the dump once per content, at every level and despite filters. A different
   image, options or device make a different module. 0 if the library is too old for this call. */
static inline uint32_t tt_module_image(tt_recorder *r, const tt_module_image_info *module)
{
    return r && TT_RECORD_HAS(r, module_image) ? r->api->module_image(r, module) : 0;
}

/* ---- Tasks ---------------------------------------------------------------------------------------------------------- */

/* A task that runs one kernel. */
static inline tt_task_info tt_task_of(uint32_t kernel)
{
    tt_task_info info;
    memset(&info, 0, sizeof info);
    info.kernel[0] = kernel;
    return info;
}

/* Begins a task. TT_FILTERED if a filter refuses the task; then all its calls return TT_FILTERED. TT_DROPPED if its begin
   was not recorded; later records may be. */
static inline int tt_task_begin(tt_recorder *r, tt_recorded_task *task, const tt_task_info *info)
{
    return r ? r->api->task_begin(r, task, info) : TT_OFF;
}

/* Ends a task. */
static inline int tt_task_end(tt_recorder *r, tt_recorded_task *task) { return r ? r->api->task_end(r, task) : TT_OFF; }

/* Bits per element; 0 for an unknown type. */
static inline uint32_t tt_dtype_bits(uint32_t dtype)
{
    static const uint8_t bits[] = {0, 64, 32, 16, 16, 8, 8, 4, 64, 32, 16, 8, 4, 64, 32, 16, 8, 8, 8, 8, 8, 64, 128};
    return dtype < sizeof bits ? bits[dtype] : 0;
}

/* A view of a whole contiguous buffer. */
static inline tt_view tt_dense(uint16_t arg, enum tt_role role, const void *data, enum tt_dtype dtype, uint32_t ndims,
                               const uint64_t *shape)
{
    tt_view view;
    uint64_t numel = 1;
    uint32_t dim;
    memset(&view, 0, sizeof view);
    view.data = data;
    view.arg = arg;
    view.dtype = (uint8_t)dtype;
    view.ndims = (uint8_t)(ndims <= TT_MAX_DIMS ? ndims : 255);
    view.role = (uint8_t)role;
    view.space = TT_HOST_MEMORY;
    for (dim = ndims <= TT_MAX_DIMS ? ndims : 0; dim-- > 0;) {
        view.shape[dim] = shape[dim];
        view.strides[dim] = (int64_t)numel;
        numel *= shape[dim];
    }
    view.bytes = (numel * tt_dtype_bits(view.dtype) + 7) / 8;
    return view;
}

/* Records several tensors of a task in one call, which is faster than one call each. If some are invalid, the others are
   recorded. */
static inline int tt_record(tt_recorder *r, tt_recorded_task *task, enum tt_stage stage, const tt_view *views,
                            uint32_t count)
{
    return r ? r->api->record(r, task, (uint32_t)stage, views, count) : TT_OFF;
}

/* Records a tensor before its task runs. */
static inline int tt_record_before(tt_recorder *r, tt_recorded_task *task, const tt_view *view)
{
    return r ? r->api->record(r, task, TT_BEFORE, view, 1) : TT_OFF;
}

/* Records a tensor after its task has run. */
static inline int tt_record_after(tt_recorder *r, tt_recorded_task *task, const tt_view *view)
{
    return r ? r->api->record(r, task, TT_AFTER, view, 1) : TT_OFF;
}

/* Records a scalar by its bits, zero-extended. */
static inline int tt_record_scalar(tt_recorder *r, tt_recorded_task *task, uint16_t arg, enum tt_dtype dtype, uint64_t bits,
                                   uint32_t name)
{
    return r ? r->api->record_scalar(r, task, arg, (uint32_t)dtype, bits, name) : TT_OFF;
}

static inline int tt_record_f32(tt_recorder *r, tt_recorded_task *task, uint16_t arg, float value, uint32_t name)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return tt_record_scalar(r, task, arg, TT_FLOAT32, bits, name);
}

static inline int tt_record_f64(tt_recorder *r, tt_recorded_task *task, uint16_t arg, double value, uint32_t name)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return tt_record_scalar(r, task, arg, TT_FLOAT64, bits, name);
}

static inline int tt_record_i64(tt_recorder *r, tt_recorded_task *task, uint16_t arg, int64_t value, uint32_t name)
{
    return tt_record_scalar(r, task, arg, TT_INT64, (uint64_t)value, name);
}

/* ---- Regions -------------------------------------------------------------------------------------------------------- */

/* A region is a task that contains tasks: a step, a module call, an operator around its launches. Tasks that begin on this
   thread between tt_region_begin and tt_region_end have the region as parent, unless they name another one. Regions nest.
   A region may have arguments. `blame` judges the tasks inside of it, and never names the region itself. End a region on
   the thread that began it. An older library records regions as tasks without parents. */
static inline int tt_region_begin(tt_recorder *r, tt_recorded_task *task, const tt_task_info *info)
{
    tt_task_info region;
    if (!r)
        return TT_OFF;
    if (!info)
        return r->api->task_begin(r, task, info);
    region = *info;
    region.flags |= TT_TASK_REGION;
    return r->api->task_begin(r, task, &region);
}

/* Ends a region, like tt_task_end. Regions inside of it that are still open contain no further tasks. */
static inline int tt_region_end(tt_recorder *r, tt_recorded_task *task) { return tt_task_end(r, task); }

/* The id of the innermost region that is open on the calling thread; 0 without one. */
static inline uint64_t tt_current_region(tt_recorder *r)
{
    return r && TT_RECORD_HAS(r, current_region) ? r->api->current_region(r) : 0;
}

/* ---- Collectives ---------------------------------------------------------------------------------------------------- */

/* Records that a task is this process's part of a collective operation. `group` is the tt_string of a name that is the same
   on all ranks of the group. `sequence` is the number of the operation in the group. */
static inline int tt_collective(tt_recorder *r, const tt_recorded_task *task, uint32_t group, uint64_t sequence,
                                enum tt_collective_kind kind)
{
    if (!r)
        return TT_OFF;
    return TT_RECORD_HAS(r, collective) ? r->api->collective(r, task, group, sequence, (uint32_t)kind) : TT_TOO_OLD;
}

/* ---- Attributes ----------------------------------------------------------------------------------------------------- */

/* An attribute of a task is a name with a value or a list of values. Record it between tt_task_begin and tt_task_end.
   `name` is a tt_string. Attributes are recorded at every dump level. Every distinct text is stored once. TT_TOO_OLD if the
   library does not know attributes. */

static inline tt_value tt_value_of(enum tt_value_type type, int64_t integer)
{
    tt_value value;
    memset(&value, 0, sizeof value);
    value.type = (uint32_t)type;
    value.as.integer = integer;
    return value;
}

static inline tt_value tt_value_none(void) { return tt_value_of(TT_VALUE_NONE, 0); }
static inline tt_value tt_value_bool(int value) { return tt_value_of(TT_VALUE_BOOL, value != 0); }
static inline tt_value tt_value_int(int64_t value) { return tt_value_of(TT_VALUE_INT, value); }
static inline tt_value tt_value_dtype(enum tt_dtype value) { return tt_value_of(TT_VALUE_DTYPE, (int64_t)value); }

static inline tt_value tt_value_float(double number)
{
    tt_value value = tt_value_of(TT_VALUE_FLOAT, 0);
    value.as.number = number;
    return value;
}

static inline tt_value tt_value_text(const char *text)
{
    tt_value value = tt_value_of(TT_VALUE_TEXT, 0);
    value.as.text = text;
    return value;
}

/* A value that no other type can represent, by the name of its type. */
static inline tt_value tt_value_uncaptured(const char *type_name)
{
    tt_value value = tt_value_of(TT_VALUE_UNCAPTURED, 0);
    value.as.text = type_name;
    return value;
}

static inline int tt_attribute(tt_recorder *r, const tt_recorded_task *task, uint32_t name, tt_value value)
{
    if (!r)
        return TT_OFF;
    return TT_RECORD_HAS(r, attribute) ? r->api->attribute(r, task, name, &value, 1, 0) : TT_TOO_OLD;
}

/* An attribute that is a list, of values of any types. At most TT_MAX_VALUES are recorded. */
static inline int tt_attribute_list(tt_recorder *r, const tt_recorded_task *task, uint32_t name, const tt_value *values,
                                    uint32_t count)
{
    if (!r)
        return TT_OFF;
    return TT_RECORD_HAS(r, attribute) ? r->api->attribute(r, task, name, values, count, 1) : TT_TOO_OLD;
}

static inline int tt_attribute_text(tt_recorder *r, const tt_recorded_task *task, uint32_t name, const char *value)
{
    return tt_attribute(r, task, name, tt_value_text(value));
}

static inline int tt_attribute_int(tt_recorder *r, const tt_recorded_task *task, uint32_t name, int64_t value)
{
    return tt_attribute(r, task, name, tt_value_int(value));
}

static inline int tt_attribute_float(tt_recorder *r, const tt_recorded_task *task, uint32_t name, double value)
{
    return tt_attribute(r, task, name, tt_value_float(value));
}

static inline int tt_attribute_bool(tt_recorder *r, const tt_recorded_task *task, uint32_t name, int value)
{
    return tt_attribute(r, task, name, tt_value_bool(value));
}

static inline int tt_attribute_none(tt_recorder *r, const tt_recorded_task *task, uint32_t name)
{
    return tt_attribute(r, task, name, tt_value_none());
}

static inline int tt_attribute_dtype(tt_recorder *r, const tt_recorded_task *task, uint32_t name, enum tt_dtype value)
{
    return tt_attribute(r, task, name, tt_value_dtype(value));
}

/* ---- Dependencies --------------------------------------------------------------------------------------------------- */

/* Records that `consumer` waits for `producer`, and the argument that causes it. */
static inline int tt_record_edge(tt_recorder *r, uint64_t producer, uint64_t consumer, enum tt_edge_cause cause, uint16_t arg)
{
    return r ? r->api->record_edge(r, producer, consumer, (uint32_t)cause, arg) : TT_OFF;
}

/* ---- Memory used by unrecorded code -------------------------------------------------------------------------------- */

/* Records that unrecorded code has written these bytes, with their content. Tasks that read them depend on this write. */
static inline int tt_wrote(tt_recorder *r, const void *start, uint64_t bytes, uint32_t name)
{
    return r ? r->api->wrote(r, start, bytes, name) : TT_OFF;
}

/* Records that these bytes were freed or allocated: their earlier content is unrelated to their later content. */
static inline int tt_freed(tt_recorder *r, const void *start, uint64_t bytes)
{
    return r ? r->api->allocation(r, (uint64_t)(uintptr_t)start, bytes, TT_HOST_MEMORY, 1) : TT_OFF;
}

static inline int tt_allocated(tt_recorder *r, const void *start, uint64_t bytes)
{
    return r ? r->api->allocation(r, (uint64_t)(uintptr_t)start, bytes, TT_HOST_MEMORY, 0) : TT_OFF;
}

/* Records an allocation or a release with everything that is known about it. With an older library, only address, size,
   space and kind. */
static inline int tt_allocation(tt_recorder *r, const tt_allocation_info *info)
{
    if (!r)
        return TT_OFF;
    if (TT_RECORD_HAS(r, memory) || !info)
        return TT_RECORD_HAS(r, memory) ? r->api->memory(r, info) : TT_TOO_OLD;
    return r->api->allocation(r, info->address, info->bytes, info->space, info->freed);
}

/* ---- Deferred content --------------------------------------------------------------------------------------------- */

/* Reserves space for the content of a tensor, such as a copy from a device. The memory of `view` is not read. Write
   `space->bytes` bytes to `space->start`, then commit. Reservations can be committed in any order and become visible in the
   order of reservation; other records do not wait for them. If `space->start` is NULL, do not fill or commit anything.
   TT_COMMIT_FIRST if only a commit by this recorder can make space; the call does not wait for that. */
static inline int tt_reserve(tt_recorder *r, tt_recorded_task *task, enum tt_stage stage, const tt_view *view,
                             tt_reserved_space *space)
{
    if (!r) {
        memset(space, 0, sizeof *space);
        return TT_OFF;
    }
    return r->api->reserve(r, task, (uint32_t)stage, view, space);
}

/* Commits a reservation. `hash` is NULL, or the 16 bytes of the xxh3_128_tree4k of the content (little endian). */
static inline int tt_commit(tt_recorder *r, uint64_t number, const uint8_t *hash)
{
    return r ? r->api->commit(r, number, hash) : TT_OFF;
}

/* Cancels a reservation: the metadata is recorded, and the payload counts as dropped. */
static inline int tt_give_up(tt_recorder *r, uint64_t number) { return r ? r->api->give_up(r, number) : TT_OFF; }

/* ---- Texts ---------------------------------------------------------------------------------------------------------- */

/* Describes a status. */
static inline const char *tt_status_text(int status)
{
    const tt_record_api *api = tt_record_find();
    return api ? api->status_text(status) : "this program is not being recorded";
}

/* Describes the last error of this thread; empty without one. Valid until the next call of this thread. */
static inline const char *tt_last_error(void)
{
    const tt_record_api *api = tt_record_find();
    return api ? api->last_error() : "";
}

#ifdef __cplusplus
}
#endif
#endif
