/* The first kernel of a launch: hashes and statistics of leaves. */

/* Loads 16 bytes from an address that is a multiple of 16. */
FN void tt_load_aligned(GLOBAL const u8 *at, u64 *d) {
    tt_words words = *(GLOBAL const tt_words *)at;
    d[0] = words.x;
    d[1] = words.y;
}

/* Loads 16 bytes from any address as aligned 8-byte words. Reads up to 7 bytes before and after them. */
FN void tt_load_shifted(GLOBAL const u8 *at, u64 *d) {
    u32 off = (u32)((tt_address)at & 7), shift = off * 8;
    GLOBAL const u64 *words = (GLOBAL const u64 *)(at - off);
    u64 middle = words[1];
    d[0] = tt_rotated_in(words[0], middle, shift);
    d[1] = tt_rotated_in(middle, shift ? words[2] : 0, shift);
}

/* The incomplete word at the end of a range, for `tt_load_any`. */
FN u64 tt_edge_of(GLOBAL const u8 *first, u64 bytes) {
#if TT_LANES > 1
    u32 count = (u32)(((tt_address)first + bytes) % 8);
    return tt_bytes_at(first + bytes - count, count);
#else
    return 0;
#endif
}

/* Loads up to 16 bytes of a range from any address. Bytes after the end of the range have any value. */
FN void tt_load_any(GLOBAL const u8 *first, u64 bytes, u64 offset, u64 edge, u64 *d) {
#if TT_LANES > 1
    /* Loads whole words before the end without branches, so that several loads are in flight. The incomplete
       last word was loaded before. The first word may include bytes before the range, which are in the same
       allocation and page. */
    tt_address at = (tt_address)first + offset, word = at - at % 8, end = (tt_address)first + bytes;
    u32 shift = (u32)(at % 8) * 8;
    u64 low = edge, middle = edge, high = edge;
    end -= end % 8;
    if (word < end)
        low = *(GLOBAL const u64 *)word;
    if (word + 8 < end)
        middle = *(GLOBAL const u64 *)(word + 8);
    if (word + 16 < end)
        high = *(GLOBAL const u64 *)(word + 16);
    d[0] = tt_rotated_in(low, middle, shift);
    d[1] = tt_rotated_in(middle, high, shift);
#else
    if (offset >= 8 && offset + 24 <= bytes) {
        tt_load_shifted(first + offset, d);
        return;
    }
    u64 left = offset < bytes ? bytes - offset : 0;
    u32 count = left < 16 ? (u32)left : 16;
    d[0] = tt_bytes_at(first + offset, count < 8 ? count : 8);
    d[1] = count > 8 ? tt_bytes_at(first + offset + 8, count - 8) : 0;
#endif
}

/* Kind of load: a whole leaf at a multiple of 16, or any other. */
#define ALIGNED 0
#define ANY 1

/* Processes a leaf of 241 bytes or more: stripes of 64 bytes, `deep` at a time, and the last stripe, which
   ends with the leaf and has its own secret. Statistics exclude up to 63 bytes after the last whole stripe.
   */
FN void tt_long_leaf(GLOBAL const u8 *first, u64 bytes, u64 offset, u32 size, const u32 loading, const u32 deep, u32 lane,
                     LOCAL const u64 *secret, u64 *acc, u32 dtype, tt_measure *m) {
    const u32 whole = loading == ALIGNED;
    u32 stripes = whole ? 63 : (size - 1) / 64, taken = whole ? 64 : size / 64;
    u64 edge = !whole && offset + size + 16 > bytes ? tt_edge_of(first, bytes) : 0;
#pragma unroll 1
    for (u32 begin = 0; begin <= stripes; begin += deep) {
        u64 d[TT_DEEP * PAIRS][2];
#pragma unroll
        for (u32 i = 0; i < deep * PAIRS; i++) {
            u32 stripe = begin + i / PAIRS, in_stripe = (lane * PAIRS + i % PAIRS) * 16;
            if (whole)
                tt_load_aligned(first + offset + stripe * 64 + in_stripe, d[i]);
            else
                tt_load_any(first, bytes, offset + (stripe < stripes ? stripe * 64 : size - 64) + in_stripe, edge, d[i]);
        }
#pragma unroll
        for (u32 i = 0; i < deep * PAIRS; i++) {
            u32 stripe = begin + i / PAIRS, pair = lane * PAIRS + i % PAIRS;
            u32 word = stripe % 16 + 2 * pair;
            u64 k0 = secret[word], k1 = secret[word + 1];
            if ((!whole || i / PAIRS == deep - 1) && stripe == stripes) {
                k0 = tt_secret_at(secret, SECRET_LAST + 16 * pair);
                k1 = tt_secret_at(secret, SECRET_LAST + 16 * pair + 8);
            }
            if (whole || stripe <= stripes)
                tt_accumulate(acc + i % PAIRS * 2, d[i][0], d[i][1], k0, k1);
        }
        if (dtype) {
            /* The code is large, so the loop is not unrolled. The next values move to index 0, because
               registers have no computed index. */
#pragma unroll 1
            for (u32 i = 0; i < deep * PAIRS; i++) {
                if (whole || begin + i / PAIRS < taken)
                    tt_take(m, dtype, d[0][0], d[0][1]);
#pragma unroll
                for (u32 k = 1; k < deep * PAIRS; k++) {
                    d[k - 1][0] = d[k][0];
                    d[k - 1][1] = d[k][1];
                }
            }
        }
        u32 end = begin + deep;
        if (end % 16 == 0 && end <= stripes) {
#pragma unroll
            for (u32 i = 0; i < 2 * PAIRS; i++)
                acc[i] = tt_scramble(acc[i], secret[16 + lane * 2 * PAIRS + i]);
        }
    }
}

/* Statistics of the elements from an offset to the end of a leaf. */
FN void tt_measure_rest(GLOBAL const u8 *first, u64 bytes, u64 offset, u32 begin, u32 size, u32 lane, u32 dtype,
                        u32 missing, tt_measure *m) {
    u32 width = tt_bits_of(dtype);
    u64 edge = begin < size ? tt_edge_of(first, bytes) : 0;
#pragma unroll 1
    for (u32 at = begin + lane * 16; at < size; at += TT_LANES * 16) {
        u64 d[2];
        u32 count = size - at < 16 ? (size - at) * 8 / width : 128 / width;
        tt_load_any(first, bytes, offset + at, edge, d);
        tt_take_some(m, dtype, d[0], d[1], count - (offset + at + 16 >= bytes ? missing : 0));
    }
}

/* A work item's share of a leaf's hash. For a short leaf, the first work item computes the whole hash. */
FN void tt_leaf(GLOBAL const u8 *first, const tt_range *range, u64 offset, const u32 measured, u32 lane,
                LOCAL const u64 *secret, u64 *shares, tt_measure *m) {
    u64 left = range->bytes - offset;
    u32 size = left < LEAF_BYTES ? (u32)left : LEAF_BYTES;
    /* Statistics are computed with the hash, except for trailing bytes and for a leaf with a missing nibble.
       */
    u32 dtype = measured && !(range->missing && left <= LEAF_BYTES) ? range->dtype : 0;
    u32 aligned = size == LEAF_BYTES && ((tt_address)first & 15) == 0;
    u64 acc[2 * PAIRS];
    shares[0] = shares[1] = 0;
    if (size <= 240) {
        if (lane == 0)
            tt_hash_short(first + offset, size, secret, 0, shares);
        dtype = 0;
    } else {
#pragma unroll
        for (u32 i = 0; i < 2 * PAIRS; i++)
            acc[i] = tt_first[lane * 2 * PAIRS + i];
        if (measured && aligned)
            tt_long_leaf(first, range->bytes, offset, size, ALIGNED, TT_MEASURED_DEEP, lane, secret, acc, dtype, m);
        else if (aligned)
            tt_long_leaf(first, range->bytes, offset, size, ALIGNED, TT_DEEP, lane, secret, acc, 0, m);
        else if (measured)
            tt_long_leaf(first, range->bytes, offset, size, ANY, TT_MEASURED_DEEP, lane, secret, acc, dtype, m);
        else
            tt_long_leaf(first, range->bytes, offset, size, ANY, (TT_DEEP + 1) / 2, lane, secret, acc, 0, m);
#pragma unroll
        for (u32 i = 0; i < PAIRS; i++)
            tt_merge_pair(acc + 2 * i, lane * PAIRS + i, secret, shares);
    }
    if (measured && range->dtype)
        tt_measure_rest(first, range->bytes, offset, dtype ? size / 64 * 64 : 0, size, lane, range->dtype,
                        range->missing, m);
}

/* The range of a bundle: the last one that starts at or before it. */
FN u32 tt_range_of(GLOBAL const tt_range *ranges, u32 count, u32 bundle) {
    u32 low = 0, high = count;
    while (high - low > 1) {
        u32 middle = low + (high - low) / 2;
        if (ranges[middle].first_bundle <= bundle)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Contribution of a leaf's hash to the root's accumulators. The hash is 16 bytes of the root's content. */
FN void tt_into_root(const u64 *hash, u32 leaf, u64 seed, LOCAL const u64 *secret, u64 *pair) {
    /* A seeded secret adds the seed to even words and subtracts it from odd words. */
    u32 word = leaf / 4 + leaf % 4 * 2;
    u64 up = word % 2 ? 0 - seed : seed;
    pair[0] = pair[1] = 0;
    tt_accumulate(pair, hash[0], hash[1], secret[word] + up, secret[word + 1] - up);
}

/* Processes a bundle: hashes of its leaves, their contributions to the root, and statistics. */
FN void tt_bundle(const u32 measured, GLOBAL const u8 *first, const tt_range *range, u32 bundle,
                  GLOBAL u64 *leaf_hashes, GLOBAL u64 *sums, GLOBAL tt_part *parts, LOCAL u64 *secret,
                  LOCAL u64 *shares, LOCAL u64 *added, LOCAL tt_part *group_parts) {
    u32 leaves = tt_leaves_of(range->bytes), first_leaf = (bundle - range->first_bundle) * BUNDLE_LEAVES;
    u32 lane = MY_ITEM % TT_LANES;
    tt_part part;
    tt_part_of_nothing(&part);
    tt_load_secret(secret);
    BARRIER();
#pragma unroll 1
    for (u32 leaf = MY_ITEM / TT_LANES; leaf < BUNDLE_LEAVES; leaf += TT_GROUP / TT_LANES) {
        u64 mine[2], hash[2];
        u64 offset = (u64)(first_leaf + leaf) * LEAF_BYTES;
        u32 there = first_leaf + leaf < leaves;
        mine[0] = mine[1] = 0;
        if (there) {
            tt_measure m;
            tt_measure_nothing(&m);
            tt_leaf(first, range, offset, measured, lane, secret, mine, &m);
            if (measured && range->dtype) {
                tt_part of_leaf;
                tt_part_of(&m, range->dtype, &of_leaf);
                tt_merge(&part, &of_leaf);
            }
        }
#if TT_LANES > 1
        BARRIER();
        shares[2 * MY_ITEM] = mine[0];
        shares[2 * MY_ITEM + 1] = mine[1];
        BARRIER();
        if (lane == 0) {
            for (u32 i = 1; i < TT_LANES; i++) {
                mine[0] += shares[2 * (MY_ITEM + i)];
                mine[1] += shares[2 * (MY_ITEM + i) + 1];
            }
        }
#endif
        if (there && lane == 0) {
            u64 left = range->bytes - offset, pair[2];
            u32 size = left < LEAF_BYTES ? (u32)left : LEAF_BYTES;
            hash[0] = mine[0];
            hash[1] = mine[1];
            if (size > 240)
                tt_finish_long(mine, size, hash);
            leaf_hashes[2 * ((u64)bundle * BUNDLE_LEAVES + leaf)] = hash[0];
            leaf_hashes[2 * ((u64)bundle * BUNDLE_LEAVES + leaf) + 1] = hash[1];
            tt_into_root(hash, leaf, range->bytes, secret, pair);
            added[2 * leaf] = pair[0];
            added[2 * leaf + 1] = pair[1];
        }
    }
    BARRIER();
    /* Every bundle except the last is a whole block of the root. */
    if (first_leaf + BUNDLE_LEAVES < leaves) {
        for (u32 i = MY_ITEM; i < 8; i += TT_GROUP) {
            u64 sum = 0;
            for (u32 stripe = 0; stripe < 16; stripe++)
                sum += added[8 * stripe + i];
            sums[(u64)bundle * 8 + i] = sum;
        }
    }
    if (measured) {
        tt_merge_group(group_parts, &part);
        if (MY_ITEM == 0)
            parts[bundle] = part;
    }
}

/* Local memory for the shares of both halves; later for the sums of a segment and some words. */
#define SHARES (2 * TT_GROUP > 8 * SEGMENT + 40 ? 2 * TT_GROUP : 8 * SEGMENT + 40)

#ifdef TT_CHAINED
#define LEAVES_KERNEL(name, measured, part_count, resident)                                                   \
    KERNEL(TT_GROUP, resident)                                                                                \
    name(const __grid_constant__ tt_side side) {                                                              \
        LOCAL_ARRAY u64 secret[SECRET_WORDS];                                                                 \
        LOCAL_ARRAY u64 shares[SHARES];                                                                       \
        LOCAL_ARRAY u64 added[2 * BUNDLE_LEAVES];                                                             \
        LOCAL_ARRAY tt_part group_parts[part_count];                                                          \
        u32 bundle = MY_GROUP;                                                                                \
        tt_range range;                                                                                       \
        tt_begins(&side);                                                                                     \
        if (side.count > FEW)                                                                                 \
            range = side.table[tt_range_of(side.table, side.count, bundle)];                                  \
        else                                                                                                  \
            range = side.few[tt_range_of(side.few, side.count, bundle)];                                      \
        tt_bundle(measured, (const u8 *)range.address, &range, bundle, side.leaf_hashes, side.sums,           \
                  side.parts, secret, shares, added, group_parts);                                            \
        tt_chain_on(&side, &range, bundle, 1, measured, secret, shares, group_parts);                         \
        tt_ends(&side);                                                                                       \
    }
#else
/* A kernel cannot read buffer addresses from a table, so each buffer is an argument. */
#define CONTENT                                                                                               \
    , __global const u8 *b0, __global const u8 *b1, __global const u8 *b2, __global const u8 *b3,             \
        __global const u8 *b4, __global const u8 *b5, __global const u8 *b6, __global const u8 *b7
#define BUFFER_OF(n)                                                                                          \
    ((n) == 0 ? b0 : (n) == 1 ? b1 : (n) == 2 ? b2 : (n) == 3 ? b3 : (n) == 4 ? b4 : (n) == 5 ? b5 : (n) == 6 ? b6 : b7)
#define FIRST_OF(range) (BUFFER_OF((range).buffer) + (range).address)

#define LEAVES_KERNEL(name, measured, part_count, resident)                                                            \
    KERNEL(TT_GROUP, resident)                                                                                \
    name(u32 count, GLOBAL const tt_range *ranges, GLOBAL u64 *leaf_hashes, GLOBAL u64 *sums,                 \
         GLOBAL tt_part *parts CONTENT) {                                                                     \
        LOCAL_ARRAY u64 secret[SECRET_WORDS];                                                                 \
        LOCAL_ARRAY u64 shares[SHARES];                                                                       \
        LOCAL_ARRAY u64 added[2 * BUNDLE_LEAVES];                                                             \
        LOCAL_ARRAY tt_part group_parts[part_count];                                                          \
        u32 bundle = MY_GROUP;                                                                                \
        tt_range range = ranges[tt_range_of(ranges, count, bundle)];                                          \
        tt_bundle(measured, FIRST_OF(range), &range, bundle, leaf_hashes, sums, parts, secret, shares, added, \
                  group_parts);                                                                               \
    }
#endif

/* Only hashes; and hashes with statistics of ranges that have a dtype. */
LEAVES_KERNEL(tt_hash_leaves, 0, 1, 2)
LEAVES_KERNEL(tt_measure_leaves, 1, TT_GROUP, 3)
