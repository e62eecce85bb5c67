/* The log lies in an array twice its size, so that what is kept is always one
 * run that a reader can be handed as it is:
 *
 *   | free | GAP? | record record ... | free |      (1 + 2 * event_max)
 *            head                       tail
 *
 * When the tail meets the end, the run moves to the front: at least event_max
 * records went by since, so each pays for one move. A GAP takes the place of the
 * record that was dropped last.
 *
 * Ids of tokens lie in a ring of rows, taken in order of arrival. A row is in use
 * while its record is in the batch or in the log. Records leave the log in the
 * order of batches, and within one batch of at most batch_max in any order, so
 * all rows in use are among the latest event_max + 2 * batch_max. */
#include "kv/events.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"

enum { BATCH_MAX = 256 };

struct kv_events {
    uint32_t event_max;
    uint32_t batch_max;
    uint32_t tokens_per_block;
    uint32_t row_count;
    uint32_t head, tail; /* of the log, a GAP included */
    bool has_gap; /* log[head] is one */
    bool is_open; /* the last wire event may go on */
    uint32_t batch_count;
    uint32_t row_next;
    uint64_t id_last;
    uint64_t lost;
    struct kv_event *log; /* (1 + 2 * event_max) */
    struct kv_event *batch; /* (batch_max), of one kind */
    int32_t *rows; /* (row_count, tokens_per_block) */
};

/* -- life ----------------------------------------------------------------- */

static uint32_t log_size(const struct kv_events *events)
{
    return 1 + 2 * events->event_max;
}

struct kv_events *kv_events_create(uint32_t event_max,
                                   uint32_t tokens_per_block)
{
    CHECK(event_max > 0);
    CHECK(event_max < UINT32_MAX / 4);
    CHECK(tokens_per_block > 0);
    struct kv_events *events = mem_new(sizeof(*events));
    events->event_max = event_max;
    events->batch_max = event_max < BATCH_MAX ? event_max : BATCH_MAX;
    events->tokens_per_block = tokens_per_block;
    events->row_count = event_max + 2 * events->batch_max;
    events->log = mem_try_array(log_size(events), sizeof(events->log[0]));
    events->batch = mem_try_array(events->batch_max, sizeof(events->batch[0]));
    events->rows = mem_try_array(events->row_count,
                                 tokens_per_block * sizeof(events->rows[0]));
    if (events->log == NULL || events->batch == NULL || events->rows == NULL) {
        kv_events_destroy(events);
        return NULL;
    }
    return events;
}

void kv_events_destroy(struct kv_events *events)
{
    if (events == NULL) {
        return;
    }
    mem_free(events->rows);
    mem_free(events->batch);
    mem_free(events->log);
    mem_free(events);
}

/* -- the log -------------------------------------------------------------- */

static uint32_t record_count(const struct kv_events *events)
{
    return events->tail - events->head - (events->has_gap ? 1 : 0);
}

/* One past the last record of the wire event that begins at `at`. */
static uint32_t end_of(const struct kv_events *events, uint32_t at)
{
    do {
        at++;
    } while (at < events->tail && events->log[at].is_continued);
    return at;
}

static void drop_oldest(struct kv_events *events)
{
    uint64_t lost = 1;
    uint32_t first = events->head;
    if (events->has_gap) {
        lost += events->log[first].lost;
        first++;
    }
    uint64_t id = events->log[first].id;
    events->head = end_of(events, first) - 1;
    events->log[events->head] = (struct kv_event){
        .id = id,
        .kind = KV_EVENT_GAP,
        .lost = lost,
    };
    events->has_gap = true;
    events->lost++;
}

/* A place at the tail. What still grows and fills the whole log is dropped too:
 * its rest goes on as an event of its own. */
static struct kv_event *push_place(struct kv_events *events)
{
    if (record_count(events) == events->event_max) {
        drop_oldest(events);
        events->is_open = events->is_open && record_count(events) > 0;
    }
    if (events->tail == log_size(events)) {
        uint32_t count = events->tail - events->head;
        memmove(events->log, events->log + events->head,
                count * sizeof(events->log[0]));
        events->head = 0;
        events->tail = count;
    }
    return &events->log[events->tail++];
}

/* Both are facts of a batch, so of one kind unless the log's is older. */
static bool continues(const struct kv_event *last, const struct kv_event *next)
{
    if (last->kind != next->kind || last->life != next->life) {
        return false;
    }
    return next->kind == KV_EVENT_REMOVED ||
           (next->has_parent && prefix_key_equals(&last->key, &next->parent));
}

static void push(struct kv_events *events, const struct kv_event *event)
{
    struct kv_event *place = push_place(events);
    *place = *event;
    place->is_continued = events->is_open && continues(place - 1, place);
    if (!place->is_continued) {
        events->id_last++;
    }
    place->id = events->id_last;
    events->is_open =
        event->kind == KV_EVENT_STORED || event->kind == KV_EVENT_REMOVED;
}

/* -- the batch ------------------------------------------------------------ */

static void push_batch(struct kv_events *events)
{
    for (uint32_t life = 0; life < KV_LIFE_COUNT_MAX; life++) {
        for (uint32_t i = 0; i < events->batch_count; i++) {
            if (events->batch[i].life == life) {
                push(events, &events->batch[i]);
            }
        }
    }
    events->batch_count = 0;
}

static void gather(struct kv_events *events, const struct kv_event *event)
{
    CHECK(event->life < KV_LIFE_COUNT_MAX);
    bool is_other =
        events->batch_count > 0 && events->batch[0].kind != event->kind;
    if (is_other || events->batch_count == events->batch_max) {
        push_batch(events);
    }
    events->batch[events->batch_count++] = *event;
}

static void push_now(struct kv_events *events, const struct kv_event *event)
{
    push_batch(events);
    push(events, event);
}

static uint32_t write_tokens(struct kv_events *events, const int32_t *tokens)
{
    uint32_t row = events->row_next;
    events->row_next = row + 1 == events->row_count ? 0 : row + 1;
    memcpy(events->rows + (size_t)row * events->tokens_per_block, tokens,
           events->tokens_per_block * sizeof(tokens[0]));
    return row;
}

/* -- facts ---------------------------------------------------------------- */

void kv_events_created(struct kv_events *events, uint8_t life,
                       const uint32_t blocks[KV_LEVEL_COUNT_MAX])
{
    struct kv_event event = {.kind = KV_EVENT_CREATED, .life = life};
    memcpy(event.blocks, blocks, sizeof(event.blocks));
    push_now(events, &event);
}

void kv_events_stored(struct kv_events *events, uint8_t life, uint8_t level,
                      uint8_t priority, uint32_t ordinal,
                      const struct prefix_key *key,
                      const struct prefix_key *parent, const int32_t *tokens)
{
    CHECK(ordinal == 0 || parent != NULL);
    struct kv_event event = {
        .kind = KV_EVENT_STORED,
        .has_parent = ordinal > 0,
        .life = life,
        .level = level,
        .level_before = level,
        .priority = priority,
        .priority_before = priority,
        .ordinal = ordinal,
        .token_count = events->tokens_per_block,
        .key = *key,
    };
    if (parent != NULL) {
        event.parent = *parent;
    }
    event.tokens_at = write_tokens(events, tokens);
    gather(events, &event);
}

void kv_events_removed(struct kv_events *events, uint8_t life,
                       const struct prefix_key *key)
{
    struct kv_event event = {
        .kind = KV_EVENT_REMOVED,
        .life = life,
        .key = *key,
    };
    gather(events, &event);
}

void kv_events_updated(struct kv_events *events, uint8_t life,
                       const struct prefix_key *key, uint8_t level_before,
                       uint8_t level, uint8_t priority_before, uint8_t priority)
{
    struct kv_event event = {
        .kind = KV_EVENT_UPDATED,
        .life = life,
        .level = level,
        .level_before = level_before,
        .priority = priority,
        .priority_before = priority_before,
        .key = *key,
    };
    push_now(events, &event);
}

void kv_events_flush(struct kv_events *events)
{
    push_batch(events);
    events->is_open = false;
}

/* -- the reader's side ---------------------------------------------------- */

uint32_t kv_events_peek(const struct kv_events *events, uint32_t max,
                        const struct kv_event **events_out)
{
    uint32_t at = events->head;
    while (at < events->tail) {
        uint32_t end = end_of(events, at);
        if (at > events->head && end - events->head > max) {
            break;
        }
        at = end;
    }
    *events_out = events->log + events->head;
    return at - events->head;
}

void kv_events_taken(struct kv_events *events, uint32_t count)
{
    CHECK(count <= events->tail - events->head);
    if (count == 0) {
        return;
    }
    events->head += count;
    CHECK(events->head == events->tail ||
          !events->log[events->head].is_continued);
    events->has_gap = false;
    events->is_open = events->is_open && events->head < events->tail;
}

const int32_t *kv_events_tokens(const struct kv_events *events,
                                const struct kv_event *event)
{
    CHECK(event->kind == KV_EVENT_STORED);
    if (event->tokens != NULL) {
        return event->tokens;
    }
    CHECK(event->tokens_at < events->row_count);
    return events->rows + (size_t)event->tokens_at * events->tokens_per_block;
}

struct kv_events_stats kv_events_stats(const struct kv_events *events)
{
    return (struct kv_events_stats){
        .events = events->id_last,
        .lost = events->lost,
        .records = record_count(events),
    };
}

size_t kv_events_bytes(const struct kv_events *events)
{
    size_t row_bytes = events->tokens_per_block * sizeof(events->rows[0]);
    return sizeof(*events) + events->row_count * row_bytes +
           (log_size(events) + (size_t)events->batch_max) *
               sizeof(struct kv_event);
}
