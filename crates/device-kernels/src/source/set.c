/* A set of hashes: which content is not stored yet. */

#define PROBES 64u
#define IS_STORED 0u
#define IS_NEW 1u
#define IS_NEW_UNKEPT 2u
#define IS_UNDECIDED 3u

/*
 * Hashes of stored content are a set in device memory: slots of four words, of which 0 is an empty one (a word of a hash
 * that is 0 is taken for 1). A hash claims the words of a slot one after the other, each by one exchange. Words that are
 * set never change, so a hash that meets another's word leaves for good, and one that gets past a word belongs to those
 * that agree with all of them so far: whoever sets the last word has put the hash there, and is the only one. Nobody
 * waits, so any number of launches may do this at a time.
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
