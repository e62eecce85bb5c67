#include "prefix/keys.h"

#include "base/check.h"
#include "base/digest.h"

/* Ids are read as the bytes they are in memory, and so is the rest of the wire
 * and file code. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "little-endian");
_Static_assert(4 * PREFIX_BLOCK_TOKENS_MAX + 16 <= PREFIX_PMAC_SIZE_MAX,
               "a block is one message");

enum { ITEM_MESSAGE_SIZE = 4 + 1 + PREFIX_ITEM_DIGEST_SIZE + 16 };
_Static_assert(ITEM_MESSAGE_SIZE % 4 != 0, "no block's message");
_Static_assert((int)ITEM_MESSAGE_SIZE > (int)PREFIX_SCOPE_BYTES_MAX,
               "no scope's");

void prefix_scope_init_for(struct prefix_scope *scope,
                           const uint8_t secret[PREFIX_SECRET_SIZE],
                           const struct prefix_scope_id *id)
{
    uint8_t key[PREFIX_PMAC_BLOCK];
    digest_blake3(secret, span_of_string("baton prefix keys, PMAC-AES-128"),
                  key, sizeof(key));
    prefix_pmac_init(&scope->pmac, key);
    uint8_t bytes[PREFIX_SCOPE_BYTES_MAX];
    size_t size = prefix_scope_encode(id, bytes);
    prefix_pmac_tag(&scope->pmac, bytes, size, scope->root.bytes);
}

void prefix_scope_init(struct prefix_scope *scope,
                       const uint8_t secret[PREFIX_SECRET_SIZE], uint64_t salt)
{
    struct prefix_scope_id id = {.has_salt = salt != 0, .salt = salt};
    prefix_scope_init_for(scope, secret, &id);
}

/* Keys of `count` blocks of `block_tokens` ids each, none with an item. */
static void chain(const struct prefix_scope *scope,
                  const struct prefix_key *parent, const int32_t *tokens,
                  uint32_t block_tokens, uint32_t count,
                  struct prefix_key *keys_out)
{
    prefix_pmac_chain(&scope->pmac, (const uint8_t *)tokens,
                      sizeof(tokens[0]) * block_tokens, count, parent->bytes,
                      keys_out->bytes);
}

struct prefix_key prefix_key_next(const struct prefix_scope *scope,
                                  const struct prefix_key *parent,
                                  const int32_t *tokens, uint32_t token_count)
{
    CHECK(token_count <= PREFIX_BLOCK_TOKENS_MAX);
    struct prefix_key key;
    chain(scope, parent == NULL ? &scope->root : parent, tokens, token_count, 1,
          &key);
    return key;
}

struct prefix_key prefix_key_mix_item(const struct prefix_scope *scope,
                                      const struct prefix_key *parent,
                                      const struct prefix_item *item,
                                      uint32_t place)
{
    uint8_t message[ITEM_MESSAGE_SIZE];
    memcpy(message, &place, 4);
    message[4] = item->has_user_id;
    memcpy(message + 5, item->name, PREFIX_ITEM_DIGEST_SIZE);
    memcpy(message + 5 + PREFIX_ITEM_DIGEST_SIZE,
           parent == NULL ? scope->root.bytes : parent->bytes,
           sizeof(parent->bytes));
    struct prefix_key key;
    prefix_pmac_tag(&scope->pmac, message, sizeof(message), key.bytes);
    return key;
}

uint32_t prefix_keys(const struct prefix_scope *scope, const int32_t *tokens,
                     uint32_t token_count, uint32_t tokens_per_block,
                     uint32_t key_count_max, struct prefix_key *keys_out)
{
    struct prefix_prompt prompt = {.tokens = tokens,
                                   .token_count = token_count,
                                   .tokens_per_block = tokens_per_block};
    return prefix_prompt_keys(scope, &prompt, key_count_max, keys_out);
}

/* Block from `begin` on in which the next item begins; `end`: none before it. */
static uint32_t next_item_block(const struct prefix_prompt *prompt,
                                uint32_t item, uint32_t begin, uint32_t end)
{
    if (item == prompt->item_count) {
        return end;
    }
    uint32_t block = prompt->items[item].position / prompt->tokens_per_block;
    CHECK(block >= begin); /* positions ascend */
    return block < end ? block : end;
}

/* Mixes the items that begin in `block`; returns the first one after them. */
static uint32_t mix_items(const struct prefix_scope *scope,
                          const struct prefix_prompt *prompt, uint32_t block,
                          uint32_t item, struct prefix_key *parent)
{
    uint64_t begin = (uint64_t)block * prompt->tokens_per_block;
    uint64_t end = begin + prompt->tokens_per_block;
    end = end < prompt->token_count ? end : prompt->token_count;
    for (; item < prompt->item_count && prompt->items[item].position < end;
         item++) {
        CHECK(prompt->items[item].position >= begin);
        *parent = prefix_key_mix_item(
            scope, parent, &prompt->items[item],
            (uint32_t)(prompt->items[item].position - begin));
    }
    return item;
}

static uint32_t count_keys(const struct prefix_prompt *prompt, uint32_t max)
{
    uint32_t count = prompt->token_count / prompt->tokens_per_block;
    bool has_tail = prompt->token_count % prompt->tokens_per_block != 0;
    count += prompt->with_tail && has_tail;
    return count < max ? count : max;
}

uint32_t prefix_prompt_keys(const struct prefix_scope *scope,
                            const struct prefix_prompt *prompt,
                            uint32_t key_count_max, struct prefix_key *keys_out)
{
    uint32_t size = prompt->tokens_per_block;
    CHECK(size > 0);
    CHECK(size <= PREFIX_BLOCK_TOKENS_MAX);
    uint32_t count = count_keys(prompt, key_count_max);
    struct prefix_key parent = scope->root;
    uint32_t item = 0;
    for (uint32_t i = 0; i < count;) {
        item = mix_items(scope, prompt, i, item, &parent);
        uint32_t left = prompt->token_count - i * size;
        uint32_t run = 1;
        if (left >= size) {
            run = next_item_block(prompt, item, i, count) - i;
            run = run < left / size ? run : left / size;
        }
        chain(scope, &parent, prompt->tokens + (size_t)i * size,
              left < size ? left : size, run, &keys_out[i]);
        i += run;
        parent = keys_out[i - 1];
    }
    return count;
}
