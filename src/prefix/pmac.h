#pragma once
/* prefix/pmac: PMAC over AES-128 (Black and Rogaway, 2002), unmodified.
 *
 *   L      = AES(0)           offset(i) = offset(i-1) ^ L * x^ntz(i)
 *   sum    = AES(M1 ^ offset(1)) ^ AES(M2 ^ offset(2)) ^ ... up to M(m-1)
 *   tag    = AES(sum ^ Mm ^ L * x^-1)     when Mm is 16 bytes, else
 *            AES(sum ^ Mm 10..0)
 *
 * Every block but the last is encrypted by itself, which is what makes a chain
 * of tags cheap: with the tag before it as the last block of each message, the
 * sums of all messages run in parallel and a link costs one AES.
 *
 * Two bodies, equal bit for bit: the processor's AES instructions, and libcrypto
 * for the others. Pure, any thread. */
#include <stddef.h>
#include <stdint.h>

enum {
    PREFIX_PMAC_BLOCK = 16,
    PREFIX_PMAC_SIZE_MAX = 4096, /* bytes of a message */
    PREFIX_PMAC_LOG_MAX = 9, /* ntz(i) of its blocks is less */
};

struct prefix_pmac_body;

/* Open for embedding; filled by prefix_pmac_init, then only read. */
struct prefix_pmac {
    const struct prefix_pmac_body *body;
    uint8_t key[PREFIX_PMAC_BLOCK];
    uint8_t round_keys[11][PREFIX_PMAC_BLOCK]; /* where the body wants them */
    uint8_t last_full[PREFIX_PMAC_BLOCK]; /* L * x^-1 */
    uint8_t powers[PREFIX_PMAC_LOG_MAX][PREFIX_PMAC_BLOCK]; /* L * x^i */
    uint8_t offsets[7][PREFIX_PMAC_BLOCK]; /* of blocks 1 to 7 */
};

struct prefix_pmac_body {
    const char *name;
    /* Fills `round_keys` from `key`. */
    void (*expand)(struct prefix_pmac *pmac);
    /* AES of each block by itself, in place. */
    void (*encrypt)(const struct prefix_pmac *pmac, uint8_t *blocks,
                    size_t block_count);
    /* As prefix_pmac_chain, `size` a multiple of 16. */
    void (*chain)(const struct prefix_pmac *pmac, const uint8_t *data,
                  size_t size, size_t count, const uint8_t *first,
                  uint8_t *tags_out);
};
extern const struct prefix_pmac_body PREFIX_PMAC_LIBCRYPTO;

/* Bodies that this processor can run, best first, ended by NULL. */
const struct prefix_pmac_body *const *prefix_pmac_bodies(void);

void prefix_pmac_init(struct prefix_pmac *pmac,
                      const uint8_t key[PREFIX_PMAC_BLOCK]);
/* The same with a body of choice: for the tests that hold bodies together. */
void prefix_pmac_init_with(struct prefix_pmac *pmac,
                           const struct prefix_pmac_body *body,
                           const uint8_t key[PREFIX_PMAC_BLOCK]);

/* The tag of `size` bytes, at most PREFIX_PMAC_SIZE_MAX. */
void prefix_pmac_tag(const struct prefix_pmac *pmac, const uint8_t *data,
                     size_t size, uint8_t tag_out[PREFIX_PMAC_BLOCK]);

/* `count` tags, each of `size` bytes of `data` followed by the tag before it:
 *
 *   tag 0 = PMAC(data[0 : size] | first)
 *   tag i = PMAC(data[i * size : (i + 1) * size] | tag i-1)
 *
 * size + 16 <= PREFIX_PMAC_SIZE_MAX; `tags_out` is (count, 16). */
void prefix_pmac_chain(const struct prefix_pmac *pmac, const uint8_t *data,
                       size_t size, size_t count,
                       const uint8_t first[PREFIX_PMAC_BLOCK],
                       uint8_t *tags_out);
