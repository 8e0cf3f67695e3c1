/*
 * tensortap_record.h: record from inside a program in C11 or C++17 what its tasks were given and what they made.
 *
 * 1. What this is
 *
 *    A program says when a task begins and ends and which tensors it reads and writes. tensortap copies and hashes them, and
 *    what comes out is a dump: `tensortap list`, `show`, `diff`, `blame` and `verify` take it like any other.
 *
 *    Nothing is linked. Run under the recorder,
 *
 *        tensortap record -- ./program
 *
 *    the program finds a library of tensortap through its environment (TENSORTAP_LIBRARY) and a socket to the recorder
 *    (TENSORTAP_SOCKET). Run without, it finds neither: `tt_attach` gives NULL, every other call is given that NULL, tests it and
 *    returns. So a program can be shipped with it. Define TT_LINKED before including this file to link the library
 *    (-ltensortap) instead of looking for it; the loader must then find the library (rpath, LD_LIBRARY_PATH). Such a program may also
 *    record into a folder of its own, without a recorder.
 *
 * 2. A task
 *
 *        #include <tensortap_record.h>
 *
 *        tt_session *session = tt_attach();              // once for the process
 *        tt_recorder *r = tt_thread(session);            // once for each thread that records
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
 *        tt_close(session);                              // once for each tt_attach
 *
 *    Record before what the task reads, after what it writes. With the first tensor that is recorded after, the task counts as
 *    done. A task without its end is one that was under way when the program ended.
 *
 * 3. Threads and processes
 *
 *    A session may be used by any thread. A recorder is used by one thread at a time. `tt_thread` gives each thread its own, which
 *    closes when the thread ends; `tt_recorder_open` gives one to whoever keeps it (a queue, a pool) until `tt_recorder_close`.
 *    A `tt_recorded_task` may be ended by another recorder than began it.
 *    Destructors of thread-local and static objects, and handlers of `atexit`, may call: `tt_thread` is NULL once what it keeps for its thread
 *    is gone, while recorders of `tt_recorder_open` go on.
 *    A handle that was closed, by its thread's end too, stays one: calls with it return TT_CLOSED. What is left of it takes 32 bytes,
 *    and becomes another handle of its kind when 65,536 more were closed.
 *    A process has one session: attaching again opens the same one once more, and the last `tt_close` ends it.
 *    After `fork` the child has none: calls with its parent's handles return TT_FORKED, and it may attach anew. After `exec` it attaches
 *    like any other program.
 *
 * 4. What a call may do
 *
 *    It never aborts, throws, installs a signal handler or writes to standard output. When the recorder is behind, a call waits until
 *    it has caught up, or as long as `tt_set_max_wait` says. When the recorder is gone, calls return TT_DROPPED, the program goes on,
 *    and one line on standard error says so: a call looks for the recorder when its handle has not done so for 50 ms. What is lost is
 *    counted (`tt_counters`, and in the dump).
 *    Memory that is recorded is read during the call. If other threads write it meanwhile, what is recorded is a mixture, as it
 *    would be for the task.
 *
 * 5. Results
 *
 *    Calls return TT_OK or above when nothing is wrong, and below 0 when something is; `tt_status_text` says it in words, and
 *    `tt_last_error` says more about the last failure of the calling thread, whatever its status. Numbers of names are 0 when there is
 *    no recorder.
 *
 * 6. Versions
 *
 *    The library is reached through one symbol, the table `tensortap_record_1`. Functions are added at its end, and the table says how
 *    long it is; a library that is older than this file is not used. A change that breaks programs would have a symbol of its own
 *    beside this one.
 *
 *    TENSORTAP_LIBRARY and TENSORTAP_SOCKET are ignored when they are no absolute paths, in programs that have more rights than whoever
 *    started them (set-uid), and in static programs, which cannot load libraries.
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

/* ---- What tensors are (as in tensortap.h) ---------------------------------------------------------------------- */

#ifndef TT_MAX_DIMS
#define TT_MAX_DIMS 8
#endif

#ifndef TT_DTYPES
#define TT_DTYPES
/* Element types. Those of 4 bits are packed two to a byte, low nibble first. */
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
    TT_BOOL = 17
};

/* How a task uses a tensor. */
enum tt_role { TT_IN = 1, TT_OUT = 2, TT_INOUT = 3 };
#endif

/* When a tensor is recorded. */
enum tt_stage { TT_BEFORE = 1, TT_AFTER = 2 };

/* Whose memory a tensor lies in. */
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
    TT_BARRIER = 7 /* moves and computes nothing: waits for others, and others for it */
};

/* Why a task waits for another: it was told to, reads what the other writes, writes what the other writes, or reads; it was put behind it into a
   queue that keeps its order, waits for its event, or was submitted when the host had waited for the other. */
enum tt_edge_cause {
    TT_EXPLICIT = 0,
    TT_READ_AFTER_WRITE = 1,
    TT_WRITE_AFTER_WRITE = 2,
    TT_WRITE_AFTER_READ = 3,
    TT_QUEUE_ORDER = 4,
    TT_EVENT = 5,
    TT_HOST_WAIT = 6
};

/* How much is recorded: `--dump-tensor`. */
enum tt_level { TT_LEVEL_OFF = 0, TT_LEVEL_MARKED = 1, TT_LEVEL_FULL = 2, TT_LEVEL_META = 3, TT_LEVEL_HASH = 4 };

/* ---- Results ----------------------------------------------------------------------------------------------------- */

enum tt_status {
    TT_OK = 0,
    TT_OFF = 1,        /* nothing records: the handle is NULL */
    TT_NOT_WANTED = 2, /* the level does not want it */
    TT_FILTERED = 3,   /* a filter kept it out; counted */

    TT_DROPPED = -1,       /* the recorder is gone, its files are full, or the wait took too long; counted */
    TT_FORKED = -2,        /* the handle is that of the process from which this one was forked: attach anew */
    TT_CLOSED = -3,        /* the session was closed, or the handle */
    TT_NO_LANE = -4,       /* as many threads record as there is memory for; counted */
    TT_BAD_ARGUMENT = -5,  /* see tt_last_error; counted. A view that leaves its buffer, has a size of 2^53 or more, or more than 1 TiB of
                              content, is in the dump as not captured */
    TT_COMMIT_FIRST = -6,  /* there is no room before an earlier reservation of this recorder is committed */
    TT_TOO_LARGE = -7,     /* nothing that large can be reserved at a time; see tt_last_error for the limit */
    TT_NOT_ATTACHED = -8,  /* the recorder could not be reached, or a folder not be written; see tt_last_error */
    TT_NOT_FLUSHED = -9,   /* the recorder is gone or not done in time */
    TT_INTERNAL = -10      /* a fault of this library; the call did nothing or less than it should */
};

/* ---- What is passed ----------------------------------------------------------------------------------------------- */

typedef struct tt_session tt_session;   /* the recording of a process */
typedef struct tt_recorder tt_recorder; /* the handle of one thread */

/* A task. Zero what is not known; tt_task_of does. */
typedef struct tt_task_info {
    uint64_t id;           /* unique in the session; 0: the next number of the session's own. Give all or none. */
    uint32_t operation;    /* enum tt_operation */
    uint32_t kernel[3];    /* tt_kernel_id; 0 for none */
    uint32_t name;         /* tt_string; 0 for none, as below */
    uint32_t scope;        /* tt_scope_id */
    uint32_t queue;        /* tt_queue_id */
    uint32_t step;         /* tt_step_id */
    uint32_t module;       /* tt_module_id */
    uint32_t source_file;  /* tt_string */
    uint32_t source_line;  /* from 1 */
    uint32_t blocks;       /* times each kernel is run; 0 is 1 */
    uint32_t grid[3];      /* work groups in each direction */
    uint32_t group[3];     /* work items of a group */
    uint32_t flags;        /* TT_TASK_... */
    uint32_t records;      /* how many arguments it will record; counted when a filter refuses the task */
    uint64_t parent;       /* with TT_TASK_HAS_PARENT: the task that submitted it */
    uint64_t submitted_ns; /* when, by CLOCK_MONOTONIC */
    uint64_t reserved[4];  /* zero */
} tt_task_info;

#define TT_TASK_MARKED 1u     /* all of its arguments are marked, for level `marked` */
#define TT_TASK_HAS_PARENT 2u

/* A task that has begun: plain words, the caller's to keep. */
typedef struct tt_recorded_task {
    uint64_t words[32];
} tt_recorded_task;

/* Its number. */
static inline uint64_t tt_task_id(const tt_recorded_task *task) { return task->words[1]; }

/* A strided view of a buffer, as an argument of a task. Offsets and strides count elements; strides may be zero or negative. */
typedef struct tt_view {
    const void *data;    /* first byte of the buffer */
    uint64_t bytes;      /* size of the buffer; all that is read lies in it */
    uint64_t start;      /* first element of the view */
    uint64_t shape[TT_MAX_DIMS];
    int64_t strides[TT_MAX_DIMS];
    uint16_t arg;        /* position among the task's arguments, up to 65534 */
    uint8_t dtype;       /* enum tt_dtype */
    uint8_t ndims;       /* dimensions in use */
    uint8_t role;        /* enum tt_role */
    uint8_t space;       /* enum tt_space_kind; only host, pinned and managed memory is read, any may be reserved for */
    uint16_t flags;      /* TT_VIEW_... */
    uint32_t name;       /* tt_string; 0: as its kernel declares it */
    uint32_t reserved0;  /* zero */
    uint64_t reserved[3]; /* zero */
} tt_view;

#define TT_VIEW_MARKED 1u         /* marked, for level `marked` */
#define TT_VIEW_DTYPE_GUESSED 2u  /* the element type is not known */
#define TT_VIEW_ROLE_GUESSED 4u   /* whether it is read or written is not known */
#define TT_VIEW_EXTENT_GUESSED 8u /* how far it reaches is not known */

/* Space for content that comes later. It is the caller's until it is committed. */
typedef struct tt_reserved_space {
    uint64_t number; /* to commit it by */
    void *start;     /* where the content goes, logical and contiguous; NULL when none is wanted */
    uint64_t bytes;  /* how much */
} tt_reserved_space;

/* What a session has recorded and lost. */
typedef struct tt_counts {
    uint64_t recorded;   /* records */
    uint64_t dropped;    /* records, or payloads of records */
    uint64_t bytes;      /* of payloads that were recorded */
    uint64_t lost_bytes; /* of payloads that were dropped */
    uint64_t filtered;   /* arguments that a filter kept out */
    uint64_t refused;    /* recorders that found no lane */
    uint64_t uncaptured; /* arguments whose view was wrong: TT_BAD_ARGUMENT */
    uint64_t reserved;   /* zero */
} tt_counts;

/* How a session records into a folder of its own. Zero what is to be as usual. */
typedef struct tt_folder_options {
    uint32_t level;       /* enum tt_level; 0 is TT_LEVEL_FULL */
    uint32_t drops;       /* 1: what has no room is dropped and counted, 0: it is waited for */
    uint32_t lanes;       /* threads that record at a time; 0 is 64 */
    uint32_t reserved0;   /* zero */
    uint64_t arena_bytes; /* of each lane, a multiple of 4096; 0 is 4 MiB */
    uint64_t reserved[5]; /* zero */
} tt_folder_options;

/* One argument that a kernel declares. */
typedef struct tt_kernel_arg {
    const char *name; /* NULL for none */
    uint32_t role;    /* enum tt_role; 4 for a scalar, 0 when not known */
    uint32_t reserved; /* zero */
} tt_kernel_arg;

/* What the image of a module is. */
enum tt_image_kind {
    TT_IMAGE_UNKNOWN = 0,
    TT_IMAGE_OPENCL_C = 1,
    TT_IMAGE_SPIRV = 2,
    TT_IMAGE_OPENCL_BINARY = 3,
    TT_IMAGE_PTX = 4,
    TT_IMAGE_CUBIN = 5,
    TT_IMAGE_FATBIN = 6
};

/* Code that kernels come from, with its image. Texts may be NULL. */
typedef struct tt_module_image_info {
    const char *name;
    const char *options;  /* that it was built with */
    const char *device;   /* that it was built for */
    const void *image;
    uint64_t bytes;       /* of the image; at most 4 GiB */
    uint32_t kind;        /* enum tt_image_kind */
    uint32_t reserved0;   /* zero */
    uint64_t reserved[2]; /* zero */
} tt_module_image_info;

/* ---- The table ---------------------------------------------------------------------------------------------------- */

#define TT_RECORD_VERSION 1
/* The table of the first libraries; what is behind it is asked for before it is called. */
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
} tt_record_api;

TT_STATIC_ASSERT(sizeof(tt_task_info) == 136, "a task has 136 bytes");
TT_STATIC_ASSERT(sizeof(tt_recorded_task) == 256, "a task that has begun has 256 bytes");
TT_STATIC_ASSERT(sizeof(tt_view) == 192, "a view has 192 bytes");
TT_STATIC_ASSERT(sizeof(tt_reserved_space) == 24 && sizeof(tt_counts) == 64, "results");
TT_STATIC_ASSERT(sizeof(tt_module_image_info) == 64, "a module with its image has 64 bytes");
TT_STATIC_ASSERT(sizeof(tt_folder_options) == 64 && sizeof(tt_kernel_arg) == 16, "options");
TT_STATIC_ASSERT(sizeof(tt_record_api) == 8 + 30 * sizeof(void (*)(void)), "the table of the library");

struct tt_session {
    const tt_record_api *api;
};

struct tt_recorder {
    const tt_record_api *api;
};

/* The library's one symbol. */
#ifdef TT_LINKED
extern const tt_record_api tensortap_record_1;
#elif defined(__GNUC__)
/* Before glibc 2.34 these are in a library of their own, which a program need not have. */
#pragma weak dlopen
#pragma weak dlsym
#endif

/* The table, or NULL where there is no library. */
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

/* Attaches to the recorder that runs this program; NULL when there is none. Attaching again opens the same session. */
static inline tt_session *tt_attach(void)
{
    const tt_record_api *api = tt_record_find();
    tt_session *session = NULL;
    return api && api->attach(&session) == TT_OK ? session : NULL;
}

/* A session that collects into a folder of its own, which must not exist or be empty; NULL when there is no library or no such
   folder. `options` may be NULL. */
static inline tt_session *tt_open_folder(const char *dir, const tt_folder_options *options)
{
    const tt_record_api *api = tt_record_find();
    tt_session *session = NULL;
    return api && api->open_folder(dir, options, &session) == TT_OK ? session : NULL;
}

/* Closes what was attached or opened. With the last close the session ends: the calling thread's recorder is closed, the recorder
   is told that nothing more comes, and files of an own folder are complete. Recorders of other threads record nothing more.
   TT_CLOSED when this handle was closed before, TT_NOT_FLUSHED when the recorder was gone by then. */
static inline int tt_close(tt_session *session) { return session ? session->api->close(session) : TT_OFF; }

/* What was recorded and lost so far, by all threads. */
static inline int tt_counters(tt_session *session, tt_counts *counts)
{
    if (!session) {
        memset(counts, 0, sizeof *counts);
        return TT_OFF;
    }
    return session->api->counters(session, counts);
}

/* enum tt_level: how much is recorded. */
static inline int tt_session_level(tt_session *session)
{
    return session ? session->api->level(session) : TT_LEVEL_OFF;
}

/* ---- Recorders ---------------------------------------------------------------------------------------------------- */

/* The recorder of this thread, which closes when the thread ends; NULL without a session, or when all lanes are taken. Keep it. */
static inline tt_recorder *tt_thread(tt_session *session) { return session ? session->api->thread(session) : NULL; }

/* A recorder that is the caller's until it is closed. The dump calls it by `name`. */
static inline tt_recorder *tt_recorder_open(tt_session *session, const char *name)
{
    return session ? session->api->recorder_open(session, name) : NULL;
}

/* Closes a recorder, of either kind; that of a thread is closed by its thread. What was reserved and not committed counts as
   dropped. */
static inline int tt_recorder_close(tt_recorder *r) { return r ? r->api->recorder_close(r) : TT_OFF; }

/* Waits until everything that this recorder has recorded is in files. TT_NOT_FLUSHED when that cannot be, or took too long. */
static inline int tt_flush(tt_recorder *r) { return r ? r->api->flush(r) : TT_OFF; }

/* Lets no call wait longer than this; what has no room by then is dropped and counted. UINT64_MAX, as at first: as long as the
   recorder lives. */
static inline int tt_set_max_wait(tt_recorder *r, uint64_t milliseconds)
{
    return r ? r->api->set_max_wait(r, milliseconds) : TT_OFF;
}

/* ---- Names ---------------------------------------------------------------------------------------------------------- */

/* Each is said once and has a number from then on, which is the same in every thread. Ask again at any time. */

static inline uint32_t tt_string(tt_recorder *r, const char *text) { return r ? r->api->string(r, text) : 0; }

/* A scope in another, 0 for none. */
static inline uint32_t tt_scope_id(tt_recorder *r, const char *name, uint32_t parent)
{
    return r ? r->api->scope_id(r, name, parent) : 0;
}

/* A kernel: what a task runs. */
static inline uint32_t tt_kernel_id(tt_recorder *r, const char *name)
{
    return r ? r->api->kernel_id(r, name, 0, NULL, 0) : 0;
}

/* A kernel with the module it comes from and what it declares of its arguments, in order. */
static inline uint32_t tt_kernel_with(tt_recorder *r, const char *name, uint32_t module, const tt_kernel_arg *args,
                                      uint32_t count)
{
    return r ? r->api->kernel_id(r, name, module, args, count) : 0;
}

/* A queue or stream: a lane of time. */
static inline uint32_t tt_queue_id(tt_recorder *r, const char *name) { return r ? r->api->queue_id(r, name) : 0; }

/* A step: an iteration, or one run of a program that stays. It begins when it is first asked for. */
static inline uint32_t tt_step_id(tt_recorder *r, const char *name) { return r ? r->api->step_id(r, name) : 0; }

/* Code that kernels come from: its size and the 16 bytes of its hash, 0 and NULL where not known. */
static inline uint32_t tt_module_id(tt_recorder *r, const char *name, uint64_t bytes, const uint8_t *hash)
{
    return r ? r->api->module_id(r, name, bytes, hash) : 0;
}

/* The same with its image, which is kept in the dump, each content once: at every level, whatever is filtered, in as many pieces as it
 * takes. Another image, other options or another device make another module. 0 where the library is older than this call. */
static inline uint32_t tt_module_image(tt_recorder *r, const tt_module_image_info *module)
{
    return r && r->api->bytes >= offsetof(tt_record_api, module_image) + sizeof r->api->module_image ? r->api->module_image(r, module) : 0;
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

/* Begins a task. A task that a filter refuses is TT_FILTERED, and so is everything about it. TT_DROPPED: that it began was not
   recorded; what follows may be. */
static inline int tt_task_begin(tt_recorder *r, tt_recorded_task *task, const tt_task_info *info)
{
    return r ? r->api->task_begin(r, task, info) : TT_OFF;
}

/* Ends it. */
static inline int tt_task_end(tt_recorder *r, tt_recorded_task *task) { return r ? r->api->task_end(r, task) : TT_OFF; }

/* Bits of an element; 0 for no type. */
static inline uint32_t tt_dtype_bits(uint32_t dtype)
{
    static const uint8_t bits[] = {0, 64, 32, 16, 16, 8, 8, 4, 64, 32, 16, 8, 4, 64, 32, 16, 8, 8};
    return dtype < sizeof bits ? bits[dtype] : 0;
}

/* All of a buffer without gaps. */
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

/* Records several tensors of a task at once, which costs less than one after the other. If some are wrong, the others are
   recorded. */
static inline int tt_record(tt_recorder *r, tt_recorded_task *task, enum tt_stage stage, const tt_view *views,
                            uint32_t count)
{
    return r ? r->api->record(r, task, (uint32_t)stage, views, count) : TT_OFF;
}

/* Records one, before its task runs. */
static inline int tt_record_before(tt_recorder *r, tt_recorded_task *task, const tt_view *view)
{
    return r ? r->api->record(r, task, TT_BEFORE, view, 1) : TT_OFF;
}

/* Records one, after its task has run. */
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

/* Says that `consumer` waits for `producer`, at one of its arguments where that is why. */
static inline int tt_record_edge(tt_recorder *r, uint64_t producer, uint64_t consumer, enum tt_edge_cause cause, uint16_t arg)
{
    return r ? r->api->record_edge(r, producer, consumer, (uint32_t)cause, arg) : TT_OFF;
}

/* ---- Memory that unrecorded code uses ------------------------------------------------------------------------------- */

/* Code that is not recorded has written these bytes by now: what tasks read there comes from it. The bytes are recorded. */
static inline int tt_wrote(tt_recorder *r, const void *start, uint64_t bytes, uint32_t name)
{
    return r ? r->api->wrote(r, start, bytes, name) : TT_OFF;
}

/* These bytes were freed, or allocated: what lay there before has nothing to do with what will. */
static inline int tt_freed(tt_recorder *r, const void *start, uint64_t bytes)
{
    return r ? r->api->allocation(r, (uint64_t)(uintptr_t)start, bytes, TT_HOST_MEMORY, 1) : TT_OFF;
}

static inline int tt_allocated(tt_recorder *r, const void *start, uint64_t bytes)
{
    return r ? r->api->allocation(r, (uint64_t)(uintptr_t)start, bytes, TT_HOST_MEMORY, 0) : TT_OFF;
}

/* ---- Content that comes later ------------------------------------------------------------------------------------- */

/* Reserves space for the content of a tensor, such as a copy from a device: nothing is read from `view`. Fill `space->bytes` bytes at
   `space->start`, then commit. Reservations are committed in any order and become visible in the order in which they were made; other
   records do not wait for them. When `space->start` is NULL, nothing is to be filled or committed.
   TT_COMMIT_FIRST when only a commit of this recorder's own makes room: it never waits for that. */
static inline int tt_reserve(tt_recorder *r, tt_recorded_task *task, enum tt_stage stage, const tt_view *view,
                             tt_reserved_space *space)
{
    if (!r) {
        memset(space, 0, sizeof *space);
        return TT_OFF;
    }
    return r->api->reserve(r, task, (uint32_t)stage, view, space);
}

/* The content has come. `hash` is NULL, or the 16 bytes of its xxh3_128_tree4k (little endian) where it was hashed at the source. */
static inline int tt_commit(tt_recorder *r, uint64_t number, const uint8_t *hash)
{
    return r ? r->api->commit(r, number, hash) : TT_OFF;
}

/* The content does not come: what is known of the tensor stays, and its payload counts as dropped. */
static inline int tt_give_up(tt_recorder *r, uint64_t number) { return r ? r->api->give_up(r, number) : TT_OFF; }

/* ---- Words ---------------------------------------------------------------------------------------------------------- */

/* What a status means. */
static inline const char *tt_status_text(int status)
{
    const tt_record_api *api = tt_record_find();
    return api ? api->status_text(status) : "nothing records this program";
}

/* What went wrong last in this thread; an empty text when nothing did. Valid until the next call of this thread. */
static inline const char *tt_last_error(void)
{
    const tt_record_api *api = tt_record_find();
    return api ? api->last_error() : "";
}

#ifdef __cplusplus
}
#endif
#endif
