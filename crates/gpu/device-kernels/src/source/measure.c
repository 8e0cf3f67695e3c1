/* Statistics: elements of every dtype, a work item's part of a leaf, and merging of parts. */

/* Tags of dtypes, as in `tensortap_abi::DType`. */
#define DT_FLOAT64 1u
#define DT_FLOAT32 2u
#define DT_FLOAT16 3u
#define DT_BFLOAT16 4u
#define DT_FLOAT8_E4M3FN 5u
#define DT_FLOAT8_E5M2 6u
#define DT_FLOAT4_E2M1 7u
#define DT_INT64 8u
#define DT_INT32 9u
#define DT_INT16 10u
#define DT_INT8 11u
#define DT_INT4 12u
#define DT_UINT64 13u
#define DT_UINT32 14u
#define DT_UINT16 15u
#define DT_UINT8 16u
#define DT_BOOL 17u

#define NO_MIN 0x7fffffffffffffffl
#define NO_MAX (-0x7fffffffffffffffl - 1)
#define SCALED 0x8000000000000000ul
/* As 64-bit floats: 2^-600, and 2^500, the magnitude from which squares could overflow. */
#define DOWN_BITS 0x1a70000000000000ul
#define HUGE_BITS 0x5f30000000000000l
#define NAN_BITS 0x7ff8000000000000ul

/* Statistics of a work item's part of a leaf. */
typedef struct {
    /* Keys of 64-bit elements, and of other elements. */
    i64 min64, max64;
    i32 min32, max32;
    u32 taken, zeros, nan, inf;
    /* Sums of one-byte integers. They fit, because a part has few elements. */
    i32 whole_sum;
    u32 whole_squares;
#ifdef TT_FP64
    /* The first finite element, from which distances are computed. It is at most the deviation times the root
       of the count away from the mean, so correcting the mean loses little precision. */
    f64 center;
    f64 sum, squares;
    /* The same sums, scaled down. Only for 64-bit floats. */
    f64 small_sum, small_squares;
#endif
} tt_measure;

FN void tt_measure_nothing(tt_measure *m) {
    m->min64 = NO_MIN;
    m->max64 = NO_MAX;
    m->min32 = 0x7fffffff;
    m->max32 = -0x7fffffff - 1;
    m->taken = m->zeros = m->nan = m->inf = 0;
    m->whole_sum = 0;
    m->whole_squares = 0;
#ifdef TT_FP64
    m->center = m->sum = m->squares = m->small_sum = m->small_squares = 0;
#endif
}

FN u32 tt_bits_of(u32 dtype) {
    switch (dtype) {
    case DT_FLOAT64: case DT_INT64: case DT_UINT64: return 64;
    case DT_FLOAT32: case DT_INT32: case DT_UINT32: return 32;
    case DT_FLOAT16: case DT_BFLOAT16: case DT_INT16: case DT_UINT16: return 16;
    case DT_FLOAT4_E2M1: case DT_INT4: return 4;
    default: return 8;
    }
}

/* Class of an element. */
#define IS_FINITE 0
#define IS_NAN 1
#define IS_INF 2

/* Classifies an element and computes its key, an integer in the order of the values: for a float, its
   magnitude's bits with the sign; for an integer, its value; for an unsigned integer of 32 or 64 bits, its
   value with the top bit flipped. Except for the last kind, key 0 is the value 0. */
FN u32 tt_element(u32 dtype, u64 bits, i64 *key) {
    /* Largest finite magnitude, infinity and sign bit of a float type. */
    u64 greatest, infinity, sign;
    switch (dtype) {
    case DT_FLOAT64: greatest = 0x7feffffffffffffful; infinity = greatest + 1; sign = 1ul << 63; break;
    case DT_FLOAT32: greatest = 0x7f7ffffful; infinity = greatest + 1; sign = 1ul << 31; break;
    case DT_FLOAT16: greatest = 0x7bfful; infinity = greatest + 1; sign = 1ul << 15; break;
    case DT_BFLOAT16: greatest = 0x7f7ful; infinity = greatest + 1; sign = 1ul << 15; break;
    case DT_FLOAT8_E4M3FN: greatest = 0x7eul; infinity = 0xff; sign = 0x80; break;
    case DT_FLOAT8_E5M2: greatest = 0x7bul; infinity = greatest + 1; sign = 0x80; break;
    case DT_FLOAT4_E2M1: greatest = 7; infinity = 0xff; sign = 8; break;
    case DT_INT64: *key = (i64)bits; return IS_FINITE;
    case DT_INT32: *key = (i32)bits; return IS_FINITE;
    case DT_INT16: *key = (i32)(bits << 16) >> 16; return IS_FINITE;
    case DT_INT8: *key = (i32)(bits << 24) >> 24; return IS_FINITE;
    case DT_INT4: *key = (i32)(bits << 28) >> 28; return IS_FINITE;
    case DT_UINT64: *key = (i64)(bits ^ 1ul << 63); return IS_FINITE;
    case DT_UINT32: *key = (i32)((u32)bits ^ 1u << 31); return IS_FINITE;
    case DT_BOOL: *key = bits != 0; return IS_FINITE;
    default: *key = (i64)bits; return IS_FINITE;
    }
    u64 magnitude = bits & (sign - 1);
    *key = bits & sign ? -(i64)magnitude : (i64)magnitude;
    return magnitude <= greatest ? IS_FINITE : magnitude == infinity ? IS_INF : IS_NAN;
}

/* The key of zero. */
FN i64 tt_zero_of(u32 dtype) {
    return dtype == DT_UINT64 ? NO_MAX : dtype == DT_UINT32 ? -0x80000000l : 0;
}

#ifdef TT_FP64
/* The value of a finite element. The exponent and mantissa of a float are moved to those of a 64-bit float,
   and a factor corrects the difference of the biases. This is exact for subnormal numbers, too. */
FN f64 tt_value(u32 dtype, u64 bits) {
    switch (dtype) {
    case DT_FLOAT64: return AS_F64(bits);
    case DT_FLOAT32: return F64_OF_F32((u32)bits);
    case DT_BFLOAT16: return F64_OF_F32((u32)bits << 16);
    case DT_FLOAT16: return AS_F64((bits & 0x7fff) << 42 | (bits >> 15) << 63) * AS_F64(0x7ef0000000000000ul);
    case DT_FLOAT8_E4M3FN: return AS_F64((bits & 0x7f) << 49 | (bits >> 7) << 63) * AS_F64(0x7f70000000000000ul);
    case DT_FLOAT8_E5M2: return AS_F64((bits & 0x7f) << 50 | (bits >> 7) << 63) * AS_F64(0x7ef0000000000000ul);
    case DT_FLOAT4_E2M1: return AS_F64((bits & 7) << 51 | (bits >> 3) << 63) * AS_F64(0x7fd0000000000000ul);
    case DT_INT64: return (f64)(i64)bits;
    case DT_INT32: return (f64)(i32)bits;
    case DT_INT16: return (f64)((i32)(bits << 16) >> 16);
    case DT_INT8: return (f64)((i32)(bits << 24) >> 24);
    case DT_INT4: return (f64)((i32)(bits << 28) >> 28);
    case DT_UINT64: return (f64)bits;
    case DT_BOOL: return bits != 0 ? 1.0 : 0.0;
    default: return (f64)(u32)bits;
    }
}
#endif

FN u64 tt_bits_at(u64 d0, u64 d1, u32 place, u32 width) {
    u32 bit = place * width;
    u64 word = (bit < 64 ? d0 : d1) >> (bit & 63);
    return width == 64 ? word : word & ((1ul << (width & 63)) - 1);
}

FN void tt_take_element(tt_measure *m, u32 dtype, u64 bits) {
    i64 key;
    u32 kind = tt_element(dtype, bits, &key);
    if (kind != IS_FINITE) {
        m->nan += kind == IS_NAN;
        m->inf += kind == IS_INF;
        return;
    }
    m->zeros += key == tt_zero_of(dtype);
    if (tt_bits_of(dtype) == 64) {
        m->min64 = key < m->min64 ? key : m->min64;
        m->max64 = key > m->max64 ? key : m->max64;
    } else {
        m->min32 = (i32)key < m->min32 ? (i32)key : m->min32;
        m->max32 = (i32)key > m->max32 ? (i32)key : m->max32;
    }
#ifdef TT_FP64
    f64 value = tt_value(dtype, bits), distance = value - m->center;
    m->sum += distance;
    m->squares += distance * distance;
    if (dtype == DT_FLOAT64) {
        f64 small = value * AS_F64(DOWN_BITS) - m->center * AS_F64(DOWN_BITS);
        m->small_sum += small;
        m->small_squares += small * small;
    }
#endif
}

/* Chooses the center from these 16 bytes, if they contain a finite element. Called before the first finite
   element is added. */
FN void tt_find_center(tt_measure *m, u32 dtype, u64 d0, u64 d1, u32 count) {
#ifdef TT_FP64
    u32 width = tt_bits_of(dtype);
#pragma unroll 1
    for (u32 place = 0; place < count; place++) {
        u64 bits = tt_bits_at(d0, d1, place, width);
        i64 key;
        if (tt_element(dtype, bits, &key) == IS_FINITE) {
            m->center = tt_value(dtype, bits);
            return;
        }
    }
#endif
}

/* Whether sums are integers: for one-byte elements that are not floats. */
FN u32 tt_is_whole(u32 dtype) {
    return dtype == DT_INT8 || dtype == DT_UINT8 || dtype == DT_BOOL;
}

FN void tt_take_whole(tt_measure *m, const u32 dtype, u32 bits) {
    i32 value = dtype == DT_INT8 ? (i32)(bits << 24) >> 24 : dtype == DT_BOOL ? bits != 0 : (i32)bits;
    m->min32 = value < m->min32 ? value : m->min32;
    m->max32 = value > m->max32 ? value : m->max32;
    m->zeros += value == 0;
    m->whole_sum += value;
    m->whole_squares += (u32)(value * value);
}

/* Adds the first elements of 16 bytes, of any dtype. */
FN void tt_take_some(tt_measure *m, u32 dtype, u64 d0, u64 d1, u32 count) {
    u32 width = tt_bits_of(dtype);
    if (m->taken == m->nan + m->inf)
        tt_find_center(m, dtype, d0, d1, count);
    m->taken += count;
#pragma unroll 1
    for (u32 place = 0; place < count; place++) {
        u64 bits = tt_bits_at(d0, d1, place, width);
        if (tt_is_whole(dtype))
            tt_take_whole(m, dtype, (u32)bits);
        else
            tt_take_element(m, dtype, bits);
    }
}

/* Adds all elements of 16 bytes; `dtype` is a compile-time constant. */
FN void tt_take_wide(tt_measure *m, const u32 dtype, u64 d0, u64 d1) {
    const u32 width = tt_bits_of(dtype);
    if (m->taken == m->nan + m->inf)
        tt_find_center(m, dtype, d0, d1, 128 / width);
    m->taken += 128 / width;
#pragma unroll
    for (u32 place = 0; place < 128 / width; place++)
        tt_take_element(m, dtype, tt_bits_at(d0, d1, place, width));
}

/* Adds all elements of 16 bytes for 8-, 16- and 32-bit floats, the most common types. Elements are shifted to
   the top of 32 bits. `greatest` is the largest finite magnitude there, `right` the shift to the place in a
   64-bit float, and `factor` the bits of the factor that corrects the bias. Minimum and maximum use the raw
   bits: among positive elements the order is that of the bits, among negative elements it is reversed. */
FN void tt_take_floats(tt_measure *m, const u32 dtype, const u32 greatest, const u32 right, const u64 factor, u64 d0,
                       u64 d1) {
    const u32 width = tt_bits_of(dtype), count = 128 / width, shift = 32 - width;
    u32 up[16], low = 0xffffffffu, high = 0, zeros = 0;
    i32 positive = -0x7fffffff - 1;
#pragma unroll
    for (u32 i = 0; i < count; i++) {
        u32 word = (u32)((i * width < 64 ? d0 : d1) >> (i * width / 32 % 2 * 32));
        up[i] = word << (shift - i * width % 32) & (width == 32 ? 0xffffffffu : ~(0xffffffffu >> (width % 32)));
        low = up[i] < low ? up[i] : low;
        high = up[i] > high ? up[i] : high;
        positive = (i32)up[i] > positive ? (i32)up[i] : positive;
        zeros += (up[i] & 0x7fffffffu) == 0;
    }
    if (positive > (i32)greatest || high > (greatest | 0x80000000u)) {
        tt_take_wide(m, dtype, d0, d1);
        return;
    }
    u32 least = high & 0x80000000u ? high : low, most = positive >= 0 ? (u32)positive : low;
    i32 least_key = least & 0x80000000u ? -(i32)((least & 0x7fffffffu) >> shift) : (i32)(least >> shift);
    i32 most_key = most & 0x80000000u ? -(i32)((most & 0x7fffffffu) >> shift) : (i32)(most >> shift);
    m->min32 = least_key < m->min32 ? least_key : m->min32;
    m->max32 = most_key > m->max32 ? most_key : m->max32;
    m->zeros += zeros;
#ifdef TT_FP64
    f64 center = m->taken == m->nan + m->inf ? tt_value(dtype, up[0] >> shift) : m->center;
    f64 sum = m->sum, squares = m->squares;
    m->center = center;
#pragma unroll
    for (u32 i = 0; i < count; i++) {
        u32 top = (up[i] & 0x7fffffffu) >> right | (up[i] & 0x80000000u);
        f64 distance = F64_OF_WORDS(top, width == 32 ? up[i] << (32 - right) : 0) * AS_F64(factor) - center;
        sum += distance;
        squares += distance * distance;
    }
    m->sum = sum;
    m->squares = squares;
#endif
    m->taken += count;
}

FN void tt_take_bytes(tt_measure *m, const u32 dtype, u64 d0, u64 d1) {
    m->taken += 16;
#pragma unroll
    for (u32 i = 0; i < 4; i++) {
        u32 word = (u32)((i < 2 ? d0 : d1) >> (i % 2 * 32));
        tt_take_whole(m, dtype, word & 0xff);
        tt_take_whole(m, dtype, word >> 8 & 0xff);
        tt_take_whole(m, dtype, word >> 16 & 0xff);
        tt_take_whole(m, dtype, word >> 24);
    }
}

/* Adds all elements of 16 bytes. Common dtypes have specialized code. */
FN void tt_take(tt_measure *m, u32 dtype, u64 d0, u64 d1) {
    switch (dtype) {
    case DT_FLOAT32: tt_take_floats(m, DT_FLOAT32, 0x7f7fffffu, 3, 0x77f0000000000000ul, d0, d1); break;
    case DT_FLOAT16: tt_take_floats(m, DT_FLOAT16, 0x7bff0000u, 6, 0x7ef0000000000000ul, d0, d1); break;
    case DT_BFLOAT16: tt_take_floats(m, DT_BFLOAT16, 0x7f7f0000u, 3, 0x77f0000000000000ul, d0, d1); break;
    case DT_FLOAT8_E4M3FN: tt_take_floats(m, DT_FLOAT8_E4M3FN, 0x7e000000u, 7, 0x7f70000000000000ul, d0, d1); break;
    case DT_FLOAT8_E5M2: tt_take_floats(m, DT_FLOAT8_E5M2, 0x7b000000u, 6, 0x7ef0000000000000ul, d0, d1); break;
    case DT_FLOAT64: tt_take_wide(m, DT_FLOAT64, d0, d1); break;
    case DT_INT64: tt_take_wide(m, DT_INT64, d0, d1); break;
    case DT_INT32: tt_take_wide(m, DT_INT32, d0, d1); break;
    case DT_INT8: tt_take_bytes(m, DT_INT8, d0, d1); break;
    case DT_UINT8: tt_take_bytes(m, DT_UINT8, d0, d1); break;
    default: tt_take_some(m, dtype, d0, d1, 128 / tt_bits_of(dtype));
    }
}

FN void tt_part_of_nothing(tt_part *part) {
    part->min = NO_MIN;
    part->max = NO_MAX;
    part->mean = part->squares = NAN_BITS;
    part->zeros = part->nan = part->inf = part->finite = 0;
}

FN void tt_part_of(const tt_measure *m, u32 dtype, tt_part *part) {
    u32 finite = m->taken - m->nan - m->inf;
    tt_part_of_nothing(part);
    part->zeros = m->zeros;
    part->nan = m->nan;
    part->inf = m->inf;
    part->finite = finite;
    if (finite == 0)
        return;
    u32 wide = tt_bits_of(dtype) == 64;
    part->min = wide ? m->min64 : m->min32;
    part->max = wide ? m->max64 : m->max32;
#ifdef TT_FP64
    f64 scale = 1.0, sum = m->sum, squares = m->squares;
    if (dtype == DT_FLOAT64 && (part->max > HUGE_BITS || part->min < -HUGE_BITS)) {
        scale = AS_F64(DOWN_BITS);
        sum = m->small_sum;
        squares = m->small_squares;
        part->finite |= SCALED;
    }
    if (tt_is_whole(dtype)) {
        sum = m->whole_sum;
        squares = m->whole_squares;
    }
    f64 center = tt_is_whole(dtype) ? 0.0 : m->center * scale;
    f64 distance = sum / finite, rest = squares - sum * distance;
    part->mean = F64_BITS(center + distance);
    part->squares = F64_BITS(rest > 0 ? rest : 0.0);
#endif
}

/* Merges another part. Parts are always merged in the same order, so equal content has equal statistics. */
FN void tt_merge(tt_part *into, const tt_part *other) {
    u64 scaled = (into->finite | other->finite) & SCALED;
    u64 before = into->finite & ~SCALED, added = other->finite & ~SCALED;
    into->zeros += other->zeros;
    into->nan += other->nan;
    into->inf += other->inf;
    if (added == 0)
        return;
    into->min = other->min < into->min ? other->min : into->min;
    into->max = other->max > into->max ? other->max : into->max;
    if (before == 0) {
        into->mean = other->mean;
        into->squares = other->squares;
        into->finite = other->finite;
        return;
    }
#ifdef TT_FP64
    f64 down = AS_F64(DOWN_BITS), mean = AS_F64(into->mean), squares = AS_F64(into->squares);
    f64 other_mean = AS_F64(other->mean), other_squares = AS_F64(other->squares);
    if (scaled & ~into->finite) {
        mean *= down;
        squares = squares * down * down;
    }
    if (scaled & ~other->finite) {
        other_mean *= down;
        other_squares = other_squares * down * down;
    }
    f64 apart = other_mean - mean, share = (f64)added / (f64)(before + added);
    into->mean = F64_BITS(mean + apart * share);
    into->squares = F64_BITS(squares + other_squares + apart * apart * ((f64)before * share));
#endif
    into->finite = (before + added) | scaled;
}

/* Merges the parts of all work items into that of the first. */
FN void tt_merge_group(LOCAL tt_part *parts, tt_part *mine) {
#if TT_GROUP > 1
    parts[MY_ITEM] = *mine;
    BARRIER();
#pragma unroll 1
    for (u32 step = TT_GROUP / 2; step > 0; step /= 2) {
        if (MY_ITEM < step) {
            tt_part other = parts[MY_ITEM + step];
            tt_merge(mine, &other);
            parts[MY_ITEM] = *mine;
        }
        BARRIER();
    }
#endif
}
