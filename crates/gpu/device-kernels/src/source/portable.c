/*
 * The content hash and the statistics of memory ranges, computed on a device.
 *
 * One source for OpenCL C 1.2 and CUDA C (NVRTC). Only this part knows the differences: address spaces, work
 * item ids, barriers and some conversions. Devices are little endian.
 *
 * A *leaf* is 4,096 bytes of a range; the last one may be shorter. A *bundle* is 64 leaves: their hashes are
 * 1,024 bytes, which is one block of the root's XXH3. A work group processes one bundle. TT_LANES work items
 * share a leaf: each has the accumulators of its own 16 bytes of every 64, so they exchange no data.
 *
 * Build options: TT_GROUP (work items per group), TT_LANES (1 or 4), TT_DEEP and TT_MEASURED_DEEP (loads in
 * flight per work item without and with statistics; the second is not larger), TT_FP64 if the device has
 * 64-bit floats (without them, mean and deviation are not computed), TT_CHAINED if the launch of the leaves
 * also computes roots.
 */
#ifdef __CUDACC_RTC__
typedef unsigned char u8;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef double f64;
typedef unsigned long long tt_address;
#define GLOBAL
#define LOCAL
#define LOCAL_ARRAY __shared__
#define CONSTANT static __device__ const
#define FN static __device__ __forceinline__
/* `resident` groups per multiprocessor share its registers. */
#define KERNEL(items, resident) extern "C" __global__ void __launch_bounds__(items, resident)
#define MY_GROUP blockIdx.x
#define MY_ITEM threadIdx.x
#define MY_PLACE (blockIdx.x * blockDim.x + threadIdx.x)
#define BARRIER() __syncthreads()
#define MUL_HIGH(a, b) __umul64hi(a, b)
#define AS_F64(bits) __longlong_as_double((i64)(bits))
#define F64_BITS(value) ((u64)__double_as_longlong(value))
#define F64_OF_F32(bits) ((f64)__uint_as_float(bits))
#define F64_OF_WORDS(high, low) __hiloint2double((i32)(high), (i32)(low))
#define SWAP_IF_EQUAL(at, old, new) atomicCAS(at, old, new)
/* Bypasses the L1 cache, which does not see writes of other groups. */
#define FRESH(at) __ldcg(at)
/* Orders memory accesses for all groups of the device, and empties the L1 cache. */
#define ORDERED() asm volatile("fence.acq_rel.gpu;" ::: "memory")
/* Orders memory accesses for the host, too. */
#define ORDERED_FOR_HOST() asm volatile("fence.acq_rel.sys;" ::: "memory")
/* From compute capability 9.0 on, a launch can start while its predecessor in the stream runs. `ptx.rs`
   inserts the two instructions for such devices. */
#define LET_NEXT_BEGIN() asm volatile("// tt.let_next_begin" ::: "memory")
#define WAIT_FOR_LAST() asm volatile("// tt.wait_for_last" ::: "memory")
typedef ulonglong2 tt_words;
#else
typedef uchar u8;
typedef uint u32;
typedef int i32;
typedef ulong u64;
typedef long i64;
typedef size_t tt_address;
#ifdef TT_FP64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
typedef double f64;
#define AS_F64(bits) as_double((u64)(bits))
#define F64_BITS(value) as_ulong(value)
#define F64_OF_WORDS(high, low) as_double((u64)(high) << 32 | (low))
/* Uses integers, because some devices flush small 32-bit floats to zero. */
#define F64_OF_F32(bits) \
    (as_double((u64)((bits) & 0x7fffffffu) << 29 | (u64)((bits) >> 31) << 63) * as_double(0x77f0000000000000ul))
#endif
#define GLOBAL __global
#define LOCAL __local
#define LOCAL_ARRAY __local
#define CONSTANT __constant
#define FN static inline
#define KERNEL(items, resident) __kernel __attribute__((reqd_work_group_size(items, 1, 1))) void
#define MY_GROUP ((u32)get_group_id(0))
#define MY_ITEM ((u32)get_local_id(0))
#define MY_PLACE ((u32)get_global_id(0))
#define BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define MUL_HIGH(a, b) mul_hi((u64)(a), (u64)(b))
#define SWAP_IF_EQUAL(at, old, new) atomic_cmpxchg(at, old, new)
#define FRESH(at) (*(at))
typedef ulong2 tt_words;
#endif

#define LEAF_BYTES 4096u
#define BUNDLE_LEAVES 64u
/* Groups per bundle in a launch with little content. */
#define SPREAD 4u
/* Pairs of accumulators per work item: 16 bytes of a stripe belong to one pair. */
#define PAIRS (4 / TT_LANES)

/* A range of memory; must match `Range` in Rust. */
typedef struct {
    /* CUDA: its address. OpenCL: its offset in the buffer. */
    u64 address;
    u64 bytes;
    /* Index of its buffer argument. OpenCL only. */
    u32 buffer;
    /* Index of its first bundle in the launch; increases from range to range. */
    u32 first_bundle;
    /* Tag of its dtype; 0 for no statistics. */
    u32 dtype;
    /* 1 if the high nibble of its last byte is not an element. */
    u32 missing;
    /* Index of its result. */
    u32 slot;
    /* CUDA: 1 to decide whether its content is new. */
    u32 decided;
} tt_range;

/* Statistics of a part of a range; must match `Part` in Rust. Floats are stored as bits. */
typedef struct {
    /* Minimum and maximum, as integers in the order of the values; see `tt_element`. */
    i64 min;
    i64 max;
    /* Mean, and sum of squared distances from it. */
    u64 mean;
    u64 squares;
    u64 zeros;
    u64 nan;
    u64 inf;
    /* Number of finite elements. If the top bit is set, the mean is multiplied by 2^-600, and squares twice.
       */
    u64 finite;
} tt_part;

/* Result for a range; must match `RangeResult` in Rust. */
typedef struct {
    u64 hash[2];
    tt_part part;
} tt_result;

#ifdef TT_CHAINED
/* Ranges passed by value to a launch. More are in a table. */
#define FEW 16u

/* Argument of a launch: ranges, scratch memory and places for results, which may be in host memory. Must
   match `Side` in Rust. */
typedef struct {
    const tt_range *table;
    u64 *leaf_hashes;
    u64 *sums;
    tt_part *parts;
    u32 *gates;
    /* Number of finished ranges: 0 before and after the launch. */
    u32 *finished;
    tt_result *results;
    /* Decisions for later kernels and for the host; null without a set. */
    u32 *decisions;
    u32 *host_decisions;
    u32 *stored;
    /* Where to write the ticket when all results are complete; null for nowhere. */
    u64 *done;
    u64 ticket;
    u32 count;
    u32 mask;
    /* How it may overlap other launches of its stream. */
    u32 order;
    u32 reserved0;
    tt_range few[FEW];
} tt_side;

/* Bits of `order`: the launch may overlap its predecessor and completes after it; the launch allows its
   successor to overlap it. */
#define IS_BESIDE 1u
#define LETS_NEXT 2u

FN void tt_begins(const tt_side *side) {
    /* The predecessor has not ended, so the L1 caches have not been emptied. */
    if (side->order & IS_BESIDE)
        ORDERED();
    if (side->order & LETS_NEXT)
        LET_NEXT_BEGIN();
}

/* A launch is complete when all its groups are, so it is enough that one group waits for the predecessor. */
FN void tt_ends(const tt_side *side) {
    if ((side->order & IS_BESIDE) && MY_GROUP == 0)
        WAIT_FOR_LAST();
}

/* Ranges passed by value to a launch with many ranges. */
#define MANY 80u

/* Argument of a launch with many ranges, which replace those of the side; must match `Many` in Rust. */
typedef struct {
    tt_side side;
    tt_range ranges[MANY];
} tt_many;

/* Content to copy if it is new; must match `Kept` in Rust. */
typedef struct {
    const u8 *from;
    u8 *to;
    u64 bytes;
    /* Index of its first chunk in the launch; increases. */
    u32 first_chunk;
    u32 slot;
} tt_kept;

/* Argument of the copy kernel; must match `Keeping` in Rust. */
typedef struct {
    const u32 *decisions;
    /* Number of finished groups: 0 before and after the launch. */
    u32 *finished;
    u64 *done;
    u64 ticket;
    u32 count;
    u32 groups;
    tt_kept few[FEW];
} tt_keeping;
#endif

FN u32 tt_leaves_of(u64 bytes) {
    return bytes == 0 ? 1 : (u32)((bytes + LEAF_BYTES - 1) / LEAF_BYTES);
}
