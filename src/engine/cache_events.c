/* What the cache tells routers (engine.md 1.12), handed over whole when somebody
 * asks: nobody pays for a reader who is not there, and what the log holds is all
 * that is kept. Tags become public digests on the other side; only the salt of a
 * scope, which the cache does not know, is added here. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "engine/state.h"

enum { SALT_COUNT = 4096 };

void cache_events_init(struct engine_core *core)
{
    struct prefix_scope plain;
    if (kv_manager_events(core->cache) == NULL) {
        return;
    }
    prefix_scope_init_for(&plain, core->options.secret, NULL);
    core->plain_root = plain.root;
    core->salts = mem_new_array(SALT_COUNT, sizeof(core->salts[0]));
}

/* A root is as good as random: its first bytes are its place. */
static struct salt_root *place_of(const struct engine_core *core,
                                  const struct prefix_key *root)
{
    uint32_t word = 0;
    memcpy(&word, root->bytes, sizeof(word));
    return &core->salts[word % SALT_COUNT];
}

void cache_events_note_scope(const struct engine_core *core,
                             const struct item *item)
{
    const struct prefix_scope_id *id = &item->request->scope;
    if (core->salts != NULL && id->has_salt) {
        *place_of(core, &item->scope.root) =
            (struct salt_root){item->scope.root, id->salt};
    }
}

static void add_salt(const struct engine_core *core, struct kv_event *event)
{
    bool is_first = event->kind == KV_EVENT_STORED && !event->has_parent;
    if (!is_first || prefix_key_equals(&event->parent, &core->plain_root)) {
        return;
    }
    const struct salt_root *known = place_of(core, &event->parent);
    bool is_it = prefix_key_equals(&known->root, &event->parent);
    event->has_salt = true;
    event->salt = is_it ? known->salt : 0;
}

struct filling {
    const struct engine_core *core;
    struct kv_event *events; /* NULL: they are counted only */
    uint32_t count;
    int32_t *tokens;
    size_t token_count;
};

static void add(void *context, const struct kv_event *event)
{
    struct filling *filling = context;
    size_t count = event->kind == KV_EVENT_STORED ? event->token_count : 0;
    if (filling->events != NULL) {
        struct kv_event *copy = &filling->events[filling->count];
        *copy = *event;
        if (count > 0) {
            const struct kv_events *log =
                kv_manager_events(filling->core->cache);
            int32_t *tokens = filling->tokens + filling->token_count;
            memcpy(tokens, kv_events_tokens(log, event),
                   count * sizeof(*tokens));
            copy->tokens = tokens;
        }
        add_salt(filling->core, copy);
    }
    filling->count++;
    filling->token_count += count;
}

static void add_all(const struct kv_event *events, uint32_t count,
                    struct filling *filling)
{
    for (uint32_t i = 0; i < count; i++) {
        add(filling, &events[i]);
    }
}

/* NULL: no memory for it; the log stays as it is. */
static struct engine_cache_batch *batch_of(const struct engine_core *core,
                                           const struct kv_event *told,
                                           uint32_t told_count, bool is_listing)
{
    struct engine_cache_batch *batch = mem_new(sizeof(*batch));
    struct filling first = {.core = core};
    struct filling second = {.core = core};
    add_all(told, told_count, &first);
    if (is_listing) {
        kv_manager_resync(core->cache, add, &second);
    }
    batch->told = mem_try_array(first.count + 1, sizeof(*told));
    batch->listed = mem_try_array(second.count + 1, sizeof(*told));
    batch->tokens = mem_try_array(first.token_count + second.token_count + 1,
                                  sizeof(batch->tokens[0]));
    if (batch->told == NULL || batch->listed == NULL || batch->tokens == NULL) {
        engine_cache_batch_free(batch);
        return NULL;
    }
    struct filling filling = {
        .core = core, .events = batch->told, .tokens = batch->tokens};
    add_all(told, told_count, &filling);
    batch->told_count = filling.count;
    filling.events = batch->listed;
    filling.count = 0;
    if (is_listing) {
        kv_manager_resync(core->cache, add, &filling);
    }
    batch->listed_count = filling.count;
    batch->has_listing = is_listing;
    return batch;
}

void cache_events_answer(struct engine_core *core, uint64_t now_ns,
                         const struct engine_command *command)
{
    struct kv_events *log = kv_manager_events(core->cache);
    struct item asked = {.id = command->id};
    struct engine_event *event = item_event(core, &asked, ENGINE_EVENT_CACHE);
    if (log == NULL) {
        return;
    }
    kv_manager_tick(core->cache, now_ns / 1000000);
    const struct kv_event *told;
    uint32_t count = kv_events_peek(log, UINT32_MAX, &told);
    bool has_gap = count > 0 && told[0].kind == KV_EVENT_GAP;
    uint32_t told_count = command->is_resync ? 0 : count;
    event->cache =
        batch_of(core, told, told_count, command->is_resync || has_gap);
    if (event->cache == NULL) {
        log_warn("engine", "no memory for %u events of the cache", count);
        event->error = ERR_NO_MEMORY;
        return;
    }
    event->cache->id_last = kv_events_stats(log).events;
    kv_events_taken(log, count);
}

void engine_cache_batch_free(struct engine_cache_batch *batch)
{
    if (batch == NULL) {
        return;
    }
    mem_free(batch->told);
    mem_free(batch->listed);
    mem_free(batch->tokens);
    mem_free(batch);
}

void engine_event_finish(struct engine_event *event)
{
    mem_free(event->top);
    engine_cache_batch_free(event->cache);
    event->top = NULL;
    event->cache = NULL;
}
