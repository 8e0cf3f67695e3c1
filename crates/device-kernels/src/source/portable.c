/*
 * The content hash and the statistics of memory ranges, on a device.
 *
 * One source, compiled as OpenCL C 1.2 and as CUDA C (NVRTC). What differs between the two is said here and nowhere
 * else: address spaces, who a work item is, barriers, a few conversions. Devices are little endian.
 *
 * A *leaf* is 4,096 bytes of a range, the last one may be shorter. A *bundle* is 64 leaves: their hashes are 1,024
 * bytes, which is one block of the root's XXH3. A work group has one bundle; TT_LANES work items share a leaf, each
 * with the accumulators of its own 16 bytes of every 64, so that none needs what another one reads.
 *
 * Options of a build: TT_GROUP (work items of a group), TT_LANES (1 or 4), TT_DEEP and
 * TT_MEASURED_DEEP (loads in flight of a work item without and with statistics, the second no greater), TT_FP64 where the device has 64-bit floats: without it mean and deviation are left out.
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
/* `resident` groups of a multiprocessor at a time, for which registers are kept. */
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
/* Past the first cache, which does not see what other groups have just written. */
#define FRESH(at) __ldcg(at)
/* Memory before and after, for all groups of the device; the first cache has nothing from before. */
#define ORDERED() asm volatile("fence.acq_rel.gpu;" ::: "memory")
/* The same for the host as well. */
#define ORDERED_FOR_HOST() asm volatile("fence.acq_rel.sys;" ::: "memory")
/* Devices from 9.0 on let a launch begin while the one before it in its stream runs. For those the two words are put in when this is loaded (`ptx.rs`). */
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
/* By integers, so that a device that flushes small 32-bit floats to zero loses none of them. */
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
/* Groups that share a bundle where a launch has little content. */
#define SPREAD 4u
/* Accumulators of a leaf go in pairs: 16 bytes of a stripe make two. */
#define PAIRS (4 / TT_LANES)

/* A range of memory; twin of `Range` of the host. */
typedef struct {
    /* CUDA: its address. OpenCL: its offset in the buffer. */
    u64 address;
    u64 bytes;
    /* Which argument it lies in; OpenCL alone. */
    u32 buffer;
    /* Its first bundle among those of the launch; increases from range to range. */
    u32 first_bundle;
    /* Tag of its dtype; 0: no statistics. */
    u32 dtype;
    /* Elements that its last byte lacks: 1 if an odd nibble is none. */
    u32 missing;
    /* Where its result goes. */
    u32 slot;
    /* CUDA: 1 if it is to be decided whether its content is new. */
    u32 decided;
} tt_range;

/* Statistics of a part of a range; twin of `Part`. Floats are kept as bits. */
typedef struct {
    /* Least and greatest, as integers in the order of the values; see `tt_element`. */
    i64 min;
    i64 max;
    /* Mean, and sum of squared distances from it. */
    u64 mean;
    u64 squares;
    u64 zeros;
    u64 nan;
    u64 inf;
    /* Finite elements; the top bit: mean is multiplied by 2^-600, and squares twice. */
    u64 finite;
} tt_part;

/* What is found out about a range; twin of `RangeResult`. */
typedef struct {
    u64 hash[2];
    tt_part part;
} tt_result;

#ifdef TT_CHAINED
/* Ranges that go with a launch; more lie in a table. */
#define FEW 16u

/* One launch over ranges: memory to work in, and where findings go; twin of `Side`. Those may go to memory of the host. */
typedef struct {
    const tt_range *table;
    u64 *leaf_hashes;
    u64 *sums;
    tt_part *parts;
    u32 *gates;
    /* Ranges that are finished: 0 before and after. */
    u32 *finished;
    tt_result *results;
    /* What is decided, for kernels that follow and for the host; none where no set is given. */
    u32 *decisions;
    u32 *told;
    u32 *stored;
    /* Where the ticket is put when all findings are there; none: nowhere. */
    u64 *done;
    u64 ticket;
    u32 count;
    u32 mask;
    /* How it stands to the launches before and behind it. */
    u32 order;
    u32 reserved0;
    tt_range few[FEW];
} tt_side;

/* It may begin beside the launch before it, and is done behind that; it lets the next begin beside it. */
#define IS_BESIDE 1u
#define LETS_NEXT 2u

FN void tt_begins(const tt_side *side) {
    /* The launch before it has not ended, which would have emptied the first caches. */
    if (side->order & IS_BESIDE)
        ORDERED();
    if (side->order & LETS_NEXT)
        LET_NEXT_BEGIN();
}

/* A launch is done when all its groups are, so one of them waits for all. */
FN void tt_ends(const tt_side *side) {
    if ((side->order & IS_BESIDE) && MY_GROUP == 0)
        WAIT_FOR_LAST();
}

/* Ranges that go with a launch which has many. */
#define MANY 80u

/* The same of many ranges; twin of `Many`. The side's own are not used. */
typedef struct {
    tt_side side;
    tt_range ranges[MANY];
} tt_many;

/* Content that is kept if it is new; twin of `Kept`. */
typedef struct {
    const u8 *from;
    u8 *to;
    u64 bytes;
    /* Its first chunk among those of the launch; increases. */
    u32 first_chunk;
    u32 slot;
} tt_kept;

/* Copies of what is new; twin of `Keeping`. */
typedef struct {
    const u32 *decisions;
    /* Groups that are finished: 0 before and after. */
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
