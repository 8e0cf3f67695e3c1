"""XXH3-64 with a seed, for inputs of more than 16 bytes: every checksum of an index covers more.

Written after the public description of XXH3. Python 3.8 or newer, without dependencies.
"""

MASK = (1 << 64) - 1
P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
    "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
    "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
    "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
    "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
    "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)


def word(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def fold(a, b):
    product = a * b
    return (product & MASK) ^ (product >> 64)


def avalanche(h):
    h ^= h >> 37
    h = h * 0x165667919E3779F9 & MASK
    return h ^ h >> 32


def mix(data, at, secret_at, seed):
    low = word(data, at) ^ (word(SECRET, secret_at) + seed & MASK)
    high = word(data, at + 8) ^ (word(SECRET, secret_at + 8) - seed & MASK)
    return fold(low, high)


def middle(data, seed):
    """17 to 240 bytes."""
    size = len(data)
    acc = size * P64[0]
    if size <= 128:
        for pair in range((size - 1) // 32, -1, -1):
            acc += mix(data, 16 * pair, 32 * pair, seed) + mix(data, size - 16 * (pair + 1), 32 * pair + 16, seed)
        return avalanche(acc & MASK)
    for block in range(8):
        acc += mix(data, 16 * block, 16 * block, seed)
    acc = avalanche(acc & MASK)
    for block in range(8, size // 16):
        acc += mix(data, 16 * block, 16 * (block - 8) + 3, seed)
    return avalanche(acc + mix(data, size - 16, 136 - 17, seed) & MASK)


def long(data, seed):
    """More than 240 bytes."""
    size = len(data)
    secret = b"".join(
        (word(SECRET, at) + seed & MASK).to_bytes(8, "little") + (word(SECRET, at + 8) - seed & MASK).to_bytes(8, "little")
        for at in range(0, 192, 16)
    )
    acc = [P32[2], P64[0], P64[1], P64[2], P64[3], P32[1], P64[4], P32[0]]

    def accumulate(at, secret_at):
        for lane in range(8):
            value = word(data, at + 8 * lane)
            key = value ^ word(secret, secret_at + 8 * lane)
            acc[lane ^ 1] = acc[lane ^ 1] + value & MASK
            acc[lane] = acc[lane] + (key & 0xFFFFFFFF) * (key >> 32) & MASK

    for stripe in range((size - 1) // 64):
        accumulate(64 * stripe, 8 * (stripe % 16))
        if stripe % 16 == 15:
            for lane in range(8):
                acc[lane] = (acc[lane] ^ acc[lane] >> 47 ^ word(secret, 128 + 8 * lane)) * P32[0] & MASK
    accumulate(size - 64, 192 - 64 - 7)
    result = size * P64[0]
    for pair in range(4):
        result += fold(acc[2 * pair] ^ word(secret, 11 + 16 * pair), acc[2 * pair + 1] ^ word(secret, 19 + 16 * pair))
    return avalanche(result & MASK)


def xxh3_64(data, seed=0):
    assert len(data) > 16, "shorter inputs are not needed here"
    return middle(data, seed) if len(data) <= 240 else long(data, seed)
