/*
 * The first kernel of a launch with little content. One group per bundle would leave most of the device idle,
 * so several groups share a bundle. CUDA only.
 *
 * A leaf's hash has blocks of 16 stripes, 1,024 bytes. Within a block, accumulators only add. So each work
 * item sums its 16 bytes of every stripe of one block, with several loads in flight. Between blocks the
 * accumulators are scrambled, after all sums are complete.
 */
#ifdef TT_CHAINED

#define SPREAD_LEAVES (BUNDLE_LEAVES / SPREAD)
#define SPREAD_LANES 16u
#define BLOCK_STRIPES 16u
/* Loads in flight per work item, and resident groups per multiprocessor. */
#define SPREAD_DEEP 8u
#define SPREAD_RESIDENT 4

/* The keys of 16 bytes of a stripe. The last stripe of a leaf has its own secret. */
FN void tt_keys_of(u32 in_block, u32 last, u32 pair, LOCAL const u64 *secret, u64 *keys) {
    keys[0] = last ? tt_secret_at(secret, SECRET_LAST + 16 * pair) : secret[in_block + 2 * pair];
    keys[1] = last ? tt_secret_at(secret, SECRET_LAST + 16 * pair + 8) : secret[in_block + 2 * pair + 1];
}

/* Sums 16 bytes of every stripe of a block, for a whole leaf at a multiple of 16. Two passes with half of the
   loads leave registers for twice as many groups. */
FN void tt_aligned_block(const u8 *leaf, u32 block, u32 pair, LOCAL const u64 *secret, u64 *sums) {
    u64 d[SPREAD_DEEP][2], keys[2];
#pragma unroll 1
    for (u32 begin = 0; begin < BLOCK_STRIPES; begin += SPREAD_DEEP) {
#pragma unroll
        for (u32 i = 0; i < SPREAD_DEEP; i++)
            tt_load_aligned(leaf + (block * BLOCK_STRIPES + begin + i) * 64 + pair * 16, d[i]);
#pragma unroll
        for (u32 i = 0; i < SPREAD_DEEP; i++) {
            u32 last = begin + i == BLOCK_STRIPES - 1 && block == LEAF_BYTES / 1024 - 1;
            tt_keys_of(begin + i, last, pair, secret, keys);
            tt_accumulate(sums, d[i][0], d[i][1], keys[0], keys[1]);
        }
    }
}

/* Sums 16 bytes of every stripe of a block, for any leaf. The last stripe ends with the leaf. */
FN void tt_any_block(const u8 *first, u64 bytes, u64 offset, u32 size, u32 block, u32 pair, LOCAL const u64 *secret,
                     u64 *sums) {
    u32 stripes = (size - 1) / 64, end = (block + 1) * BLOCK_STRIPES;
    u64 edge = offset + size + 16 > bytes ? tt_edge_of(first, bytes) : 0;
#pragma unroll 1
    for (u32 begin = block * BLOCK_STRIPES; begin < end && begin <= stripes; begin += 4) {
        u64 d[4][2], keys[2];
#pragma unroll
        for (u32 i = 0; i < 4; i++)
            tt_load_any(first, bytes, offset + (begin + i < stripes ? (begin + i) * 64 : size - 64) + pair * 16, edge, d[i]);
#pragma unroll
        for (u32 i = 0; i < 4; i++) {
            tt_keys_of((begin + i) % BLOCK_STRIPES, begin + i == stripes, pair, secret, keys);
            if (begin + i <= stripes)
                tt_accumulate(sums, d[i][0], d[i][1], keys[0], keys[1]);
        }
    }
}

/* Computes the shares of a leaf's hash from the sums of its blocks, which are in the registers of half a
   warp. All work items of the warp must call it. */
FN void tt_shares_of_blocks(const u64 *sums, u32 blocks, u32 pair, LOCAL const u64 *secret, u64 *shares) {
    u64 acc[2];
    acc[0] = tt_first[2 * pair];
    acc[1] = tt_first[2 * pair + 1];
#pragma unroll
    for (u32 block = 0; block < LEAF_BYTES / 1024; block++) {
        u32 from = (MY_ITEM & 16) | block * 4 | pair;
        acc[0] += __shfl_sync(~0u, sums[0], from);
        acc[1] += __shfl_sync(~0u, sums[1], from);
        if (block + 1 < blocks) {
            acc[0] = tt_scramble(acc[0], secret[16 + 2 * pair]);
            acc[1] = tt_scramble(acc[1], secret[16 + 2 * pair + 1]);
        }
    }
    shares[0] = shares[1] = 0;
    tt_merge_pair(acc, pair, secret, shares);
#pragma unroll
    for (u32 other = 1; other < 4; other *= 2) {
        shares[0] += __shfl_xor_sync(~0u, shares[0], other);
        shares[1] += __shfl_xor_sync(~0u, shares[1], other);
    }
}

/* Processes a group's part of a bundle, and the chain of its range. */
FN void tt_spread(const tt_side *side, const tt_range *ranges, LOCAL u64 *secret, LOCAL u64 *room, LOCAL u64 *added) {
    u32 bundle = MY_GROUP / SPREAD, part = MY_GROUP % SPREAD;
    tt_range range = ranges[tt_range_of(ranges, side->count, bundle)];
    const u8 *first = (const u8 *)range.address;
    u32 leaves = tt_leaves_of(range.bytes), begin = (bundle - range.first_bundle) * BUNDLE_LEAVES;
    u32 leaf = part * SPREAD_LEAVES + MY_ITEM / SPREAD_LANES;
    u32 pair = MY_ITEM % 4, block = MY_ITEM % SPREAD_LANES / 4, there = begin + leaf < leaves;
    u64 offset = (u64)(begin + leaf) * LEAF_BYTES, left = there ? range.bytes - offset : 0;
    u32 size = left < LEAF_BYTES ? (u32)left : LEAF_BYTES, blocks = size ? (size - 1) / 1024 + 1 : 0;
    u64 sums[2], hash[2];
    if (begin + part * SPREAD_LEAVES >= leaves)
        return;
    tt_load_secret(secret);
    BARRIER();
    sums[0] = sums[1] = 0;
    if (size == LEAF_BYTES && ((tt_address)first & 15) == 0)
        tt_aligned_block(first + offset, block, pair, secret, sums);
    else if (size > 240)
        tt_any_block(first, range.bytes, offset, size, block, pair, secret, sums);
    tt_shares_of_blocks(sums, blocks, pair, secret, hash);
    if (there && MY_ITEM % SPREAD_LANES == 0) {
        u64 shares[2], into[2], *leaf_hash = side->leaf_hashes + 2 * ((u64)bundle * BUNDLE_LEAVES + leaf);
        shares[0] = hash[0];
        shares[1] = hash[1];
        if (size > 240)
            tt_finish_long(shares, size, hash);
        else
            tt_hash_short(first + offset, size, secret, 0, hash);
        leaf_hash[0] = hash[0];
        leaf_hash[1] = hash[1];
        tt_into_root(hash, leaf, range.bytes, secret, into);
        added[2 * (MY_ITEM / SPREAD_LANES)] = into[0];
        added[2 * (MY_ITEM / SPREAD_LANES) + 1] = into[1];
    }
    BARRIER();
    /* A bundle that others follow is a whole block of the root. */
    if (begin + BUNDLE_LEAVES < leaves && MY_ITEM < 8) {
        u64 sum = 0;
        for (u32 stripe = 0; stripe < SPREAD_LEAVES / 4; stripe++)
            sum += added[8 * stripe + MY_ITEM];
        side->sums[((u64)bundle * SPREAD + part) * 8 + MY_ITEM] = sum;
    }
    tt_chain_on(side, &range, bundle, SPREAD, 0, secret, room, 0);
}

#define SPREAD_KERNEL(name, given, side_of, ranges_of)            \
    KERNEL(TT_GROUP, SPREAD_RESIDENT)                             \
    name(const __grid_constant__ given it) {                      \
        LOCAL_ARRAY u64 secret[SECRET_WORDS];                     \
        LOCAL_ARRAY u64 room[8 * SEGMENT + 40];                   \
        LOCAL_ARRAY u64 added[2 * SPREAD_LEAVES];                 \
        tt_begins(side_of);                                       \
        tt_spread(side_of, ranges_of, secret, room, added);       \
        tt_ends(side_of);                                         \
    }

SPREAD_KERNEL(tt_hash_spread, tt_side, &it, it.few)
/* Larger arguments make a launch slower, so launches of few ranges use the kernel above. */
SPREAD_KERNEL(tt_hash_many, tt_many, &it.side, it.ranges)
#endif
