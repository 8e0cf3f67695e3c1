// The kernels of tensortap, implemented a second time from their specification. They compute the tree hash of
// XXH3-128 over leaves of 4,096 bytes and statistics of bytes. They decide which content is new, and copy it.
#pragma once
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct {
  uint64_t low, high;
} hash128;

static const uint64_t P32_1 = 0x9E3779B1, P32_2 = 0x85EBCA77, P32_3 = 0xC2B2AE3D;
static const uint64_t P64_1 = 0x9E3779B185EBCA87, P64_2 = 0xC2B2AE3D27D4EB4F, P64_3 = 0x165667B19E3779F9;
static const uint64_t P64_4 = 0x85EBCA77C2B2AE63, P64_5 = 0x27D4EB2F165667C5;
static const uint64_t default_secret[24] = {
    0xbe4ba423396cfeb8, 0x1cad21f72c81017c, 0xdb979083e96dd4de, 0x1f67b3b7a4a44072, 0x78e5c0cc4ee679cb, 0x2172ffcc7dd05a82,
    0x8e2443f7744608b8, 0x4c263a81e69035e0, 0xcb00c391bb52283c, 0xa32e531b8b65d088, 0x4ef90da297486471, 0xd8acdea946ef1938,
    0x3f349ce33f76faa8, 0x1d4f0bc7c7bbdcf9, 0x3159b4cd4be0518a, 0x647378d9c97e9fc8, 0xc3ebd33483acc5ea, 0xeb6313faffa081c5,
    0x49daf0b751dd0d17, 0x9e68d429265516d3, 0xfca1477d58be162b, 0xce31d07ad1b8f88f, 0x280416958f3acb45, 0x7e404bbbcafbd7af};

static uint64_t word(const void *at) {
  uint64_t value;
  memcpy(&value, at, 8);
  return value;
}
static uint32_t half(const void *at) {
  uint32_t value;
  memcpy(&value, at, 4);
  return value;
}
static hash128 product(uint64_t a, uint64_t b) {
  unsigned __int128 all = (unsigned __int128)a * b;
  return (hash128){(uint64_t)all, (uint64_t)(all >> 64)};
}
static uint64_t folded(uint64_t a, uint64_t b) {
  hash128 all = product(a, b);
  return all.low ^ all.high;
}
static uint64_t stirred(uint64_t h) {
  h = (h ^ h >> 37) * 0x165667919E3779F9;
  return h ^ h >> 32;
}
static uint64_t stirred_more(uint64_t h) {
  h = (h ^ h >> 33) * P64_2;
  h = (h ^ h >> 29) * P64_3;
  return h ^ h >> 32;
}

static hash128 hash_16(const uint8_t *in, uint64_t size, const uint8_t *secret) {
  if (size > 8) {
    uint64_t low = word(in), high = word(in + size - 8);
    hash128 m = product(low ^ high ^ word(secret + 32) ^ word(secret + 40), P64_1);
    m.low += (size - 1) << 54;
    high ^= word(secret + 48) ^ word(secret + 56);
    m.high += high + (high & 0xffffffff) * (P32_2 - 1);
    m.low ^= __builtin_bswap64(m.high);
    hash128 h = product(m.low, P64_2);
    return (hash128){stirred(h.low), stirred(h.high + m.high * P64_2)};
  }
  if (size > 3) {
    uint64_t both = half(in) + ((uint64_t)half(in + size - 4) << 32);
    hash128 m = product(both ^ word(secret + 16) ^ word(secret + 24), P64_1 + (size << 2));
    m.high += m.low << 1;
    m.low ^= m.high >> 3;
    m.low = (m.low ^ m.low >> 35) * 0x9FB21C651E98DF25;
    return (hash128){m.low ^ m.low >> 28, stirred(m.high)};
  }
  if (size == 0) return (hash128){stirred_more(word(secret + 64) ^ word(secret + 72)), stirred_more(word(secret + 80) ^ word(secret + 88))};
  uint32_t low = (uint32_t)in[0] << 16 | (uint32_t)in[size >> 1] << 24 | in[size - 1] | (uint32_t)size << 8;
  uint32_t turned = __builtin_bswap32(low), high = turned << 13 | turned >> 19;
  return (hash128){stirred_more(low ^ (uint64_t)(half(secret) ^ half(secret + 4))), stirred_more(high ^ (uint64_t)(half(secret + 8) ^ half(secret + 12)))};
}

static uint64_t mixed(const uint8_t *in, const uint8_t *secret, uint64_t seed) {
  return folded(word(in) ^ (word(secret) + seed), word(in + 8) ^ (word(secret + 8) - seed));
}
static void mix_32(hash128 *acc, const uint8_t *one, const uint8_t *other, const uint8_t *secret, uint64_t seed) {
  acc->low = (acc->low + mixed(one, secret, seed)) ^ (word(other) + word(other + 8));
  acc->high = (acc->high + mixed(other, secret + 16, seed)) ^ (word(one) + word(one + 8));
}
static hash128 hash_240(const uint8_t *in, uint64_t size, const uint8_t *secret, uint64_t seed) {
  hash128 acc = {size * P64_1, 0};
  if (size <= 128) {
    for (int at = (int)((size - 1) / 32); at >= 0; at--) mix_32(&acc, in + 16 * at, in + size - 16 * (at + 1), secret + 32 * at, seed);
  } else {
    for (int at = 0; at < 4; at++) mix_32(&acc, in + 32 * at, in + 32 * at + 16, secret + 32 * at, seed);
    acc = (hash128){stirred(acc.low), stirred(acc.high)};
    for (uint64_t at = 4; at < size / 32; at++) mix_32(&acc, in + 32 * at, in + 32 * at + 16, secret + 3 + 32 * (at - 4), seed);
    mix_32(&acc, in + size - 16, in + size - 32, secret + 103, 0 - seed);
  }
  uint64_t high = acc.low * P64_1 + acc.high * P64_4 + (size - seed) * P64_2;
  return (hash128){stirred(acc.low + acc.high), 0 - stirred(high)};
}

static void add_stripe(uint64_t *acc, const uint8_t *in, const uint8_t *secret) {
  for (int at = 0; at < 8; at++) {
    uint64_t value = word(in + 8 * at), keyed = value ^ word(secret + 8 * at);
    acc[at ^ 1] += value;
    acc[at] += (keyed & 0xffffffff) * (keyed >> 32);
  }
}
static uint64_t merged(const uint64_t *acc, const uint8_t *secret, uint64_t start) {
  for (int at = 0; at < 4; at++) start += folded(acc[2 * at] ^ word(secret + 16 * at), acc[2 * at + 1] ^ word(secret + 16 * at + 8));
  return stirred(start);
}
static hash128 hash_long(const uint8_t *in, uint64_t size, uint64_t seed) {
  uint64_t words[24], acc[8] = {P32_3, P64_1, P64_2, P64_3, P64_4, P32_2, P64_5, P32_1};
  for (int at = 0; at < 24; at++) words[at] = default_secret[at] + (at % 2 ? 0 - seed : seed);
  const uint8_t *secret = (const uint8_t *)words;
  for (uint64_t stripe = 0; stripe < (size - 1) / 64; stripe++) {
    add_stripe(acc, in + 64 * stripe, secret + 8 * (stripe % 16));
    if (stripe % 16 == 15)
      for (int at = 0; at < 8; at++) acc[at] = (acc[at] ^ acc[at] >> 47 ^ word(secret + 128 + 8 * at)) * P32_1;
  }
  add_stripe(acc, in + size - 64, secret + 121);
  return (hash128){merged(acc, secret + 11, size * P64_1), merged(acc, secret + 117, ~(size * P64_2))};
}
static hash128 xxh3(const uint8_t *in, uint64_t size, uint64_t seed) {
  const uint8_t *secret = (const uint8_t *)default_secret;
  if (size <= 16) return hash_16(in, size, secret);
  return size <= 240 ? hash_240(in, size, secret, seed) : hash_long(in, size, seed);
}
static hash128 content_hash(const uint8_t *in, uint64_t size) {
  if (size <= 4096) return xxh3(in, size, 0);
  uint64_t leaves = (size + 4095) / 4096;
  hash128 *hashes = malloc(leaves * sizeof *hashes);
  for (uint64_t at = 0; at < leaves; at++) hashes[at] = xxh3(in + 4096 * at, at + 1 < leaves ? 4096 : size - 4096 * at, 0);
  hash128 root = xxh3((const uint8_t *)hashes, leaves * 16, size);
  free(hashes);
  return root;
}

// ---------------------------------------------------------------- what a launch is given

enum { OUR_BESIDE = 1, OUR_LETS_NEXT = 2 };
enum { OUR_FEW = 16, OUR_MANY = 80, OUR_UINT8 = 16, OUR_CHUNK = 65536, STORED = 0, NEW = 1, NEW_UNKEPT = 2, UNDECIDED = 3 };
struct our_range {
  uint64_t address, bytes;
  uint32_t buffer, first_bundle, dtype, missing, slot, decided;
};
struct our_result {
  hash128 hash;
  int64_t min, max;
  double mean, squares;
  uint64_t zeros, nan, inf, finite;
};
struct our_side {
  const struct our_range *table;
  void *leaf_hashes, *sums, *parts, *gates;
  uint32_t *finished;
  struct our_result *results;
  uint32_t *decisions, *reported;
  uint32_t (*stored)[4];
  uint64_t *done, ticket;
  uint32_t count, mask, order, reserved;
  struct our_range few[OUR_FEW];
};
struct our_many {
  struct our_side side;
  struct our_range ranges[OUR_MANY];
};
struct our_kept {
  const uint8_t *from;
  uint8_t *to;
  uint64_t bytes;
  uint32_t first_chunk, slot;
};
struct our_keeping {
  const uint32_t *decisions;
  uint32_t *finished;
  uint64_t *done, ticket;
  uint32_t count, groups;
  struct our_kept few[OUR_FEW];
};
_Static_assert(sizeof(struct our_side) == 752 && sizeof(struct our_many) == 3952 && sizeof(struct our_keeping) == 552, "as the library lays them out");

static void measure(const uint8_t *in, uint64_t size, struct our_result *result) {
  double sum = 0, squares = 0;
  for (uint64_t at = 0; at < size; at++) {
    if (in[at] < result->min) result->min = in[at];
    if (in[at] > result->max) result->max = in[at];
    result->zeros += in[at] == 0;
    sum += in[at];
  }
  result->finite = size;
  if (!size) return;
  result->mean = sum / (double)size;
  for (uint64_t at = 0; at < size; at++) squares += (in[at] - result->mean) * (in[at] - result->mean);
  result->squares = squares;
}

static uint32_t decide(uint32_t (*slots)[4], uint32_t mask, const hash128 *hash) {
  static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
  uint32_t words[4], empty[4] = {0}, decision = NEW_UNKEPT;
  memcpy(words, hash, 16);
  for (int at = 0; at < 4; at++) words[at] += words[at] == 0;
  pthread_mutex_lock(&one);
  for (uint32_t probe = 0; probe < 64 && decision == NEW_UNKEPT; probe++) {
    uint32_t *slot = slots[(words[0] + probe) & mask];
    if (!memcmp(slot, words, 16)) decision = STORED;
    else if (!memcmp(slot, empty, 16)) memcpy(slot, words, 16), decision = NEW;
  }
  pthread_mutex_unlock(&one);
  return decision;
}

// Tickets of launches that are complete.
enum { MOST_TICKETS = 1 << 16 };
static unsigned char is_done[MOST_TICKETS];

static void say_done(uint64_t *done, uint64_t ticket) {
  if (!done) return;
  __atomic_store_n(&is_done[ticket % MOST_TICKETS], 1, __ATOMIC_RELEASE);
  __atomic_store_n(done, ticket, __ATOMIC_RELEASE);
}

static void run_side(const struct our_side *side, const struct our_range *ranges, uint32_t most, int is_measured) {
  if (side->count > most) fail("a launch has too many ranges");
  for (uint32_t at = 0; at < side->count; at++) {
    const struct our_range *range = &ranges[at];
    const uint8_t *content = (const uint8_t *)range->address;
    struct our_result result = {content_hash(content, range->bytes), INT64_MAX, INT64_MIN, NAN, NAN, 0, 0, 0, 0};
    if (is_measured && range->dtype == OUR_UINT8) measure(content, range->bytes, &result);
    else if (is_measured && range->dtype) fail("statistics of this type are not known here");
    side->results[range->slot] = result;
    if (getenv("FAKE_FINDS_SLOWLY")) usleep(20000);
    if (side->stored) {
      uint32_t decision = range->decided ? decide(side->stored, side->mask, &result.hash) : UNDECIDED;
      side->decisions[range->slot] = side->reported[range->slot] = decision;
    }
  }
  say_done(side->done, side->ticket);
}
static void run_few(const struct our_side *side, int is_measured) { run_side(side, side->few, OUR_FEW, is_measured); }
static void run_hash(const void *side) { run_few(side, 0); }
static void run_measure(const void *side) { run_few(side, 1); }
static void run_many(const void *given) {
  const struct our_many *many = given;
  run_side(&many->side, many->ranges, OUR_MANY, 0);
}

static void run_keep(const void *given) {
  const struct our_keeping *keeping = given;
  uint32_t chunks = 0;
  for (uint32_t at = 0; at < keeping->count; at++) {
    const struct our_kept *kept = &keeping->few[at];
    if (kept->first_chunk != chunks || (uintptr_t)kept->from % 16 != (uintptr_t)kept->to % 16) fail("a copy has a wrong layout");
    chunks += (uint32_t)((kept->bytes + OUR_CHUNK - 1) / OUR_CHUNK);
    uint32_t decision = keeping->decisions[kept->slot];
    if (decision == NEW || decision == NEW_UNKEPT) memcpy(kept->to, kept->from, kept->bytes);
  }
  if (chunks != keeping->groups) fail("a copy has more or fewer groups than chunks");
  say_done(keeping->done, keeping->ticket);
}
