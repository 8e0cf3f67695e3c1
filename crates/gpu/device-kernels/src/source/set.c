/* A set of hashes of stored content. */

#define PROBES 64u
#define IS_STORED 0u
#define IS_NEW 1u
#define IS_NEW_UNKEPT 2u
#define IS_UNDECIDED 3u

/*
 * The set is in device memory: slots of four words. A slot of zeros is empty; a hash word of 0 is stored as
 * 1. A hash claims the words of a slot one by one with compare-and-swap. Words that are set never change. So
 * a hash that finds a different word leaves the slot, and a hash that passes a word shares the slot only with
 * hashes that agree so far. Exactly one work item sets the last word, and its content is new. No work item
 * waits, so any number of launches may insert at once.
 */
FN u32 tt_insert(volatile GLOBAL u32 *slots, u32 mask, u64 low, u64 high) {
    u32 words[4];
    words[0] = (u32)low;
    words[1] = (u32)(low >> 32);
    words[2] = (u32)high;
    words[3] = (u32)(high >> 32);
    for (u32 i = 0; i < 4; i++)
        words[i] = words[i] == 0 ? 1 : words[i];
#pragma unroll 1
    for (u32 probe = 0; probe < PROBES; probe++) {
        volatile GLOBAL u32 *slot = slots + (u64)4 * ((words[0] + probe) & mask);
        u32 before = 0, place = 0;
        for (; place < 4; place++) {
            before = SWAP_IF_EQUAL((GLOBAL u32 *)slot + place, 0u, words[place]);
            if (before != 0 && before != words[place])
                break;
        }
        if (place == 4)
            return before == 0 ? IS_NEW : IS_STORED;
    }
    return IS_NEW_UNKEPT;
}
