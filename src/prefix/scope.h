#pragma once
/* prefix/scope: whose prefixes may be shared (engine.md 1.7.1).
 *
 * Requests with different adapters or different cache salts share nothing. The
 * scope enters private keys and public digests alike as bytes:
 *
 *   | mask: bit 0 LoRA, bit 1 salt | LoRA id, u64 LE | salt id, u64 LE |
 *
 * where a field that is absent takes no bytes. Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PREFIX_SCOPE_BYTES_MAX = 17 };

struct prefix_scope_id {
    bool has_lora;
    bool has_salt;
    uint64_t lora;
    uint64_t salt; /* prefix_salt_id of the request's cache_salt */
};

/* Returns how many bytes were written: 1, 9 or 17. NULL: nothing is present. */
size_t prefix_scope_encode(const struct prefix_scope_id *id,
                           uint8_t out[PREFIX_SCOPE_BYTES_MAX]);

/* Names a whole prompt in its scope, the same in every process: two workers
 * that mean one request must agree on it. Any thread. */
enum { PREFIX_PROMPT_DIGEST_SIZE = 16 };
void prefix_prompt_digest(const struct prefix_scope_id *id, const int32_t *ids,
                          size_t count, uint8_t out[PREFIX_PROMPT_DIGEST_SIZE]);

/* The id of a cache_salt: the first 8 bytes, little-endian, of its SHA-256. Two
 * generations of servers exist (serve.md 3.3); the older one takes plain BLAKE3
 * instead. A mismatch means no hits for salted requests, nothing worse. */
uint64_t prefix_salt_id(const char *salt);
uint64_t prefix_salt_id_blake3(const char *salt);
