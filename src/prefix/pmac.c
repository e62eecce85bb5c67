#include "prefix/pmac.h"

#include <string.h>

#include "base/check.h"
#include "base/digest.h"
#include "prefix/pmac_aesni.h"

enum { BLOCK = PREFIX_PMAC_BLOCK };

static void xor_block(uint8_t *into, const uint8_t *block)
{
    uint64_t a[2];
    uint64_t b[2];
    memcpy(a, into, BLOCK);
    memcpy(b, block, BLOCK);
    a[0] ^= b[0];
    a[1] ^= b[1];
    memcpy(into, a, BLOCK);
}

/* Times x in GF(2^128): bytes are big-endian, x^128 = x^7 + x^2 + x + 1. */
static void multiply_by_x(const uint8_t *from, uint8_t *to)
{
    uint8_t carry = from[0] >> 7;
    for (int i = 0; i < BLOCK - 1; i++) {
        to[i] = (uint8_t)(from[i] << 1 | from[i + 1] >> 7);
    }
    to[BLOCK - 1] = (uint8_t)(from[BLOCK - 1] << 1 ^ (carry != 0 ? 0x87 : 0));
}

/* An odd value is x times (value ^ 0x87 ^ x^128) / x. */
static void divide_by_x(const uint8_t *from, uint8_t *to)
{
    bool is_odd = (from[BLOCK - 1] & 1) != 0;
    for (int i = BLOCK - 1; i > 0; i--) {
        to[i] = (uint8_t)(from[i] >> 1 | from[i - 1] << 7);
    }
    to[0] = from[0] >> 1;
    to[0] ^= is_odd ? 0x80 : 0;
    to[BLOCK - 1] ^= is_odd ? 0x43 : 0;
}

/* Offset of block `index` (from 1 on), given the one before it. */
static void step_offset(const struct prefix_pmac *pmac, size_t index,
                        uint8_t *offset)
{
    xor_block(offset, pmac->powers[__builtin_ctzll(index)]);
}

void prefix_pmac_init_with(struct prefix_pmac *pmac,
                           const struct prefix_pmac_body *body,
                           const uint8_t key[PREFIX_PMAC_BLOCK])
{
    *pmac = (struct prefix_pmac){.body = body};
    memcpy(pmac->key, key, BLOCK);
    body->expand(pmac);
    body->encrypt(pmac, pmac->powers[0], 1);
    divide_by_x(pmac->powers[0], pmac->last_full);
    for (int i = 1; i < PREFIX_PMAC_LOG_MAX; i++) {
        multiply_by_x(pmac->powers[i - 1], pmac->powers[i]);
    }
    uint8_t offset[BLOCK] = {0};
    for (size_t i = 1; i <= 7; i++) {
        step_offset(pmac, i, offset);
        memcpy(pmac->offsets[i - 1], offset, BLOCK);
    }
}

/* Adds to `sum` what the blocks of one message that are not its last give. */
static void add_blocks(const struct prefix_pmac *pmac, const uint8_t *data,
                       size_t block_count, uint8_t *sum)
{
    uint8_t blocks[PREFIX_PMAC_SIZE_MAX];
    uint8_t offset[BLOCK] = {0};
    for (size_t i = 0; i < block_count; i++) {
        step_offset(pmac, i + 1, offset);
        memcpy(blocks + i * BLOCK, data + i * BLOCK, BLOCK);
        xor_block(blocks + i * BLOCK, offset);
    }
    pmac->body->encrypt(pmac, blocks, block_count);
    for (size_t i = 0; i < block_count; i++) {
        xor_block(sum, blocks + i * BLOCK);
    }
}

void prefix_pmac_tag(const struct prefix_pmac *pmac, const uint8_t *data,
                     size_t size, uint8_t tag_out[PREFIX_PMAC_BLOCK])
{
    CHECK(size <= PREFIX_PMAC_SIZE_MAX);
    size_t before_last = size == 0 ? 0 : (size - 1) / BLOCK;
    size_t last_size = size - before_last * BLOCK;
    uint8_t last[BLOCK + 1] = {0};
    if (last_size > 0) {
        memcpy(last, data + before_last * BLOCK, last_size);
    }
    last[last_size] = 0x80; /* falls off the end of a full block */
    uint8_t sum[BLOCK] = {0};
    add_blocks(pmac, data, before_last, sum);
    xor_block(sum, last);
    if (last_size == BLOCK) {
        xor_block(sum, pmac->last_full);
    }
    pmac->body->encrypt(pmac, sum, 1);
    memcpy(tag_out, sum, BLOCK);
}

void prefix_pmac_chain(const struct prefix_pmac *pmac, const uint8_t *data,
                       size_t size, size_t count,
                       const uint8_t first[PREFIX_PMAC_BLOCK],
                       uint8_t *tags_out)
{
    CHECK(size <= PREFIX_PMAC_SIZE_MAX - BLOCK);
    if (size % BLOCK == 0) {
        pmac->body->chain(pmac, data, size, count, first, tags_out);
        return;
    }
    uint8_t message[PREFIX_PMAC_SIZE_MAX];
    memcpy(message + size, first, BLOCK);
    for (size_t i = 0; i < count; i++) {
        memcpy(message, data + i * size, size);
        prefix_pmac_tag(pmac, message, size + BLOCK, message + size);
        memcpy(tags_out + i * BLOCK, message + size, BLOCK);
    }
}

/* ---- the body that asks libcrypto ---- */

static void libcrypto_expand(struct prefix_pmac *pmac)
{
    (void)pmac; /* libcrypto expands for itself */
}

static void libcrypto_encrypt(const struct prefix_pmac *pmac, uint8_t *blocks,
                              size_t block_count)
{
    struct digest_aes aes;
    digest_aes_init(&aes, pmac->key);
    digest_aes_encrypt(&aes, blocks, block_count);
    digest_aes_finish(&aes);
}

static void libcrypto_chain(const struct prefix_pmac *pmac, const uint8_t *data,
                            size_t size, size_t count, const uint8_t *first,
                            uint8_t *tags_out)
{
    uint8_t offsets[PREFIX_PMAC_SIZE_MAX];
    uint8_t offset[BLOCK] = {0};
    for (size_t i = 0; i < size; i += BLOCK) {
        step_offset(pmac, i / BLOCK + 1, offset);
        memcpy(offsets + i, offset, BLOCK);
    }
    struct digest_aes aes;
    digest_aes_init(&aes, pmac->key);
    uint8_t blocks[PREFIX_PMAC_SIZE_MAX];
    uint8_t tag[BLOCK];
    memcpy(tag, first, BLOCK);
    for (size_t n = 0; n < count; n++) {
        memcpy(blocks, offsets, size);
        for (size_t i = 0; i < size; i += BLOCK) {
            xor_block(blocks + i, data + n * size + i);
        }
        digest_aes_encrypt(&aes, blocks, size / BLOCK);
        xor_block(tag, pmac->last_full);
        for (size_t i = 0; i < size; i += BLOCK) {
            xor_block(tag, blocks + i);
        }
        digest_aes_encrypt(&aes, tag, 1);
        memcpy(tags_out + n * BLOCK, tag, BLOCK);
    }
    digest_aes_finish(&aes);
}

const struct prefix_pmac_body PREFIX_PMAC_LIBCRYPTO = {
    .name = "libcrypto",
    .expand = libcrypto_expand,
    .encrypt = libcrypto_encrypt,
    .chain = libcrypto_chain,
};

/* ---- the choice ---- */

static const struct prefix_pmac_body *bodies[3];

/* Before main, so that no thread has to ask. */
__attribute__((constructor)) static void set_up(void)
{
    size_t count = 0;
#if defined(__x86_64__)
    if (prefix_pmac_aesni_is_usable()) {
        bodies[count++] = &PREFIX_PMAC_AESNI;
    }
#endif
    bodies[count] = &PREFIX_PMAC_LIBCRYPTO;
}

const struct prefix_pmac_body *const *prefix_pmac_bodies(void)
{
    return bodies;
}

void prefix_pmac_init(struct prefix_pmac *pmac,
                      const uint8_t key[PREFIX_PMAC_BLOCK])
{
    prefix_pmac_init_with(pmac, bodies[0], key);
}
