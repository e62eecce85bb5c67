#include "serve/cache_events.h"

#include <inttypes.h>

#include "base/check.h"

struct printing {
    struct serve_cache_events *events;
    struct buf *out; /* NULL: nobody reads */
    bool is_open; /* a stored or removed event, more may follow */
};

static void begin(struct printing *printing, uint64_t id, uint32_t life,
                  const char *type)
{
    struct serve_cache_events *events = printing->events;
    buf_printf(printing->out,
               "%s{\"event_id\":%" PRIu64
               ",\"hash_algo\":\"%s\",\"layer_group_id\":%" PRIu32
               ",\"window_size\":%" PRIu32
               ",\"attention_dp_rank\":0,\"data\":{\"type\":\"%s\"",
               events->has_written ? "," : "", id,
               prefix_hash_algo_name(events->algo), life, events->windows[life],
               type);
    events->has_written = true;
}

static void add_hash(struct printing *printing,
                     const struct prefix_digest *digest)
{
    struct buf *out = printing->out;
    bool is_text = printing->events->algo == PREFIX_V2_SHA256;
    if (digest == NULL) {
        buf_add_string(out, "null");
        return;
    }
    buf_add_string(out, is_text ? "\"" : "");
    prefix_digest_add_text(out, printing->events->algo, digest);
    buf_add_string(out, is_text ? "\"" : "");
}

static void close_open(struct printing *printing)
{
    if (printing->is_open) {
        buf_add_string(printing->out, "]}}");
        printing->is_open = false;
    }
}

static void add_tokens(struct printing *printing, const struct kv_event *event)
{
    struct buf *out = printing->out;
    if (!printing->events->with_tokens) {
        return;
    }
    buf_add_string(out, ",\"tokens\":[");
    for (uint32_t i = 0; i < event->token_count; i++) {
        buf_printf(out,
                   "%s{\"type\":\"unique_token\",\"token_id\":%" PRId32
                   ",\"token_extra_id\":0}",
                   i == 0 ? "" : ",", event->tokens[i]);
    }
    buf_add_byte(out, ']');
}

static void begin_stored(struct printing *printing, uint64_t id,
                         const struct kv_event *event)
{
    begin(printing, id, event->life, "stored");
    buf_add_string(printing->out, ",\"parent_hash\":");
    add_hash(printing, event->has_parent
                           ? serve_block_names_find(printing->events->names,
                                                    &event->parent)
                           : NULL);
    if (event->has_salt) {
        buf_printf(printing->out, ",\"cache_salt_id\":%" PRIu64, event->salt);
    }
    buf_add_string(printing->out, ",\"blocks\":[");
}

static void add_stored(struct printing *printing, uint64_t id,
                       const struct kv_event *event, bool is_continued)
{
    const struct prefix_digest *digest = serve_block_names_store(
        printing->events->names, event->life, &event->key);
    if (!is_continued && printing->out != NULL) {
        close_open(printing);
    }
    if (digest == NULL || printing->out == NULL) {
        return;
    }
    if (printing->is_open) {
        buf_add_byte(printing->out, ',');
    } else {
        begin_stored(printing, id, event);
    }
    printing->is_open = true;
    buf_add_string(printing->out, "{\"type\":\"stored_block\",\"block_hash\":");
    add_hash(printing, digest);
    buf_printf(printing->out, ",\"cache_level\":%u,\"priority\":%u",
               event->level, event->priority);
    add_tokens(printing, event);
    buf_add_byte(printing->out, '}');
}

static void add_removed(struct printing *printing, const struct kv_event *event)
{
    const struct prefix_digest *digest = serve_block_names_remove(
        printing->events->names, event->life, &event->key);
    if (!event->is_continued && printing->out != NULL) {
        close_open(printing);
    }
    if (digest == NULL || printing->out == NULL) {
        return;
    }
    if (printing->is_open) {
        buf_add_byte(printing->out, ',');
    } else {
        begin(printing, event->id, event->life, "removed");
        buf_add_string(printing->out, ",\"block_hashes\":[");
    }
    printing->is_open = true;
    add_hash(printing, digest);
}

static void add_change(struct printing *printing, const char *name,
                       uint8_t before, uint8_t now)
{
    if (before != now) {
        buf_printf(printing->out,
                   ",\"%s\":{\"type\":\"event_diff\",\"new_value\":%u,"
                   "\"old_value\":%u}",
                   name, now, before);
    }
}

static void add_updated(struct printing *printing, const struct kv_event *event)
{
    const struct prefix_digest *digest =
        serve_block_names_find(printing->events->names, &event->key);
    if (digest == NULL) {
        return;
    }
    begin(printing, event->id, event->life, "updated");
    buf_add_string(printing->out, ",\"block_hash\":");
    add_hash(printing, digest);
    add_change(printing, "cache_level", event->level_before, event->level);
    add_change(printing, "priority", event->priority_before, event->priority);
    buf_add_string(printing->out, "}}");
}

static void add_created(struct printing *printing, const struct kv_event *event)
{
    begin(printing, event->id, event->life, "created");
    buf_add_string(printing->out, ",\"num_blocks_per_cache_level\":[");
    for (uint32_t i = 0; i < printing->events->level_count; i++) {
        buf_printf(printing->out, "%s%" PRIu32, i == 0 ? "" : ",",
                   event->blocks[i]);
    }
    buf_add_string(printing->out, "]}}");
}

static void add_gap(struct printing *printing, uint64_t id, uint64_t lost)
{
    begin(printing, id, 0, "gap");
    buf_printf(printing->out, ",\"lost\":%" PRIu64 "}}", lost);
}

static void add_told(struct printing *printing, const struct kv_event *event)
{
    bool is_list =
        event->kind == KV_EVENT_STORED || event->kind == KV_EVENT_REMOVED;
    if (event->kind == KV_EVENT_STORED) {
        add_stored(printing, event->id, event, event->is_continued);
    } else if (event->kind == KV_EVENT_REMOVED) {
        add_removed(printing, event);
    }
    if (is_list || printing->out == NULL) {
        return;
    }
    close_open(printing);
    if (event->kind == KV_EVENT_UPDATED) {
        add_updated(printing, event);
    } else if (event->kind == KV_EVENT_CREATED) {
        add_created(printing, event);
    } else {
        add_gap(printing, event->id, event->lost);
    }
}

/* What stands right behind the one before, in the chain and the list alike,
 * goes into one event with it. */
static void add_listing(struct printing *printing,
                        const struct engine_cache_batch *batch)
{
    const struct kv_event *before = NULL;
    for (uint32_t i = 0; i < batch->listed_count; i++) {
        const struct kv_event *event = &batch->listed[i];
        bool is_continued = before != NULL && event->has_parent &&
                            before->life == event->life &&
                            prefix_key_equals(&before->key, &event->parent);
        add_stored(printing, batch->id_last, event, is_continued);
        before = event;
    }
    if (printing->out != NULL) {
        close_open(printing);
    }
}

/* Events first, then the truth: after a gap the books begin anew. */
static void go_through(struct printing *printing,
                       const struct engine_cache_batch *batch, bool is_resync)
{
    struct serve_block_names *names = printing->events->names;
    struct printing silent = {.events = printing->events};
    serve_block_names_learn(names, batch->listed, batch->listed_count);
    serve_block_names_learn(names, batch->told, batch->told_count);
    for (uint32_t i = 0; i < batch->told_count; i++) {
        add_told(printing, &batch->told[i]);
    }
    if (printing->out != NULL) {
        close_open(printing);
    }
    if (batch->has_listing) {
        serve_block_names_forget(names);
        add_listing(is_resync ? printing : &silent, batch);
    }
    serve_block_names_settle(names);
}

void serve_cache_events_print(struct serve_cache_events *events,
                              const struct engine_cache_batch *batch,
                              bool is_resync, struct buf *out)
{
    struct printing printing = {.events = events, .out = out};
    uint64_t id =
        batch->told_count > 0 ? batch->told[0].id - 1 : batch->id_last;
    events->has_written = false;
    buf_add_byte(out, '[');
    if (is_resync) {
        begin(&printing, batch->id_last, 0, "resync");
        buf_add_string(out, "}}");
    } else if (events->lost > 0) {
        add_gap(&printing, id, events->lost);
    }
    events->lost = 0;
    go_through(&printing, batch, is_resync);
    buf_add_byte(out, ']');
}

void serve_cache_events_skip(struct serve_cache_events *events,
                             const struct engine_cache_batch *batch)
{
    struct printing silent = {.events = events};
    go_through(&silent, batch, false);
    for (uint32_t i = 0; i < batch->told_count; i++) {
        const struct kv_event *event = &batch->told[i];
        bool is_gap = event->kind == KV_EVENT_GAP;
        events->lost += is_gap ? event->lost : !event->is_continued;
    }
}
