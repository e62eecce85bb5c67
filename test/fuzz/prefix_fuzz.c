/* [engine F7] Keys from hostile prompts. The input is a header and ids; whatever it says:
 * every body gives the same keys, all at once equals one by one, a name of an
 * algorithm is ours or refused, and a table that is told to insert and remove
 * them stays whole.
 *
 *   | block size, u8 | items, u8 | flags, u8 | name of an algorithm, 13 | ids ... */
#include <string.h>

#include "base/check.h"
#include "prefix/digests.h"
#include "prefix/keys.h"
#include "prefix/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { HEAD_SIZE = 16, TOKEN_MAX = 2048, ITEM_MAX = 8, NAME_SIZE = 13 };

static int32_t tokens[TOKEN_MAX];
static struct prefix_item items[ITEM_MAX];
static struct prefix_key keys[TOKEN_MAX];

static struct prefix_prompt read_prompt(const uint8_t *data, size_t size)
{
    struct prefix_prompt prompt = {.tokens = tokens,
                                   .items = items,
                                   .tokens_per_block = data[0] + 1u,
                                   .with_tail = (data[2] & 1) != 0};
    size_t count = (size - HEAD_SIZE) / 4;
    prompt.token_count = (uint32_t)(count < TOKEN_MAX ? count : TOKEN_MAX);
    for (uint32_t i = 0; i < prompt.token_count; i++) {
        memcpy(&tokens[i], data + HEAD_SIZE + 4 * (size_t)i, 4);
        tokens[i] &= INT32_MAX;
    }
    prompt.item_count = data[1] % (ITEM_MAX + 1);
    uint32_t position = 0;
    for (uint32_t i = 0; i < prompt.item_count; i++) {
        position += data[3 + i];
        items[i] = (struct prefix_item){.position = position,
                                        .has_user_id = (data[2] & 2) != 0};
        items[i].name[i] = data[3 + i];
    }
    return prompt;
}

static void check_keys(const struct prefix_scope *scope,
                       const struct prefix_prompt *prompt, uint32_t count)
{
    struct prefix_scope other = *scope;
    prefix_pmac_init_with(&other.pmac, &PREFIX_PMAC_LIBCRYPTO, scope->pmac.key);
    struct prefix_key key = scope->root;
    uint32_t size = prompt->tokens_per_block;
    uint32_t item = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t begin = i * size;
        uint32_t left = prompt->token_count - begin;
        uint32_t length = left < size ? left : size;
        for (;
             item < prompt->item_count && items[item].position < begin + length;
             item++) {
            key = prefix_key_mix_item(&other, &key, &items[item],
                                      items[item].position - begin);
        }
        key = prefix_key_next(&other, &key, tokens + begin, length);
        CHECK(prefix_key_equals(&key, &keys[i]));
    }
}

static void check_table(uint32_t count)
{
    struct prefix_table_options options = {
        .capacity = count, .keys = keys, .key_stride = sizeof(keys[0])};
    struct prefix_table *table = prefix_table_create(&options);
    CHECK(table != NULL);
    for (uint32_t i = 0; i < count; i++) {
        CHECK(prefix_table_insert(table, i) == OK);
    }
    for (uint32_t i = count; i > count / 2; i--) {
        prefix_table_remove(table, i - 1);
    }
    uint32_t id;
    uint32_t length = prefix_table_find_longest(table, keys, count, 3, &id);
    CHECK(length == count / 2);
    CHECK(length == 0 || id == length - 1);
    CHECK(prefix_table_is_valid(table));
    prefix_table_destroy(table);
}

static void check_digests(struct span name, const struct prefix_prompt *prompt)
{
    static struct prefix_digest digests[TOKEN_MAX];
    enum prefix_hash_algo algo;
    struct why why;
    while (name.size > 0 && name.data[name.size - 1] == 0) {
        name.size--;
    }
    if (prefix_hash_algo_find(name, &why, &algo) != OK) {
        return;
    }
    CHECK(span_equals_string(name, prefix_hash_algo_name(algo)));
    uint32_t count =
        prefix_digests(algo, NULL, tokens, prompt->token_count,
                       prompt->tokens_per_block, TOKEN_MAX, digests);
    CHECK(count ==
          prefix_digest_count(prompt->token_count, prompt->tokens_per_block));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t SECRET[PREFIX_SECRET_SIZE] = {4};
    if (size < HEAD_SIZE) {
        return 0;
    }
    struct prefix_prompt prompt = read_prompt(data, size);
    struct prefix_scope scope;
    prefix_scope_init(&scope, SECRET, data[2]);
    uint32_t count = prefix_prompt_keys(&scope, &prompt, TOKEN_MAX, keys);
    check_keys(&scope, &prompt, count);
    check_table(count);
    check_digests(span_of(data + 3, NAME_SIZE), &prompt);
    return 0;
}
