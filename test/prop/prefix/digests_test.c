/* Random prompts against a second, slow reading of serve.md 3.3: 128-bit
 * arithmetic with every reduction written out as a remainder, and the whole
 * prompt's blocks cut anew for each digest. */
#include "unit/base/test.h"

#include "base/rng.h"
#include "prefix/digests.h"

enum { SEQUENCE_COUNT = 500, TOKEN_MAX = 200 };

__extension__ typedef unsigned __int128 wide;

static const wide TWO_32 = (wide)1 << 32;
static const wide TWO_64 = (wide)1 << 64;

static wide slow_fold(wide mixed, wide seed)
{
    wide rest = (mixed + seed * 64 % TWO_64 + seed / 4) % TWO_64;
    return seed ^ rest;
}

static wide slow_mix_32(wide value, wide seed)
{
    wide v = value % TWO_32;
    for (int i = 0; i < 2; i++) {
        v = (v / 65536 ^ v) * 73244475 % TWO_32;
    }
    v = v / 65536 ^ v;
    return slow_fold((v + 2654435769) % TWO_32, seed);
}

static wide slow_mix_64(wide v, wide seed)
{
    v = (v ^ v / 1073741824) * 13787848793156543929u % TWO_64;
    v = (v ^ v / 134217728) * 10723151780598845931u % TWO_64;
    v = v ^ v / 2147483648;
    return slow_fold((v + 2654435769) % TWO_64, seed);
}

/* The digest of block `index`, from the first token on, every time. */
static uint64_t slow_v1(const struct prefix_scope_id *id, const int32_t *tokens,
                        uint32_t token_count, uint32_t size, uint32_t index)
{
    wide parent =
        index == 0 ? 0 : slow_v1(id, tokens, token_count, size, index - 1);
    wide seed = parent * 13787848793156543929u % TWO_64;
    uint32_t length = 0;
    while (length < size && index * size + length + 1 < token_count) {
        length++;
    }
    seed ^= length;
    if (parent == 0 && id->has_salt) {
        seed = slow_mix_64(id->salt, seed);
    }
    for (uint32_t i = 0; i < length; i++) {
        seed = slow_mix_32((wide)tokens[index * size + i], seed);
    }
    return (uint64_t)(id->has_lora ? slow_mix_64(id->lora, seed) : seed);
}

/* 500 prompts of up to 200 tokens, small and large ids, all block sizes, with
 * and without salt and LoRA. [serve T42] */
static void v1_agrees_with_a_second_reading(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(42);
    for (int round = 0; round < SEQUENCE_COUNT; round++) {
        int32_t tokens[TOKEN_MAX];
        struct prefix_digest digests[TOKEN_MAX];
        uint32_t count = (uint32_t)rng_below(&rng, TOKEN_MAX + 1);
        uint32_t size = 1 + (uint32_t)rng_below(&rng, 40);
        uint64_t bound = round % 2 == 0 ? 300 : INT32_MAX;
        struct prefix_scope_id id = {.has_lora = round % 3 == 0,
                                     .has_salt = round % 5 < 2,
                                     .lora = rng_next(&rng),
                                     .salt = rng_next(&rng)};
        for (uint32_t i = 0; i < count; i++) {
            tokens[i] = (int32_t)rng_below(&rng, bound);
        }
        uint32_t blocks = prefix_digests(PREFIX_V1_BLOCK_KEY, &id, tokens,
                                         count, size, TOKEN_MAX, digests);
        assert_int_equal(blocks,
                         count == 0 ? 0 : (count - 1 + size - 1) / size);
        for (uint32_t i = 0; i < blocks; i++) {
            assert_true(digests[i].number ==
                        slow_v1(&id, tokens, count, size, i));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v1_agrees_with_a_second_reading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
