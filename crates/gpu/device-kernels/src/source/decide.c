/* Decides which ranges have new content. With chained roots, the leaves kernel decides this. */

#ifndef TT_CHAINED
KERNEL(TT_GROUP, 1)
tt_decide(u32 count, GLOBAL const tt_range *ranges, GLOBAL const tt_result *results, GLOBAL u32 *slots, u32 mask,
          GLOBAL u32 *decisions) {
    if (MY_PLACE < count) {
        u32 slot = ranges[MY_PLACE].slot;
        decisions[slot] = tt_insert(slots, mask, results[slot].hash[0], results[slot].hash[1]);
    }
}
#else
/* Bytes copied by one group. */
#define CHUNK_BYTES 65536u

/* Copies content that is new. Source and target are equal modulo 16. */
FN void tt_copy_chunk(const u8 *from, u8 *to, u32 bytes) {
    u32 head = (u32)(-(tt_address)from & 15);
    head = head < bytes ? head : bytes;
    u32 words = (bytes - head) / 16, tail = head + words * 16;
    const tt_words *source = (const tt_words *)(from + head);
    tt_words *target = (tt_words *)(to + head);
    if (MY_ITEM < head)
        to[MY_ITEM] = from[MY_ITEM];
    if (MY_ITEM < bytes - tail)
        to[tail + MY_ITEM] = from[tail + MY_ITEM];
#pragma unroll 8
    for (u32 i = MY_ITEM; i < words; i += TT_GROUP)
        target[i] = source[i];
}

KERNEL(TT_GROUP, 1)
tt_keep(const __grid_constant__ tt_keeping keeping) {
    u32 place = 0;
    while (place + 1 < keeping.count && keeping.few[place + 1].first_chunk <= MY_GROUP)
        place++;
    const tt_kept *kept = keeping.few + place;
    u32 decision = keeping.decisions[kept->slot];
    if (decision == IS_NEW || decision == IS_NEW_UNKEPT) {
        u64 offset = (u64)(MY_GROUP - kept->first_chunk) * CHUNK_BYTES, left = kept->bytes - offset;
        tt_copy_chunk(kept->from + offset, kept->to + offset, left < CHUNK_BYTES ? (u32)left : CHUNK_BYTES);
    }
    BARRIER();
    if (MY_ITEM == 0)
        tt_finish(keeping.finished, keeping.groups, keeping.done, keeping.ticket);
}
#endif
