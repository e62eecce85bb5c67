#pragma once
/* base/digest: the published digests we use, and two text forms of bytes.
 * SHA-256, HMAC and AES come from libcrypto; BLAKE3 and CRC32C are ours, held to
 * the official vectors. Pure, any thread. */
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum { DIGEST_SHA256_SIZE = 32, DIGEST_BLAKE3_SIZE = 32 };

void digest_sha256(struct span data, uint8_t out[DIGEST_SHA256_SIZE]);
void digest_hmac_sha256(struct span key, struct span data,
                        uint8_t out[DIGEST_SHA256_SIZE]);
/* Unkeyed when `key` is NULL, else `key` has 32 bytes. Any `out_size`. */
void digest_blake3(const uint8_t *key, struct span data, uint8_t *out,
                   size_t out_size);
/* Castagnoli polynomial; start with crc = 0, feed the result to go on. */
uint32_t digest_crc32c(uint32_t crc, struct span data);

/* AES-128 of single blocks, a part to build published modes from and of no use
 * by itself. Open, embedded; one thread at a time. */
struct digest_aes {
    void *context; /* private */
};
enum { DIGEST_AES_BLOCK = 16 };
void digest_aes_init(struct digest_aes *aes,
                     const uint8_t key[DIGEST_AES_BLOCK]);
void digest_aes_finish(struct digest_aes *aes);
/* Each of the blocks, in place. */
void digest_aes_encrypt(struct digest_aes *aes, uint8_t *blocks,
                        size_t block_count);

/* Same time whatever the bytes. */
bool digest_equals(const uint8_t *a, const uint8_t *b, size_t size);

void digest_add_hex(struct buf *buf, struct span data);
void digest_add_base64(struct buf *buf, struct span data);
/* Strict: padding required, no white space. ERR_INVALID; `out` then unspecified. */
MUST_USE enum err digest_decode_base64(struct span text, struct buf *out);
MUST_USE enum err digest_decode_hex(struct span text, struct buf *out);
