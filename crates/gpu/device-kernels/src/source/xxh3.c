/* XXH3-128, as far as leaves and roots need it. */

#define PRIME32_1 0x9E3779B1u
#define PRIME32_2 0x85EBCA77u
#define PRIME32_3 0xC2B2AE3Du
#define PRIME64_1 0x9E3779B185EBCA87ul
#define PRIME64_2 0xC2B2AE3D27D4EB4Ful
#define PRIME64_3 0x165667B19E3779F9ul
#define PRIME64_4 0x85EBCA77C2B2AE63ul
#define PRIME64_5 0x27D4EB2F165667C5ul

#define SECRET_WORDS 24
/* Byte offsets in the secret: for the last stripe, and for the merges into the low and the high half. */
#define SECRET_LAST 121
#define SECRET_LOW 11
#define SECRET_HIGH 117

CONSTANT u64 tt_secret[SECRET_WORDS] = {
    0xbe4ba423396cfeb8ul, 0x1cad21f72c81017cul, 0xdb979083e96dd4deul, 0x1f67b3b7a4a44072ul,
    0x78e5c0cc4ee679cbul, 0x2172ffcc7dd05a82ul, 0x8e2443f7744608b8ul, 0x4c263a81e69035e0ul,
    0xcb00c391bb52283cul, 0xa32e531b8b65d088ul, 0x4ef90da297486471ul, 0xd8acdea946ef1938ul,
    0x3f349ce33f76faa8ul, 0x1d4f0bc7c7bbdcf9ul, 0x3159b4cd4be0518aul, 0x647378d9c97e9fc8ul,
    0xc3ebd33483acc5eaul, 0xeb6313faffa081c5ul, 0x49daf0b751dd0d17ul, 0x9e68d429265516d3ul,
    0xfca1477d58be162bul, 0xce31d07ad1b8f88ful, 0x280416958f3acb45ul, 0x7e404bbbcafbd7aful};

/* Initial values of the accumulators. */
CONSTANT u64 tt_first[8] = {PRIME32_3, PRIME64_1, PRIME64_2, PRIME64_3, PRIME64_4, PRIME32_2, PRIME64_5, PRIME32_1};

FN u64 tt_rotated_in(u64 low, u64 high, u32 shift) {
    /* Shift twice, because a shift of 0 must drop all bits of `high`. */
    return low >> shift | (high << (63 - shift)) << 1;
}

/* Eight bytes of the secret from any byte offset. */
FN u64 tt_secret_at(LOCAL const u64 *secret, u32 byte) {
    u32 word = byte / 8, shift = byte % 8 * 8;
    return tt_rotated_in(secret[word], shift ? secret[word + 1] : 0, shift);
}

FN u64 tt_fold(u64 a, u64 b) {
    return (a * b) ^ MUL_HIGH(a, b);
}

FN u64 tt_avalanche(u64 h) {
    h ^= h >> 37;
    h *= 0x165667919E3779F9ul;
    return h ^ h >> 32;
}

FN u64 tt_avalanche64(u64 h) {
    h ^= h >> 33;
    h *= PRIME64_2;
    h ^= h >> 29;
    h *= PRIME64_3;
    return h ^ h >> 32;
}

FN u32 tt_swap32(u32 x) {
    return x << 24 | (x & 0xff00u) << 8 | (x >> 8 & 0xff00u) | x >> 24;
}

FN u64 tt_swap64(u64 x) {
    return (u64)tt_swap32((u32)x) << 32 | tt_swap32((u32)(x >> 32));
}

/* Loads at most 8 bytes from any address. */
FN u64 tt_bytes_at(GLOBAL const u8 *at, u32 count) {
    u64 word = 0;
    for (u32 i = 0; i < count; i++)
        word |= (u64)at[i] << 8 * i;
    return word;
}

FN u64 tt_word_at(GLOBAL const u8 *at) {
    return ((tt_address)at & 7) == 0 ? *(GLOBAL const u64 *)at : tt_bytes_at(at, 8);
}

/* Adds 16 bytes of a stripe to their pair of accumulators. */
FN void tt_accumulate(u64 *pair, u64 d0, u64 d1, u64 k0, u64 k1) {
    u64 x0 = d0 ^ k0, x1 = d1 ^ k1;
    pair[0] += (x0 & 0xffffffffu) * (x0 >> 32) + d1;
    pair[1] += (x1 & 0xffffffffu) * (x1 >> 32) + d0;
}

FN u64 tt_scramble(u64 acc, u64 key) {
    return (acc ^ acc >> 47 ^ key) * PRIME32_1;
}

/* Hashes up to 16 bytes with seed 0. */
FN void tt_hash_tiny(GLOBAL const u8 *at, u32 bytes, LOCAL const u64 *secret, u64 *hash) {
    if (bytes > 8) {
        u64 low = tt_word_at(at), high = tt_word_at(at + bytes - 8);
        u64 key = low ^ high ^ secret[4] ^ secret[5];
        u64 m0 = key * PRIME64_1 + ((u64)(bytes - 1) << 54), m1 = MUL_HIGH(key, PRIME64_1);
        high ^= secret[6] ^ secret[7];
        m1 += high + (high & 0xffffffffu) * (PRIME32_2 - 1);
        m0 ^= tt_swap64(m1);
        hash[0] = tt_avalanche(m0 * PRIME64_2);
        hash[1] = tt_avalanche(MUL_HIGH(m0, PRIME64_2) + m1 * PRIME64_2);
    } else if (bytes >= 4) {
        u64 both = tt_bytes_at(at, 4) | tt_bytes_at(at + bytes - 4, 4) << 32;
        u64 key = both ^ secret[2] ^ secret[3], factor = PRIME64_1 + ((u64)bytes << 2);
        u64 m0 = key * factor, m1 = MUL_HIGH(key, factor);
        m1 += m0 << 1;
        m0 ^= m1 >> 3;
        m0 = (m0 ^ m0 >> 35) * 0x9FB21C651E98DF25ul;
        hash[0] = m0 ^ m0 >> 28;
        hash[1] = tt_avalanche(m1);
    } else if (bytes > 0) {
        u32 low = (u32)at[0] << 16 | (u32)at[bytes >> 1] << 24 | at[bytes - 1] | bytes << 8;
        u32 swapped = tt_swap32(low), high = swapped << 13 | swapped >> 19;
        hash[0] = tt_avalanche64(low ^ ((secret[0] & 0xffffffffu) ^ secret[0] >> 32));
        hash[1] = tt_avalanche64(high ^ ((secret[1] & 0xffffffffu) ^ secret[1] >> 32));
    } else {
        hash[0] = tt_avalanche64(secret[8] ^ secret[9]);
        hash[1] = tt_avalanche64(secret[10] ^ secret[11]);
    }
}

FN void tt_mix(u64 *sums, GLOBAL const u8 *first, GLOBAL const u8 *second, LOCAL const u64 *secret, u32 byte,
               u64 seed) {
    u64 a = tt_word_at(first), b = tt_word_at(first + 8), c = tt_word_at(second), d = tt_word_at(second + 8);
    sums[0] += tt_fold(a ^ (tt_secret_at(secret, byte) + seed), b ^ (tt_secret_at(secret, byte + 8) - seed));
    sums[0] ^= c + d;
    sums[1] += tt_fold(c ^ (tt_secret_at(secret, byte + 16) + seed), d ^ (tt_secret_at(secret, byte + 24) - seed));
    sums[1] ^= a + b;
}

/* Hashes up to 240 bytes. `secret` is not seeded; a nonzero seed requires more than 16 bytes. */
FN void tt_hash_short(GLOBAL const u8 *at, u32 bytes, LOCAL const u64 *secret, u64 seed, u64 *hash) {
    u64 sums[2];
    sums[0] = bytes * PRIME64_1;
    sums[1] = 0;
    if (bytes <= 16) {
        tt_hash_tiny(at, bytes, secret, hash);
        return;
    }
    if (bytes <= 128) {
        for (u32 i = (bytes - 1) / 32 + 1; i-- > 0;)
            tt_mix(sums, at + 16 * i, at + bytes - 16 * (i + 1), secret, 32 * i, seed);
    } else {
        for (u32 i = 0; i < 4; i++)
            tt_mix(sums, at + 32 * i, at + 32 * i + 16, secret, 32 * i, seed);
        sums[0] = tt_avalanche(sums[0]);
        sums[1] = tt_avalanche(sums[1]);
        for (u32 i = 4; i < bytes / 32; i++)
            tt_mix(sums, at + 32 * i, at + 32 * i + 16, secret, 3 + 32 * (i - 4), seed);
        tt_mix(sums, at + bytes - 16, at + bytes - 32, secret, 103, 0 - seed);
    }
    hash[0] = tt_avalanche(sums[0] + sums[1]);
    hash[1] = 0 - tt_avalanche(sums[0] * PRIME64_1 + sums[1] * PRIME64_4 + (bytes - seed) * PRIME64_2);
}

/* Merges a pair of accumulators into both halves of a long hash. */
FN void tt_merge_pair(const u64 *pair, u32 place, LOCAL const u64 *secret, u64 *shares) {
    shares[0] += tt_fold(pair[0] ^ tt_secret_at(secret, SECRET_LOW + 16 * place),
                         pair[1] ^ tt_secret_at(secret, SECRET_LOW + 16 * place + 8));
    shares[1] += tt_fold(pair[0] ^ tt_secret_at(secret, SECRET_HIGH + 16 * place),
                         pair[1] ^ tt_secret_at(secret, SECRET_HIGH + 16 * place + 8));
}

/* Computes a long hash from the shares of all pairs. */
FN void tt_finish_long(const u64 *shares, u64 bytes, u64 *hash) {
    hash[0] = tt_avalanche(shares[0] + bytes * PRIME64_1);
    hash[1] = tt_avalanche(shares[1] + ~(bytes * PRIME64_2));
}

FN void tt_load_secret(LOCAL u64 *secret) {
    for (u32 i = MY_ITEM; i < SECRET_WORDS; i += TT_GROUP)
        secret[i] = tt_secret[i];
}
