#include "serve/block_names.h"

#include "base/check.h"
#include "base/mem.h"
#include "prefix/table.h"

enum { NONE = PREFIX_TABLE_NONE };

struct entry {
    struct prefix_key key;
    struct prefix_digest digest;
    uint32_t parent; /* NONE: a first block. Of a free one: the next free */
    uint32_t child_count;
    uint8_t lives; /* a bit each: announced there */
    bool is_doubtful; /* on the list of those that settle looks at */
};

struct serve_block_names {
    enum prefix_hash_algo algo;
    struct prefix_table *table;
    struct entry *entries; /* (entry_max) */
    uint32_t *doubtful; /* (entry_max); the first doubtful_count count */
    uint32_t entry_max, used_max, doubtful_count;
    uint32_t free_first; /* given back ones; beyond used_max all are free */
};

struct serve_block_names *serve_block_names_create(enum prefix_hash_algo algo,
                                                   uint32_t block_count_max)
{
    struct serve_block_names *names = mem_new(sizeof(*names));
    names->algo = algo;
    names->entry_max = block_count_max;
    names->free_first = NONE;
    names->entries = mem_try_array(block_count_max, sizeof(names->entries[0]));
    names->doubtful =
        mem_try_array(block_count_max, sizeof(names->doubtful[0]));
    if (names->entries != NULL && names->doubtful != NULL) {
        names->table = prefix_table_create(&(struct prefix_table_options){
            .capacity = block_count_max,
            .keys = &names->entries[0].key,
            .key_stride = sizeof(names->entries[0]),
        });
    }
    if (names->table == NULL) {
        serve_block_names_destroy(names);
        return NULL;
    }
    return names;
}

void serve_block_names_destroy(struct serve_block_names *names)
{
    if (names == NULL) {
        return;
    }
    prefix_table_destroy(names->table);
    mem_free(names->entries);
    mem_free(names->doubtful);
    mem_free(names);
}

static void doubt(struct serve_block_names *names, uint32_t id)
{
    struct entry *entry = &names->entries[id];
    if (!entry->is_doubtful) {
        entry->is_doubtful = true;
        names->doubtful[names->doubtful_count++] = id;
    }
}

static uint32_t take(struct serve_block_names *names)
{
    uint32_t id = names->free_first;
    if (id != NONE) {
        names->free_first = names->entries[id].parent;
        return id;
    }
    return names->used_max < names->entry_max ? names->used_max++ : NONE;
}

/* True when the block has a name now that it had not. */
static bool learn(struct serve_block_names *names, const struct kv_event *event)
{
    uint32_t parent = NONE;
    if (event->kind != KV_EVENT_STORED ||
        prefix_table_find(names->table, &event->key) != NONE) {
        return false;
    }
    if (event->has_parent) {
        parent = prefix_table_find(names->table, &event->parent);
    }
    bool is_underivable = event->has_parent
                              ? parent == NONE
                              : event->has_salt && event->salt == 0;
    uint32_t id = is_underivable ? NONE : take(names);
    if (id == NONE) {
        return false;
    }
    const struct prefix_scope_id scope = {.has_salt = event->has_salt,
                                          .salt = event->salt};
    names->entries[id] = (struct entry){
        .key = event->key,
        .digest = prefix_digest_next(
            names->algo, &scope,
            parent == NONE ? NULL : &names->entries[parent].digest,
            event->tokens, event->token_count),
        .parent = parent,
    };
    enum err err = prefix_table_insert(names->table, id);
    CHECK(err == OK);
    if (parent != NONE) {
        names->entries[parent].child_count++;
    }
    doubt(names, id);
    return true;
}

void serve_block_names_learn(struct serve_block_names *names,
                             const struct kv_event *events, uint32_t count)
{
    bool has_learnt = true;
    while (has_learnt) {
        has_learnt = false;
        for (uint32_t i = 0; i < count; i++) {
            has_learnt |= learn(names, &events[i]);
        }
    }
}

const struct prefix_digest *serve_block_names_find(
    const struct serve_block_names *names, const struct prefix_key *key)
{
    uint32_t id = prefix_table_find(names->table, key);
    return id == NONE ? NULL : &names->entries[id].digest;
}

const struct prefix_digest *serve_block_names_store(
    struct serve_block_names *names, uint32_t life,
    const struct prefix_key *key)
{
    uint32_t id = prefix_table_find(names->table, key);
    if (id == NONE) {
        return NULL;
    }
    names->entries[id].lives |= (uint8_t)(1u << life);
    return &names->entries[id].digest;
}

const struct prefix_digest *serve_block_names_remove(
    struct serve_block_names *names, uint32_t life,
    const struct prefix_key *key)
{
    uint32_t id = prefix_table_find(names->table, key);
    if (id == NONE || (names->entries[id].lives >> life & 1) == 0) {
        return NULL;
    }
    names->entries[id].lives &= (uint8_t) ~(1u << life);
    doubt(names, id);
    return &names->entries[id].digest;
}

/* Free ones are on nobody's mind: their key is in no table. */
void serve_block_names_forget(struct serve_block_names *names)
{
    for (uint32_t i = 0; i < names->used_max; i++) {
        struct entry *entry = &names->entries[i];
        if (prefix_table_find(names->table, &entry->key) == i) {
            entry->lives = 0;
            doubt(names, i);
        }
    }
}

/* Up the chain, as far as nobody else stands on it. */
static void release(struct serve_block_names *names, uint32_t id)
{
    while (id != NONE) {
        struct entry *entry = &names->entries[id];
        if (entry->lives != 0 || entry->child_count > 0 || entry->is_doubtful) {
            return;
        }
        uint32_t parent = entry->parent;
        prefix_table_remove(names->table, id);
        entry->parent = names->free_first;
        names->free_first = id;
        if (parent != NONE) {
            names->entries[parent].child_count--;
        }
        id = parent;
    }
}

void serve_block_names_settle(struct serve_block_names *names)
{
    while (names->doubtful_count > 0) {
        uint32_t id = names->doubtful[--names->doubtful_count];
        names->entries[id].is_doubtful = false;
        release(names, id);
    }
}

uint32_t serve_block_names_count(const struct serve_block_names *names)
{
    return prefix_table_count(names->table);
}
