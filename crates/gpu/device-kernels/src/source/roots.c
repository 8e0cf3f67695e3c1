/* Roots: combine the leaves of a range. */

/* Bundles per step of the chain. */
#define SEGMENT 128u

/* The serial part of a root: one accumulator over whole blocks. Their sums are eight words apart. */
FN u64 tt_chain(u64 acc, LOCAL const u64 *sums, u32 blocks, u64 key) {
    if (blocks == 0)
        return acc;
    acc += sums[0];
#pragma unroll 8
    for (u32 block = 1; block < blocks; block++)
        acc = tt_scramble(acc, key) + sums[8 * block];
    return tt_scramble(acc, key);
}

/* Adds the leaf hashes after the last whole block to the accumulators: up to 16 stripes and the last one.
   `secret` is seeded. */
FN void tt_root_tail(LOCAL u64 *accs, GLOBAL const u64 *hashes, u32 leaves, LOCAL const u64 *secret, LOCAL u64 *room) {
    u32 stripes = (leaves * 16 - 1) / 64, first = (leaves - 1) / BUNDLE_LEAVES * 16;
    for (u32 place = MY_ITEM; place < 8 * (stripes - first + 1); place += TT_GROUP) {
        u32 stripe = first + place / 8, i = place % 8, last = stripe == stripes;
        u64 word = last ? (u64)2 * leaves - 8 : (u64)8 * stripe;
        u64 key = last ? tt_secret_at(secret, SECRET_LAST + 8 * i) : secret[stripe % 16 + i];
        u64 x = FRESH(hashes + word + i) ^ key;
        room[place] = (x & 0xffffffffu) * (x >> 32) + FRESH(hashes + word + (i ^ 1));
    }
    BARRIER();
    for (u32 i = MY_ITEM; i < 8; i += TT_GROUP) {
        for (u32 stripe = first; stripe <= stripes; stripe++)
            accs[i] += room[8 * (stripe - first) + i];
    }
    BARRIER();
}

/* The root of fewer than 16 leaves: the hash of their hashes, or the only leaf's hash. `secret` is not
   seeded. */
FN void tt_small_root(const tt_range *range, GLOBAL const u64 *hashes, u32 leaves, LOCAL const u64 *secret, u64 *hash) {
    hash[0] = hashes[0];
    hash[1] = hashes[1];
    if (leaves > 1)
        tt_hash_short((GLOBAL const u8 *)hashes, leaves * 16, secret, range->bytes, hash);
}

/* Computes the hash from all accumulators. */
FN void tt_large_root(LOCAL const u64 *accs, u32 leaves, LOCAL const u64 *secret, u64 *hash) {
    u64 shares[2];
    shares[0] = shares[1] = 0;
    for (u32 i = 0; i < 4; i++) {
        u64 pair[2];
        pair[0] = accs[2 * i];
        pair[1] = accs[2 * i + 1];
        tt_merge_pair(pair, i, secret, shares);
    }
    tt_finish_long(shares, (u64)leaves * 16, hash);
}

FN void tt_seed_secret(LOCAL u64 *secret, u64 seed) {
    for (u32 i = MY_ITEM; i < SECRET_WORDS; i += TT_GROUP)
        secret[i] += i % 2 ? 0 - seed : seed;
}

/* Adds the bundles from `begin` to `end` of a range to the accumulators, and their parts to the range's part,
   which the first work item has. All bundles are complete; `sums` has room for a segment. Each bundle has the
   sums of `spread` groups. */
FN void tt_segment(const tt_range *range, u32 begin, u32 end, const u32 spread, GLOBAL const u64 *bundle_sums,
                   GLOBAL const tt_part *parts, u32 measured, LOCAL const u64 *secret, LOCAL u64 *sums, LOCAL u64 *accs, LOCAL tt_part *group_parts,
                   tt_part *part) {
    u32 whole = (tt_leaves_of(range->bytes) - 1) / BUNDLE_LEAVES, blocks = (end < whole ? end : whole) - begin;
    for (u32 i = MY_ITEM; i < 8 * blocks; i += TT_GROUP) {
        GLOBAL const u64 *of_groups = bundle_sums + (u64)8 * spread * (range->first_bundle + begin + i / 8) + i % 8;
        u64 sum = 0;
#pragma unroll
        for (u32 group = 0; group < spread; group++)
            sum += FRESH(of_groups + 8 * group);
        sums[i] = sum;
    }
    BARRIER();
    for (u32 i = MY_ITEM; i < 8; i += TT_GROUP)
        accs[i] = tt_chain(accs[i], sums + i, blocks, secret[16 + i]);
    if (measured && range->dtype) {
        tt_part mine;
        tt_part_of_nothing(&mine);
        for (u32 i = begin + MY_ITEM; i < end; i += TT_GROUP) {
            tt_part other = parts[range->first_bundle + i];
            tt_merge(&mine, &other);
        }
        tt_merge_group(group_parts, &mine);
        if (MY_ITEM == 0)
            tt_merge(part, &mine);
    }
    BARRIER();
}

FN void tt_put_hash(GLOBAL tt_result *result, const u64 *hash) {
    result->hash[0] = hash[0];
    result->hash[1] = hash[1];
}

#ifdef TT_CHAINED
/*
 * Roots in the launch of the leaves. A gate counts arrivals at a segment of a range: its bundles, and the
 * chain from the segment before. The last to arrive extends the chain over the segment and arrives at the
 * next gate. So the chain advances while other groups process leaves, one segment remains after the last
 * leaf, and no group waits. Gates are 0 before and after a launch. Between groups, the state of the chain is
 * in the sums of its last bundle, and the statistics are in that bundle's part.
 */
FN u32 tt_arrives_last(GLOBAL u32 *gate, u32 expected, LOCAL u64 *word) {
    /* No other group arrives. */
    if (expected == 1) {
        BARRIER();
        return 1;
    }
    /* This group's writes happen before its arrival, and all groups' writes happen before the last arrival.
       One work item represents the group, between two barriers. */
    BARRIER();
    if (MY_ITEM == 0) {
        ORDERED();
        *word = atomicAdd(gate, 1u) + 1 == expected;
        ORDERED();
        if (*word)
            *gate = 0;
    }
    BARRIER();
    return (u32)*word;
}

/* Counts a finished group. The last one writes the ticket. */
FN void tt_finish(u32 *finished, u32 expected, u64 *done, u64 ticket) {
    if (done == 0)
        return;
    /* Each group's writes happen before its count, on the device. All writes happen before the ticket, for
       the host. */
    ORDERED();
    if (atomicAdd(finished, 1u) + 1 == expected) {
        *finished = 0;
        ORDERED_FOR_HOST();
        *(volatile u64 *)done = ticket;
    }
}

/* Writes the results of a finished range. */
FN void tt_found(const tt_side *side, const tt_range *range, const u64 *hash, const u32 measured, const tt_part *part) {
    tt_result *result = side->results + range->slot;
    tt_put_hash(result, hash);
    if (measured)
        result->part = *part;
    if (side->stored) {
        u32 decision = range->decided ? tt_insert(side->stored, side->mask, hash[0], hash[1]) : IS_UNDECIDED;
        side->decisions[range->slot] = decision;
        side->host_decisions[range->slot] = decision;
    }
    tt_finish(side->finished, side->count, side->done, side->ticket);
}

FN void tt_chain_on(const tt_side *side, const tt_range *range, u32 bundle, const u32 spread, const u32 measured,
                    LOCAL u64 *secret, LOCAL u64 *room, LOCAL tt_part *group_parts) {
    const u64 *leaf_hashes = side->leaf_hashes;
    u64 *sums = side->sums;
    tt_part *parts = side->parts;
    u32 leaves = tt_leaves_of(range->bytes), bundles = (leaves + BUNDLE_LEAVES - 1) / BUNDLE_LEAVES;
    /* Number of groups with leaves. The last groups of a range may have none. */
    u32 groups = (leaves - 1) / (BUNDLE_LEAVES / spread) + 1;
    u32 segment = (bundle - range->first_bundle) / SEGMENT, entered = 0;
    GLOBAL const u64 *hashes = leaf_hashes + (u64)2 * BUNDLE_LEAVES * range->first_bundle;
    GLOBAL u64 *state = sums + (u64)8 * spread * range->first_bundle;
    LOCAL u64 *accs = room + 8 * SEGMENT, *word = accs + 8;
    tt_part part;
    for (;; segment++) {
        u32 begin = segment * SEGMENT, end = begin + SEGMENT < bundles ? begin + SEGMENT : bundles;
        u32 expected = (end == bundles ? groups : end * spread) - begin * spread + (segment > 0);
        if (!tt_arrives_last(side->gates + range->first_bundle + begin, expected, word))
            return;
        if (!entered) {
            entered = 1;
            if (leaves >= 16)
                tt_seed_secret(secret, range->bytes);
            if (MY_ITEM < 8)
                accs[MY_ITEM] = segment == 0 ? tt_first[MY_ITEM] : FRESH(state + (u64)8 * spread * (begin - 1) + MY_ITEM);
            tt_part_of_nothing(&part);
            if (segment > 0 && measured && MY_ITEM == 0)
                part = parts[range->first_bundle + begin - 1];
            BARRIER();
        }
        tt_segment(range, begin, end, spread, sums, parts, measured, secret, room, accs, group_parts, &part);
        if (end == bundles)
            break;
        if (MY_ITEM < 8)
            state[(u64)8 * spread * (end - 1) + MY_ITEM] = accs[MY_ITEM];
        if (measured && MY_ITEM == 0)
            parts[range->first_bundle + end - 1] = part;
    }
    if (leaves >= 16)
        tt_root_tail(accs, hashes, leaves, secret, room);
    if (MY_ITEM == 0) {
        u64 hash[2];
        if (leaves < 16)
            tt_small_root(range, hashes, leaves, secret, hash);
        else
            tt_large_root(accs, leaves, secret, hash);
        tt_found(side, range, hash, measured, &part);
    }
}
#else
/* Roots in a separate launch after the leaves: one group per range. */
KERNEL(TT_GROUP, 1)
tt_roots(GLOBAL const tt_range *ranges, GLOBAL const u64 *leaf_hashes, GLOBAL const u64 *sums,
         GLOBAL const tt_part *parts, GLOBAL tt_result *results, u32 measured) {
    LOCAL_ARRAY u64 secret[SECRET_WORDS];
    LOCAL_ARRAY u64 room[8 * SEGMENT];
    LOCAL_ARRAY u64 accs[8];
    LOCAL_ARRAY tt_part group_parts[TT_GROUP];
    tt_range range = ranges[MY_GROUP];
    GLOBAL const u64 *hashes = leaf_hashes + (u64)2 * BUNDLE_LEAVES * range.first_bundle;
    u32 leaves = tt_leaves_of(range.bytes), bundles = (leaves + BUNDLE_LEAVES - 1) / BUNDLE_LEAVES;
    tt_part part;
    tt_part_of_nothing(&part);
    tt_load_secret(secret);
    BARRIER();
    if (leaves >= 16)
        tt_seed_secret(secret, range.bytes);
    for (u32 i = MY_ITEM; i < 8; i += TT_GROUP)
        accs[i] = tt_first[i];
    BARRIER();
    for (u32 begin = 0; begin < bundles; begin += SEGMENT) {
        u32 end = begin + SEGMENT < bundles ? begin + SEGMENT : bundles;
        tt_segment(&range, begin, end, 1, sums, parts, measured, secret, room, accs, group_parts, &part);
    }
    if (leaves >= 16)
        tt_root_tail(accs, hashes, leaves, secret, room);
    if (MY_ITEM == 0) {
        u64 hash[2];
        if (leaves < 16)
            tt_small_root(&range, hashes, leaves, secret, hash);
        else
            tt_large_root(accs, leaves, secret, hash);
        tt_put_hash(results + range.slot, hash);
        results[range.slot].part = part;
    }
}
#endif
