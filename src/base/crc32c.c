#include "base/crc32c.h"

#include <string.h>

#include "base/crc32c_fold.h"
#include "base/digest.h"

/* CRC32C, reflected polynomial 0x82f63b78. The processor's instruction takes
 * eight bytes in one cycle but answers three cycles later, so three stretches
 * are summed side by side and joined: appending n zero bytes to what a sum has
 * seen is linear in the sum, hence a table. What is long is folded, where that can be
 * done (base/crc32c_fold). */
enum { STRETCH_BITS = 10, STRETCH_SIZE = 1 << STRETCH_BITS };
enum { FOLD_SIZE_MIN = 1024 };
static const uint32_t POLYNOMIAL = 0x82f63b78;

static uint32_t step_table[8][256]; /* (bytes still to follow, byte) */
static uint32_t shift_table[4][256]; /* STRETCH_SIZE zeros: (byte of sum, its
                                        value) */

static void fill_step_table(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        }
        step_table[0][byte] = crc;
    }
    for (int row = 1; row < 8; row++) {
        for (int byte = 0; byte < 256; byte++) {
            uint32_t crc = step_table[row - 1][byte];
            step_table[row][byte] = crc >> 8 ^ step_table[0][crc & 255];
        }
    }
}

/* What `columns`, the images of the 32 single bits, make of `value`. */
static uint32_t apply(const uint32_t columns[32], uint32_t value)
{
    uint32_t result = 0;
    for (int bit = 0; bit < 32; bit++) {
        result ^= (value >> bit & 1) != 0 ? columns[bit] : 0;
    }
    return result;
}

static void fill_shift_table(void)
{
    uint32_t columns[32];
    for (int bit = 0; bit < 32; bit++) {
        uint32_t crc = 1u << bit;
        columns[bit] = crc >> 8 ^ step_table[0][crc & 255];
    }
    for (int doubling = 0; doubling < STRETCH_BITS; doubling++) {
        uint32_t twice[32];
        for (int bit = 0; bit < 32; bit++) {
            twice[bit] = apply(columns, columns[bit]);
        }
        memcpy(columns, twice, sizeof(columns));
    }
    for (int part = 0; part < 4; part++) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            shift_table[part][byte] = apply(columns, byte << (8 * part));
        }
    }
}

static uint64_t load(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof(value));
    return value;
}

/* Little-endian hosts only, like the rest of the wire and file code. */
static uint32_t sum_by_table(uint32_t crc, const uint8_t *at, size_t size)
{
    for (; size >= 8; size -= 8, at += 8) {
        uint64_t v = load(at) ^ crc;
        crc = step_table[7][v & 255] ^ step_table[6][v >> 8 & 255] ^
              step_table[5][v >> 16 & 255] ^ step_table[4][v >> 24 & 255] ^
              step_table[3][v >> 32 & 255] ^ step_table[2][v >> 40 & 255] ^
              step_table[1][v >> 48 & 255] ^ step_table[0][v >> 56];
    }
    for (; size > 0; size--, at++) {
        crc = crc >> 8 ^ step_table[0][(crc ^ *at) & 255];
    }
    return crc;
}

#if defined(__x86_64__)

static uint32_t shift(uint32_t crc)
{
    return shift_table[0][crc & 255] ^ shift_table[1][crc >> 8 & 255] ^
           shift_table[2][crc >> 16 & 255] ^ shift_table[3][crc >> 24];
}

__attribute__((target("sse4.2"))) static uint32_t sum_three_stretches(
    uint32_t crc, const uint8_t *at)
{
    uint64_t a = crc;
    uint64_t b = 0;
    uint64_t c = 0;
    for (size_t i = 0; i < STRETCH_SIZE; i += 8) {
        /* Three short runs side by side: the processor sees no run at all. */
        __builtin_prefetch(at + 3 * STRETCH_SIZE + 3 * i);
        a = __builtin_ia32_crc32di(a, load(at + i));
        b = __builtin_ia32_crc32di(b, load(at + STRETCH_SIZE + i));
        c = __builtin_ia32_crc32di(c, load(at + 2 * STRETCH_SIZE + i));
    }
    return shift(shift((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
}

__attribute__((target("sse4.2"))) static uint32_t sum_by_instruction(
    uint32_t crc, const uint8_t *at, size_t size)
{
    for (; size >= 3 * STRETCH_SIZE;
         size -= 3 * STRETCH_SIZE, at += 3 * STRETCH_SIZE) {
        crc = sum_three_stretches(crc, at);
    }
    uint64_t wide = crc;
    for (; size >= 8; size -= 8, at += 8) {
        wide = __builtin_ia32_crc32di(wide, load(at));
    }
    crc = (uint32_t)wide;
    for (; size > 0; size--, at++) {
        crc = __builtin_ia32_crc32qi(crc, *at);
    }
    return crc;
}

static bool can_instruction(void)
{
    __builtin_cpu_init(); /* we are asked before main */
    return __builtin_cpu_supports("sse4.2");
}

static uint32_t sum_by_folding(uint32_t crc, const uint8_t *at, size_t size)
{
    if (size >= FOLD_SIZE_MIN) {
        size_t folded = size - size % CRC32C_FOLD_SIZE;
        crc = crc32c_fold(crc, at, folded);
        at += folded;
        size -= folded;
    }
    return sum_by_instruction(crc, at, size);
}

#endif

static bool can_always(void)
{
    return true;
}

const struct crc32c_body crc32c_bodies[CRC32C_BODY_COUNT] = {
#if defined(__x86_64__)
    {"fold", crc32c_can_fold, sum_by_folding},
    {"instruction", can_instruction, sum_by_instruction},
#endif
    {"table", can_always, sum_by_table},
};

static uint32_t (*sum)(uint32_t crc, const uint8_t *at, size_t size);

/* Before main, so that no thread has to ask. */
__attribute__((constructor)) static void set_up(void)
{
    fill_step_table();
    fill_shift_table();
    int body = 0;
    while (!crc32c_bodies[body].can()) {
        body++;
    }
    sum = crc32c_bodies[body].sum;
}

uint32_t digest_crc32c(uint32_t crc, struct span data)
{
    return ~sum(~crc, data.data, data.size);
}
