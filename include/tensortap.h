/*
 * tensortap.h: kernels and orchestrations in C11 or C++17.
 *
 * 1. Overview
 *
 *    A scene folder contains `scene.toml` and sources. tensortap compiles the sources with the host's compiler, loads them
 *    into the device, runs the graph, and records the inputs and outputs of every task. Sources link nothing: they call
 *    tensortap through tables of functions. `tensortap new-scene DIR` creates an example folder.
 *
 *    A source can define four kinds of plain C functions:
 *
 *      kernel          void NAME(uint64_t *args)     runs on a core of the device, once per dispatch
 *      orchestration   int  NAME(tt_orch *o)         submits the tasks; returns 0 on success
 *      reference       void NAME(uint64_t *args)     computes the expected output of a kernel in double; optional
 *      golden          void NAME(uint64_t *args)     computes the expected output of the whole graph; optional
 *
 *    In C++ they must be `extern "C"`. `tensortap.hpp` adds spans, checks and exceptions.
 *
 * 2. A kernel
 *
 *      #include <tensortap.h>
 *
 *      void kernel_entry(uint64_t *args)          // args = ["in x", "out y", "scalar factor: float32"]
 *      {
 *          const float *x = tt_f32(args, 0);
 *          float *y = tt_f32(args, 1);
 *          float factor = tt_scalar_f32(args, 2);
 *          for (uint64_t i = 0; i < tt_numel(args, 0); i++)
 *              y[i] = factor * x[i];
 *      }
 *
 *    `args` has 50 words: first the tensors, in the order of the kernel's declaration, then the scalars.
 *      The word of a tensor is the address of a `tt_tensor_desc`. The word of a scalar is its bits, zero-extended.
 *      Word 48 is the address of a `tt_block_context`, word 49 that of a `tt_subtask_context`.
 *    A kernel must write every element of an `out` argument; otherwise it must declare the argument `inout`. It must not
 *    keep addresses between calls, and several calls may run at the same time. It can report a failure with `tt_fail`. A
 *    kernel that crashes, calls `exit` or never returns ends only the device, and the error names the kernel.
 *
 * 3. Versions
 *
 *    TT_ABI_VERSION counts incompatible changes. Including this file puts its number into the library (the symbol
 *    `tensortap_abi_1`). tensortap refuses a library with a different number.
 */
#ifndef TENSORTAP_H
#define TENSORTAP_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

/* Version of the interface between a library and tensortap. */
#define TT_ABI_VERSION 1

/* Exports a function that tensortap looks up by name, even with -fvisibility=hidden. */
#define TT_EXPORT __attribute__((visibility("default")))
/* One copy per library, even if several sources include this file. */
#define TT_ONE_COPY __attribute__((weak, visibility("default")))

/* ---- Layouts ------------------------------------------------------------------------------------------------- */

#define TT_MAX_TENSORS 16
#define TT_MAX_SCALARS 32
#ifndef TT_MAX_DIMS
#define TT_MAX_DIMS 8
#endif
#define TT_BLOCK_CONTEXT_SLOT 48
#define TT_SUBTASK_CONTEXT_SLOT 49
#define TT_ARG_SLOTS 50

#ifndef TT_DTYPES /* also in tensortap_record.h */
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

/* A strided view of a buffer in device memory. Offsets and strides count elements; strides may be zero or negative. */
typedef struct tt_tensor_desc {
    uint64_t buffer_addr;  /* first byte of the buffer */
    uint64_t buffer_bytes; /* size of the whole buffer */
    uint64_t start_offset; /* first element of the view */
    uint64_t owner_task;   /* task that allocated the buffer, all ones for none */
    uint32_t version;      /* detects stale descriptors */
    uint8_t dtype;         /* enum tt_dtype */
    uint8_t ndims;         /* dimensions in use */
    uint16_t flags;        /* 1: bytes of unknown type */
    uint64_t reserved[3];  /* zero */
    uint64_t shape[TT_MAX_DIMS];
    int64_t strides[TT_MAX_DIMS];
} tt_tensor_desc;

TT_STATIC_ASSERT(sizeof(tt_tensor_desc) == 192, "a descriptor has 192 bytes");
TT_STATIC_ASSERT(offsetof(tt_tensor_desc, buffer_bytes) == 8, "buffer_bytes");
TT_STATIC_ASSERT(offsetof(tt_tensor_desc, start_offset) == 16, "start_offset");
TT_STATIC_ASSERT(offsetof(tt_tensor_desc, owner_task) == 24, "owner_task");
TT_STATIC_ASSERT(offsetof(tt_tensor_desc, version) == 32, "version");
TT_STATIC_ASSERT(offsetof(tt_tensor_desc, dtype) == 36, "dtype");
TT_STATIC_ASSERT(offsetof(tt_tensor_desc, ndims) == 37, "ndims");
TT_STATIC_ASSERT(offsetof(tt_tensor_desc, flags) == 38, "flags");
TT_STATIC_ASSERT(offsetof(tt_tensor_desc, shape) == 64, "shape");
TT_STATIC_ASSERT(offsetof(tt_tensor_desc, strides) == 128, "strides");

/* The block of this call, and the number of blocks of the task. */
typedef struct tt_block_context {
    uint32_t block_idx;
    uint32_t block_num;
} tt_block_context;

/* The subtask of this call in a mix task: its slot (0 AIC, 1 and 2 AIV), and the number of subtasks. */
typedef struct tt_subtask_context {
    uint32_t subtask_id;
    uint32_t subtask_count;
} tt_subtask_context;

TT_STATIC_ASSERT(sizeof(tt_block_context) == 8 && sizeof(tt_subtask_context) == 8, "contexts have 8 bytes");

/* ---- Functions of tensortap ----------------------------------------------------------------------------------- */

enum tt_log_level { TT_LOG_INFO = 0, TT_LOG_WARNING = 1 };

/* Set when tensortap loads the library; null otherwise. */
typedef struct tt_host {
    uint32_t abi_version;
    uint32_t bytes;                                 /* size of this table */
    void (*fail)(const char *text);                 /* the kernel on this thread has failed */
    void (*log)(uint32_t level, const char *text);  /* a line on standard error */
} tt_host;

TT_STATIC_ASSERT(sizeof(tt_host) == 24, "the table of the host");

/* The version of this header, and the library's pointer to the table. */
TT_ONE_COPY uint32_t tensortap_abi_1 = TT_ABI_VERSION;
TT_ONE_COPY const tt_host *tensortap_host = 0;

/* Size of text buffers; longer texts are truncated. */
#define TT_TEXT_BYTES 512

/* Reports a failure of the running kernel. The task fails when the kernel returns. */
__attribute__((format(printf, 1, 2))) static inline void tt_fail(const char *format, ...)
{
    char text[TT_TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (tensortap_host)
        tensortap_host->fail(text);
}

/* Prints a line on standard error. */
__attribute__((format(printf, 1, 2))) static inline void tt_log(const char *format, ...)
{
    char text[TT_TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (tensortap_host)
        tensortap_host->log(TT_LOG_INFO, text);
}

/* ---- Arguments of kernels ------------------------------------------------------------------------------------- */

/* The descriptor of a tensor. */
static inline const tt_tensor_desc *tt_tensor_at(const uint64_t *args, unsigned arg)
{
    return (const tt_tensor_desc *)(uintptr_t)args[arg];
}

/* Number of elements of a tensor. */
static inline uint64_t tt_numel(const uint64_t *args, unsigned arg)
{
    const tt_tensor_desc *t = tt_tensor_at(args, arg);
    uint64_t numel = 1;
    for (unsigned d = 0; d < t->ndims; d++)
        numel *= t->shape[d];
    return numel;
}

/* Size of a dimension; 1 for a dimension that the tensor does not have. */
static inline uint64_t tt_dim(const uint64_t *args, unsigned arg, unsigned dim)
{
    const tt_tensor_desc *t = tt_tensor_at(args, arg);
    return dim < t->ndims ? t->shape[dim] : 1;
}

/* Stride of a dimension in elements; 0 for a dimension that the tensor does not have. */
static inline int64_t tt_stride(const uint64_t *args, unsigned arg, unsigned dim)
{
    const tt_tensor_desc *t = tt_tensor_at(args, arg);
    return dim < t->ndims ? t->strides[dim] : 0;
}

/* Whether the elements are contiguous in row-major order, so that `tt_f32(args, n)[i]` is element i. */
static inline int tt_is_contiguous(const uint64_t *args, unsigned arg)
{
    const tt_tensor_desc *t = tt_tensor_at(args, arg);
    int64_t expected = 1;
    for (unsigned d = t->ndims; d-- > 0;) {
        if (t->shape[d] > 1 && t->strides[d] != expected)
            return 0;
        expected *= (int64_t)t->shape[d];
    }
    return 1;
}

/* Offset of element `place` (in row-major order) from the first element, for any strides. */
static inline int64_t tt_offset(const uint64_t *args, unsigned arg, uint64_t place)
{
    const tt_tensor_desc *t = tt_tensor_at(args, arg);
    int64_t offset = 0;
    for (unsigned d = t->ndims; d-- > 0;) {
        offset += (int64_t)(place % t->shape[d]) * t->strides[d];
        place /= t->shape[d];
    }
    return offset;
}

/* Address of the first element of the view. An element has `bytes` bytes. */
static inline void *tt_data(const uint64_t *args, unsigned arg, size_t bytes)
{
    const tt_tensor_desc *t = tt_tensor_at(args, arg);
    return (void *)(uintptr_t)(t->buffer_addr + t->start_offset * bytes);
}

/* Address of the first element, by type. With a different dtype, the kernel fails and the result is null. */
static inline void *tt_typed(const uint64_t *args, unsigned arg, unsigned dtype, size_t bytes)
{
    if (tt_tensor_at(args, arg)->dtype != dtype) {
        tt_fail("argument %u has dtype %u, but the kernel takes %u", arg, (unsigned)tt_tensor_at(args, arg)->dtype, dtype);
        return 0;
    }
    return tt_data(args, arg, bytes);
}

static inline float *tt_f32(const uint64_t *args, unsigned arg)
{
    return (float *)tt_typed(args, arg, TT_FLOAT32, 4);
}

static inline double *tt_f64(const uint64_t *args, unsigned arg)
{
    return (double *)tt_typed(args, arg, TT_FLOAT64, 8);
}

/* bfloat16 elements as bits; see tt_bf16_to_f32. */
static inline uint16_t *tt_bf16(const uint64_t *args, unsigned arg)
{
    return (uint16_t *)tt_typed(args, arg, TT_BFLOAT16, 2);
}

static inline int64_t *tt_i64(const uint64_t *args, unsigned arg)
{
    return (int64_t *)tt_typed(args, arg, TT_INT64, 8);
}

static inline int32_t *tt_i32(const uint64_t *args, unsigned arg)
{
    return (int32_t *)tt_typed(args, arg, TT_INT32, 4);
}

static inline int8_t *tt_i8(const uint64_t *args, unsigned arg)
{
    return (int8_t *)tt_typed(args, arg, TT_INT8, 1);
}

static inline uint32_t *tt_u32(const uint64_t *args, unsigned arg)
{
    return (uint32_t *)tt_typed(args, arg, TT_UINT32, 4);
}

static inline uint8_t *tt_u8(const uint64_t *args, unsigned arg)
{
    return (uint8_t *)tt_typed(args, arg, TT_UINT8, 1);
}

/* Scalars are the low bits of their word. */
static inline float tt_scalar_f32(const uint64_t *args, unsigned arg)
{
    uint32_t bits = (uint32_t)args[arg];
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline double tt_scalar_f64(const uint64_t *args, unsigned arg)
{
    double value;
    memcpy(&value, &args[arg], sizeof value);
    return value;
}

static inline int64_t tt_scalar_i64(const uint64_t *args, unsigned arg) { return (int64_t)args[arg]; }
static inline int32_t tt_scalar_i32(const uint64_t *args, unsigned arg) { return (int32_t)(uint32_t)args[arg]; }
static inline uint64_t tt_scalar_u64(const uint64_t *args, unsigned arg) { return args[arg]; }
static inline uint32_t tt_scalar_u32(const uint64_t *args, unsigned arg) { return (uint32_t)args[arg]; }

/* The block of this call. */
static inline tt_block_context tt_block(const uint64_t *args)
{
    return *(const tt_block_context *)(uintptr_t)args[TT_BLOCK_CONTEXT_SLOT];
}

/* The subtask of this call. */
static inline tt_subtask_context tt_subtask(const uint64_t *args)
{
    return *(const tt_subtask_context *)(uintptr_t)args[TT_SUBTASK_CONTEXT_SLOT];
}

/* Converts bits of a bfloat16. */
static inline float tt_bf16_to_f32(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* Rounds to bfloat16, ties to even; NaN stays NaN. */
static inline uint16_t tt_f32_to_bf16(float value)
{
    uint32_t wide;
    memcpy(&wide, &value, sizeof wide);
    if (value != value)
        return (uint16_t)(wide >> 16 | 0x40);
    return (uint16_t)((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
}

/* ---- Orchestrations ------------------------------------------------------------------------------------------- */

/*
 *    int orchestrate(tt_orch *o)
 *    {
 *        tt_tensor x = tt_arg(o, "x"), y = tt_arg(o, "y");
 *        uint64_t shape[] = { tt_param(o, "n") };
 *        tt_tensor half_way = tt_tensor_new(o, TT_FLOAT32, 1, shape);
 *        tt_begin(o, "double");
 *        tt_in(o, x);
 *        tt_out(o, half_way);
 *        tt_task first = tt_submit(o);
 *        tt_begin(o, "double");
 *        tt_name(o, "second half");
 *        tt_in(o, half_way);
 *        tt_out(o, y);
 *        tt_after(o, first);
 *        tt_submit(o);
 *        return 0;
 *    }
 *
 * The same code runs on every runtime. It must submit the same tasks for the same parameters. If the host builds the graph,
 * it first runs in a separate process; otherwise it runs on a thread of the device.
 *
 * After an error, all further calls do nothing and return 0, and the run ends with that error. So calls need no checks; a
 * long loop can check tt_failed.
 */
typedef struct tt_orch tt_orch;
/* Handles, valid during the call of the orchestration; 0 means none. */
typedef uint32_t tt_tensor;
typedef uint32_t tt_task;

typedef struct tt_orch_api {
    uint32_t abi_version;
    uint32_t bytes; /* size of this table */
    tt_tensor (*arg)(tt_orch *o, const char *name);
    tt_tensor (*tensor)(tt_orch *o, uint32_t dtype, uint32_t ndims, const uint64_t *shape);
    tt_tensor (*slice)(tt_orch *o, tt_tensor t, uint32_t dim, uint64_t start, uint64_t len, int64_t step);
    tt_tensor (*transpose)(tt_orch *o, tt_tensor t, uint32_t a, uint32_t b);
    tt_tensor (*select)(tt_orch *o, tt_tensor t, uint32_t dim, uint64_t index);
    tt_tensor (*broadcast)(tt_orch *o, tt_tensor t, uint32_t dim, uint64_t len);
    tt_tensor (*reshape)(tt_orch *o, tt_tensor t, uint32_t ndims, const uint64_t *shape);
    uint64_t (*dim)(tt_orch *o, tt_tensor t, uint32_t dim);
    uint64_t (*param)(tt_orch *o, const char *name);
    const char *(*param_word)(tt_orch *o, const char *name);
    uint64_t (*scalar_arg)(tt_orch *o, const char *name);
    void (*begin)(tt_orch *o, const char *kernel);
    void (*with)(tt_orch *o, const char *kernel);
    void (*name)(tt_orch *o, const char *text);
    void (*use)(tt_orch *o, tt_tensor t, uint32_t role);
    void (*scalar)(tt_orch *o, uint32_t dtype, uint64_t bits);
    void (*blocks)(tt_orch *o, uint32_t block_num);
    void (*dump)(tt_orch *o, uint64_t args);
    void (*after)(tt_orch *o, tt_task task);
    tt_task (*submit)(tt_orch *o, uint32_t publish);
    void (*edge)(tt_orch *o, tt_task from, tt_task to);
    void (*publish)(tt_orch *o, tt_task task);
    void (*scope_begin)(tt_orch *o, const char *name);
    void (*scope_end)(tt_orch *o);
    void (*log)(tt_orch *o, uint32_t level, const char *text);
    void (*fail)(tt_orch *o, const char *text);
    uint32_t (*failed)(tt_orch *o);
} tt_orch_api;

TT_STATIC_ASSERT(sizeof(tt_orch_api) == 8 + 27 * sizeof(void (*)(void)), "the table of orchestrations");

struct tt_orch {
    const tt_orch_api *api;
};

/* A tensor of the scene, by its name in scene.toml. */
static inline tt_tensor tt_arg(tt_orch *o, const char *name) { return o->api->arg(o, name); }

/* A new intermediate tensor of the innermost scope. Its memory is allocated for the first task that writes it. */
static inline tt_tensor tt_tensor_new(tt_orch *o, enum tt_dtype dtype, uint32_t ndims, const uint64_t *shape)
{
    return o->api->tensor(o, (uint32_t)dtype, ndims, shape);
}

/* Views share the memory of `t`. */

/* `len` indices of a dimension, from `start`. */
static inline tt_tensor tt_slice(tt_orch *o, tt_tensor t, uint32_t dim, uint64_t start, uint64_t len)
{
    return o->api->slice(o, t, dim, start, len, 1);
}

/* Every `step`-th index; a negative step goes backward. */
static inline tt_tensor tt_slice_step(tt_orch *o, tt_tensor t, uint32_t dim, uint64_t start, uint64_t len, int64_t step)
{
    return o->api->slice(o, t, dim, start, len, step);
}

/* Swaps two dimensions. */
static inline tt_tensor tt_transpose(tt_orch *o, tt_tensor t, uint32_t a, uint32_t b)
{
    return o->api->transpose(o, t, a, b);
}

/* Selects one index and removes the dimension. */
static inline tt_tensor tt_select(tt_orch *o, tt_tensor t, uint32_t dim, uint64_t index)
{
    return o->api->select(o, t, dim, index);
}

/* Repeats a dimension of size 1. */
static inline tt_tensor tt_broadcast(tt_orch *o, tt_tensor t, uint32_t dim, uint64_t len)
{
    return o->api->broadcast(o, t, dim, len);
}

/* Changes the shape of a contiguous view. */
static inline tt_tensor tt_reshape(tt_orch *o, tt_tensor t, uint32_t ndims, const uint64_t *shape)
{
    return o->api->reshape(o, t, ndims, shape);
}

/* Size of a dimension of a tensor. */
static inline uint64_t tt_size(tt_orch *o, tt_tensor t, uint32_t dim) { return o->api->dim(o, t, dim); }

/* An integer parameter of the scene. */
static inline uint64_t tt_param(tt_orch *o, const char *name) { return o->api->param(o, name); }

/* Any parameter of the scene as text, valid during the call of the orchestration. */
static inline const char *tt_param_word(tt_orch *o, const char *name) { return o->api->param_word(o, name); }

/* The bits of a scalar of the scene. */
static inline uint64_t tt_scalar_arg(tt_orch *o, const char *name) { return o->api->scalar_arg(o, name); }

/* Begins the description of a task. The following calls describe it, until tt_submit or tt_add. */
static inline void tt_begin(tt_orch *o, const char *kernel) { o->api->begin(o, kernel); }

/* Adds a kernel, which makes a mix task: its kernels share the arguments and run at the same time. */
static inline void tt_with(tt_orch *o, const char *kernel) { o->api->with(o, kernel); }

/* Names the task: tt_name(o, "head %u", head). */
__attribute__((format(printf, 2, 3))) static inline void tt_name(tt_orch *o, const char *format, ...)
{
    char text[TT_TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    o->api->name(o, text);
}

/* Adds a tensor to the task: read, written, or both. */
static inline void tt_in(tt_orch *o, tt_tensor t) { o->api->use(o, t, TT_IN); }
static inline void tt_out(tt_orch *o, tt_tensor t) { o->api->use(o, t, TT_OUT); }
static inline void tt_inout(tt_orch *o, tt_tensor t) { o->api->use(o, t, TT_INOUT); }

/* Adds a scalar to the task. Scalars follow the tensors. */
static inline void tt_scalar(tt_orch *o, enum tt_dtype dtype, uint64_t bits)
{
    o->api->scalar(o, (uint32_t)dtype, bits);
}

static inline void tt_give_f32(tt_orch *o, float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    tt_scalar(o, TT_FLOAT32, bits);
}

static inline void tt_give_f64(tt_orch *o, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    tt_scalar(o, TT_FLOAT64, bits);
}

static inline void tt_give_i64(tt_orch *o, int64_t value) { tt_scalar(o, TT_INT64, (uint64_t)value); }
static inline void tt_give_i32(tt_orch *o, int32_t value) { tt_scalar(o, TT_INT32, (uint32_t)value); }
static inline void tt_give_u64(tt_orch *o, uint64_t value) { tt_scalar(o, TT_UINT64, value); }
static inline void tt_give_u32(tt_orch *o, uint32_t value) { tt_scalar(o, TT_UINT32, value); }

/* Sets the number of blocks. The task is dispatched once per block. */
static inline void tt_blocks(tt_orch *o, uint32_t block_num) { o->api->blocks(o, block_num); }

/* Marks arguments for `--dump-tensor=marked`: one bit per argument, TT_ALL_ARGS for the whole task. */
#define TT_ALL_ARGS UINT64_MAX
static inline void tt_dump(tt_orch *o, uint64_t args) { o->api->dump(o, args); }

/* Makes the task wait for another task. Not needed if the runtime derives dependencies from reads and writes. */
static inline void tt_after(tt_orch *o, tt_task task) { o->api->after(o, task); }

/* Submits the described task. */
static inline tt_task tt_submit(tt_orch *o) { return o->api->submit(o, 1); }

/* Adds the task without publishing it. Edges can be added until tt_publish. */
static inline tt_task tt_add(tt_orch *o) { return o->api->submit(o, 0); }
static inline void tt_edge(tt_orch *o, tt_task from, tt_task to) { o->api->edge(o, from, to); }
static inline void tt_publish(tt_orch *o, tt_task task) { o->api->publish(o, task); }

/* Begins a named, nested scope: tt_scope_begin(o, "layer %u", layer). Each needs a tt_scope_end. */
__attribute__((format(printf, 2, 3))) static inline void tt_scope_begin(tt_orch *o, const char *format, ...)
{
    char text[TT_TEXT_BYTES];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    o->api->scope_begin(o, text);
}
static inline void tt_scope_end(tt_orch *o) { o->api->scope_end(o); }

/* Prints a line on standard error. */
static inline void tt_orch_log(tt_orch *o, const char *text) { o->api->log(o, TT_LOG_INFO, text); }

/* Fails with a reason. */
static inline void tt_orch_fail(tt_orch *o, const char *text) { o->api->fail(o, text); }

/* Whether an error has occurred, so that a loop can stop. */
static inline int tt_failed(tt_orch *o) { return o->api->failed(o) != 0; }

#ifdef __cplusplus
}
#endif
#endif
