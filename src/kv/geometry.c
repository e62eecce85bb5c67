#include "kv/geometry.h"

#include <string.h>

#include "base/check.h"

enum { SIZE_STEP = 16 }; /* of copies (engine.md 1.11) */

/* Buffers of one life cycle and one size: they lie back to back in a slot. */
struct run {
    size_t bytes; /* of one buffer */
    uint32_t count;
};
struct runs {
    struct run items[KV_POOL_COUNT_MAX]; /* (count) largest in all first */
    uint32_t count;
};

static size_t run_bytes(const struct run *run)
{
    return run->bytes * run->count;
}

static enum err check_buffer(const struct kv_buffer *buffer, uint32_t index,
                             uint32_t life_count, struct why *why)
{
    uint32_t expansion = buffer->expansion > 0 ? buffer->expansion : 1;
    if (buffer->life >= life_count) {
        return why_say(why, ERR_INVALID,
                       "buffer %u: life: %u, there are %u life cycles", index,
                       buffer->life, life_count);
    }
    if (buffer->bytes == 0 || buffer->bytes % SIZE_STEP != 0) {
        return why_say(why, ERR_INVALID,
                       "buffer %u: bytes: %zu is no multiple of %d", index,
                       buffer->bytes, SIZE_STEP);
    }
    if (buffer->bytes > (size_t)1 << 40) {
        return why_say(why, ERR_INVALID, "buffer %u: bytes: %zu is too large",
                       index, buffer->bytes);
    }
    if (buffer->bytes % expansion != 0) {
        return why_say(why, ERR_INVALID,
                       "buffer %u: expansion: %zu bytes are no %u pages", index,
                       buffer->bytes, expansion);
    }
    return OK;
}

static enum err check_roles(const struct kv_buffer *buffers, uint32_t count,
                            struct why *why)
{
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            if (buffers[i].layer == buffers[j].layer &&
                buffers[i].role == buffers[j].role) {
                return why_say(why, ERR_INVALID,
                               "buffer %u: role: layer %u has role %u already",
                               i, buffers[i].layer, buffers[i].role);
            }
        }
    }
    return OK;
}

static enum err check(const struct kv_buffer *buffers, uint32_t buffer_count,
                      uint32_t life_count, struct why *why)
{
    if (life_count == 0 || life_count > KV_LIFE_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "life_count: %u, not in 1 .. %d",
                       life_count, KV_LIFE_COUNT_MAX);
    }
    if (buffer_count > KV_BUFFER_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "buffer_count: %u is more than %d",
                       buffer_count, KV_BUFFER_COUNT_MAX);
    }
    for (uint32_t i = 0; i < buffer_count; i++) {
        enum err err = check_buffer(&buffers[i], i, life_count, why);
        if (err != OK) {
            return err;
        }
    }
    return check_roles(buffers, buffer_count, why);
}

/* The life's run of that size; NULL: it has none. */
static struct run *find_run(struct runs *runs, size_t bytes)
{
    for (uint32_t i = 0; i < runs->count; i++) {
        if (runs->items[i].bytes == bytes) {
            return &runs->items[i];
        }
    }
    return NULL;
}

static void sort_runs(struct runs *runs)
{
    for (uint32_t i = 1; i < runs->count; i++) {
        struct run run = runs->items[i];
        uint32_t at = i;
        for (; at > 0 && run_bytes(&runs->items[at - 1]) < run_bytes(&run);
             at--) {
            runs->items[at] = runs->items[at - 1];
        }
        runs->items[at] = run;
    }
}

static enum err collect(const struct kv_buffer *buffers, uint32_t buffer_count,
                        uint32_t life, struct why *why, struct runs *runs_out)
{
    struct runs runs = {.count = 0};
    for (uint32_t i = 0; i < buffer_count; i++) {
        if (buffers[i].life != life) {
            continue;
        }
        struct run *run = find_run(&runs, buffers[i].bytes);
        if (run == NULL && runs.count == KV_POOL_COUNT_MAX) {
            return why_say(why, ERR_INVALID,
                           "buffer %u: bytes: life cycle %u has more than %d "
                           "sizes",
                           i, life, KV_POOL_COUNT_MAX);
        }
        if (run == NULL) {
            run = &runs.items[runs.count++];
            *run = (struct run){.bytes = buffers[i].bytes};
        }
        run->count++;
    }
    if (runs.count == 0) {
        return why_say(why, ERR_INVALID, "life cycle %u has no buffer", life);
    }
    sort_runs(&runs);
    *runs_out = runs;
    return OK;
}

static bool has_list(const struct kv_geometry *geometry, uint32_t group,
                     const struct runs *runs)
{
    if (geometry->pool_counts[group] != runs->count) {
        return false;
    }
    for (uint32_t i = 0; i < runs->count; i++) {
        if (geometry->slot_bytes[group][i] != run_bytes(&runs->items[i])) {
            return false;
        }
    }
    return true;
}

/* The group of equal slots, or a new one. */
static uint8_t join(struct kv_geometry *geometry, const struct runs *runs)
{
    for (uint32_t group = 0; group < geometry->group_count; group++) {
        if (has_list(geometry, group, runs)) {
            return (uint8_t)group;
        }
    }
    uint32_t group = geometry->group_count++;
    geometry->pool_counts[group] = runs->count;
    for (uint32_t i = 0; i < runs->count; i++) {
        geometry->slot_bytes[group][i] = run_bytes(&runs->items[i]);
    }
    return (uint8_t)group;
}

/* Buffers of a run in the order given. */
static void place(const struct kv_buffer *buffers, uint32_t buffer_count,
                  uint32_t life, uint8_t group, struct runs *runs,
                  struct kv_place *places_out)
{
    uint32_t placed[KV_POOL_COUNT_MAX] = {0};
    for (uint32_t i = 0; i < buffer_count; i++) {
        const struct kv_buffer *buffer = &buffers[i];
        if (buffer->life != life) {
            continue;
        }
        struct run *run = find_run(runs, buffer->bytes);
        CHECK(run != NULL);
        uint8_t pool = (uint8_t)(run - runs->items);
        uint32_t at = placed[pool]++;
        uint32_t expansion = buffer->expansion > 0 ? buffer->expansion : 1;
        places_out[i] = (struct kv_place){
            .group = group,
            .pool = pool,
            .offset = at * buffer->bytes,
            .scale = run->count * expansion,
            .offset_pages = at * expansion,
        };
    }
}

enum err kv_geometry_plan(const struct kv_buffer *buffers,
                          uint32_t buffer_count, uint32_t life_count,
                          struct why *why, struct kv_geometry *geometry_out,
                          struct kv_place *places_out)
{
    struct runs runs[KV_LIFE_COUNT_MAX];
    enum err err = check(buffers, buffer_count, life_count, why);
    for (uint32_t life = 0; err == OK && life < life_count; life++) {
        err = collect(buffers, buffer_count, life, why, &runs[life]);
    }
    if (err != OK) {
        return err;
    }
    struct kv_geometry geometry;
    memset(&geometry, 0, sizeof(geometry));
    for (uint32_t life = 0; life < life_count; life++) {
        uint8_t group = join(&geometry, &runs[life]);
        geometry.group_of[life] = group;
        place(buffers, buffer_count, life, group, &runs[life], places_out);
    }
    *geometry_out = geometry;
    return OK;
}

size_t kv_geometry_chunk_bytes(size_t quota_bytes)
{
    enum { SHIFT_MAX = 4 };
    size_t chunk = (size_t)2 << 20;
    size_t units = quota_bytes / (chunk * 512);
    uint32_t shift = 0;
    while (shift < SHIFT_MAX && units >= (size_t)2 << shift) {
        shift++;
    }
    return chunk << shift;
}
