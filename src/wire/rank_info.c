#include "wire/rank_info.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "wire/fields.h"
#include "wire/pack.h"

/* The map's fixed part; the groups follow as an array of maps. */
struct whole {
    struct wire_rank_info info;
    struct span groups;
};

#define FIELD(kind, member, max)                                             \
    {                                                                        \
#member, WIRE_FIELD_##kind, offsetof(struct whole, info.member), max \
    }
#define TEXT(member) \
    FIELD(TEXT, member, sizeof(((struct wire_rank_info *)0)->member))

static const struct wire_field fields[] = {
    FIELD(U64, incarnation, 0),
    FIELD(U32, instance_rank, 0),
    FIELD(U32, instance_size, 0),
    FIELD(U32, tp_size, 0),
    FIELD(U32, pp_size, 0),
    FIELD(U32, dp_size, 0),
    FIELD(U32, cp_size, 0),
    TEXT(endpoint),
    TEXT(host),
    FIELD(U64, pid, 0),
    FIELD(U64, started, 0),
    TEXT(backend),
    TEXT(backend_config),
    FIELD(BYTES, backend_blob, WIRE_RANK_BLOB_SIZE_MAX),
    TEXT(lane),
    FIELD(BYTES, model_mark, WIRE_MARK_SIZE),
    FIELD(BYTES, tokenizer_mark, WIRE_MARK_SIZE),
    FIELD(U64, memory_bytes, 0),
    FIELD(U64, bounce_offset, 0),
    FIELD(U64, bounce_bytes, 0),
    FIELD(U32, bounce_chunk_bytes, 0),
    {"groups", WIRE_FIELD_VALUE, offsetof(struct whole, groups), 0},
};
enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

#define GROUP(kind, member, max)                                             \
    {                                                                        \
#member, WIRE_FIELD_##kind, offsetof(struct wire_group, member), max \
    }
static const struct wire_field group_fields[] = {
    GROUP(U32, window, 0),
    GROUP(U32, sink_tokens, 0),
    GROUP(U32, layer_count, 0),
    GROUP(BYTES, layers, 2 * WIRE_LAYER_COUNT_MAX),
    GROUP(U32, kv_head_count, 0),
    GROUP(U32, head_dim, 0),
    GROUP(U32, tokens_per_block, 0),
    GROUP(U32, element_bytes, 0),
    GROUP(U32, page_count, INT32_MAX),
    GROUP(U64, page_bytes, 0),
    GROUP(U64, base_offset, 0),
};
enum { GROUP_FIELD_COUNT = sizeof(group_fields) / sizeof(group_fields[0]) };

void wire_rank_info_encode(const struct wire_rank_info *info, struct buf *out)
{
    CHECK(info->group_count <= WIRE_GROUP_COUNT_MAX);
    const struct whole whole = {.info = *info};
    wire_fields_encode(fields, FIELD_COUNT - 1, 1, &whole, out);
    wire_pack_text(out, fields[FIELD_COUNT - 1].name);
    wire_pack_array(out, info->group_count);
    for (uint32_t i = 0; i < info->group_count; i++) {
        wire_fields_encode(group_fields, GROUP_FIELD_COUNT, 0, &info->groups[i],
                           out);
    }
}

/* Pages that lie inside the memory, by sums that cannot overflow. */
static enum err check_group(const struct wire_group *group,
                            uint64_t memory_bytes, struct why *why)
{
    if (group->tokens_per_block == 0) {
        return why_say(why, ERR_INVALID, "tokens_per_block: is 0");
    }
    if (group->page_count == 0 || group->page_bytes == 0) {
        return why_say(why, ERR_INVALID, "page_count: no pages");
    }
    if (group->base_offset > memory_bytes ||
        group->page_bytes >
            (memory_bytes - group->base_offset) / group->page_count) {
        return why_say(why, ERR_INVALID,
                       "page_count: the pages do not lie in the memory");
    }
    if (group->layers.size != 0 &&
        group->layers.size != (size_t)2 * group->layer_count) {
        return why_say(why, ERR_INVALID, "layers: not one entry a layer");
    }
    return OK;
}

static enum err read_group(struct span *input, uint64_t memory_bytes,
                           struct why *why, struct wire_group *group_out)
{
    struct span whole = *input;
    if (wire_unpack_skip(input)) {
        return why_say(why, ERR_CORRUPT, "cut short");
    }
    enum err err =
        wire_fields_decode(group_fields, GROUP_FIELD_COUNT,
                           span_slice(whole, 0, whole.size - input->size), why,
                           group_out, sizeof(*group_out));
    return err ? err : check_group(group_out, memory_bytes, why);
}

static enum err check_marks(const struct wire_rank_info *info, struct why *why)
{
    const char *bad = info->model_mark.size != WIRE_MARK_SIZE ? "model_mark"
                      : info->tokenizer_mark.size != WIRE_MARK_SIZE
                          ? "tokenizer_mark"
                          : NULL;
    return bad == NULL ? OK
                       : why_say(why, ERR_INVALID, "%s: not %d bytes", bad,
                                 WIRE_MARK_SIZE);
}

static enum err check_bounce(const struct wire_rank_info *info, struct why *why)
{
    bool is_inside =
        info->bounce_offset <= info->memory_bytes &&
        info->bounce_bytes <= info->memory_bytes - info->bounce_offset;
    bool has_chunks = info->bounce_bytes == 0 ||
                      (info->bounce_chunk_bytes > 0 &&
                       info->bounce_chunk_bytes <= info->bounce_bytes);
    if (!is_inside || !has_chunks) {
        return why_say(why, ERR_INVALID,
                       "bounce_bytes: the arena does not lie in the memory, or "
                       "not a chunk in it");
    }
    return OK;
}

static enum err read_groups(struct span groups, struct wire_rank_info *info,
                            struct why *why)
{
    struct wire_value array;
    if (wire_unpack(&groups, &array) || array.kind != WIRE_ARRAY ||
        array.count == 0 || array.count > WIRE_GROUP_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "groups: not a short array");
    }
    info->group_count = array.count;
    for (uint32_t i = 0; i < array.count; i++) {
        enum err err =
            read_group(&groups, info->memory_bytes, why, &info->groups[i]);
        if (!err && info->groups[i].tokens_per_block !=
                        info->groups[0].tokens_per_block) {
            err = why_say(why, ERR_INVALID,
                          "tokens_per_block: not that of groups[0]");
        }
        if (err) {
            return why_prefix(why, err, "groups[%u]", i);
        }
    }
    return OK;
}

enum err wire_rank_info_decode(struct span body, struct why *why,
                               struct wire_rank_info *info_out)
{
    struct whole whole;
    enum err err = wire_fields_decode(fields, FIELD_COUNT, body, why, &whole,
                                      sizeof(whole));
    err = err ? err : read_groups(whole.groups, &whole.info, why);
    err = err ? err : check_marks(&whole.info, why);
    err = err ? err : check_bounce(&whole.info, why);
    if (err) {
        return why_prefix(why, err, "rank info");
    }
    *info_out = whole.info;
    return OK;
}

/* -------- compare -------- */

struct number {
    const char *name;
    uint64_t sender, receiver;
};

static enum err compare_numbers(const char *prefix,
                                const struct number *numbers, size_t count,
                                struct why *why)
{
    for (size_t i = 0; i < count; i++) {
        if (numbers[i].sender != numbers[i].receiver) {
            return why_say(why, ERR_UNSUPPORTED,
                           "%s%s: %llu at the sender, %llu at the receiver",
                           prefix, numbers[i].name,
                           (unsigned long long)numbers[i].sender,
                           (unsigned long long)numbers[i].receiver);
        }
    }
    return OK;
}

#define SAME(member)                              \
    {                                             \
#member, sender->member, receiver->member \
    }

static enum err compare_ranks(const struct wire_rank_info *sender,
                              const struct wire_rank_info *receiver,
                              struct why *why)
{
    const struct number numbers[] = {SAME(instance_size), SAME(instance_rank),
                                     SAME(tp_size),       SAME(pp_size),
                                     SAME(dp_size),       SAME(cp_size),
                                     SAME(group_count)};
    return compare_numbers("", numbers, sizeof(numbers) / sizeof(numbers[0]),
                           why);
}

/* Who does not say which layers it has is believed. */
static enum err compare_layers(const char *prefix, struct span sender,
                               struct span receiver, struct why *why)
{
    bool is_told = sender.size > 0 && receiver.size > 0;
    for (size_t i = 0; is_told && i < sender.size; i += 2) {
        uint32_t a = sender.data[i] | (uint32_t)sender.data[i + 1] << 8;
        uint32_t b = receiver.data[i] | (uint32_t)receiver.data[i + 1] << 8;
        if (a != b) {
            return why_say(why, ERR_UNSUPPORTED,
                           "%slayers[%zu]: %u at the sender, %u at the "
                           "receiver",
                           prefix, i / 2, a, b);
        }
    }
    return OK;
}

/* Does a page hold what it is said to hold? By products that cannot overflow. */
static bool holds_layout(const struct wire_group *group)
{
    const uint64_t factors[] = {group->layer_count, group->kv_head_count,
                                group->head_dim, group->tokens_per_block,
                                group->element_bytes};
    uint64_t size = 2;
    for (size_t i = 0; i < sizeof(factors) / sizeof(factors[0]); i++) {
        if (__builtin_mul_overflow(size, factors[i], &size)) {
            return false;
        }
    }
    return size <= group->page_bytes;
}

static enum err compare_blocks(const char *prefix,
                               const struct wire_group *sender,
                               const struct wire_group *receiver,
                               struct why *why)
{
    uint32_t a = sender->tokens_per_block, b = receiver->tokens_per_block;
    if (a == b) {
        const struct number page_bytes[] = {SAME(page_bytes)};
        return compare_numbers(prefix, page_bytes, 1, why);
    }
    if (a % b != 0 && b % a != 0) {
        return why_say(why, ERR_UNSUPPORTED,
                       "%stokens_per_block: %u at the sender, %u at the "
                       "receiver, neither a multiple of the other",
                       prefix, a, b);
    }
    if (!holds_layout(sender) || !holds_layout(receiver)) {
        return why_say(why, ERR_UNSUPPORTED,
                       "%spage_bytes: %llu at the sender, %llu at the "
                       "receiver, less than the layout needs",
                       prefix, (unsigned long long)sender->page_bytes,
                       (unsigned long long)receiver->page_bytes);
    }
    return OK;
}

static enum err compare_group(uint32_t index, const struct wire_group *sender,
                              const struct wire_group *receiver,
                              struct why *why)
{
    const struct number numbers[] = {
        SAME(window),        SAME(sink_tokens), SAME(layer_count),
        SAME(kv_head_count), SAME(head_dim),    SAME(element_bytes),
    };
    char prefix[24];
    snprintf(prefix, sizeof(prefix), "groups[%u].", index);
    enum err err = compare_numbers(prefix, numbers,
                                   sizeof(numbers) / sizeof(numbers[0]), why);
    err = err ? err : compare_blocks(prefix, sender, receiver, why);
    return err ? err
               : compare_layers(prefix, sender->layers, receiver->layers, why);
}

static bool is_same_life(const struct wire_group *a, const struct wire_group *b)
{
    bool are_told = a->layers.size > 0 && b->layers.size > 0;
    return a->window == b->window && a->sink_tokens == b->sink_tokens &&
           a->layer_count == b->layer_count &&
           (!are_told || span_equals(a->layers, b->layers));
}

bool wire_rank_info_pair_groups(const struct wire_rank_info *a,
                                const struct wire_rank_info *b,
                                uint8_t b_of_a_out[WIRE_GROUP_COUNT_MAX])
{
    uint8_t others[WIRE_GROUP_COUNT_MAX];
    uint32_t count = a->group_count;
    uint32_t paired = 0, taken = 0; /* a bit a group */
    for (uint32_t i = 0; count == b->group_count && i < count * count; i++) {
        uint32_t of_a = i % count, of_b = (i + i / count) % count;
        if (!(paired & 1u << of_a) && !(taken & 1u << of_b) &&
            is_same_life(&a->groups[of_a], &b->groups[of_b])) {
            others[of_a] = (uint8_t)of_b;
            paired |= 1u << of_a;
            taken |= 1u << of_b;
        }
    }
    if (paired == 0 || paired != (1u << count) - 1) {
        return false;
    }
    memcpy(b_of_a_out, others, count);
    return true;
}

static enum err compare_text(const char *name, const char *sender,
                             const char *receiver, struct why *why)
{
    if (strcmp(sender, receiver) != 0) {
        return why_say(why, ERR_UNSUPPORTED,
                       "%s: '%s' at the sender, '%s' at the receiver", name,
                       sender, receiver);
    }
    return OK;
}

static uint64_t first_bytes(struct span mark)
{
    uint64_t value = 0;
    for (size_t i = 0; i < 8; i++) {
        value = value << 8 | (i < mark.size ? mark.data[i] : 0);
    }
    return value;
}

static enum err compare_mark(const char *name, struct span sender,
                             struct span receiver, struct why *why)
{
    return span_equals(sender, receiver)
               ? OK
               : why_say(why, ERR_UNSUPPORTED,
                         "%s: %016llx at the sender, %016llx at the receiver",
                         name, (unsigned long long)first_bytes(sender),
                         (unsigned long long)first_bytes(receiver));
}

enum err wire_rank_info_compare(const struct wire_rank_info *sender,
                                const struct wire_rank_info *receiver,
                                struct why *why)
{
    enum err err = compare_mark("model_mark", sender->model_mark,
                                receiver->model_mark, why);
    err = err ? err
              : compare_mark("tokenizer_mark", sender->tokenizer_mark,
                             receiver->tokenizer_mark, why);
    err =
        err ? err
            : compare_text("backend", sender->backend, receiver->backend, why);
    err = err ? err
              : compare_text("backend_config", sender->backend_config,
                             receiver->backend_config, why);
    err = err ? err : compare_ranks(sender, receiver, why);
    /* Where they do not pair, two of one index differ and are named. */
    uint8_t others[WIRE_GROUP_COUNT_MAX];
    bool are_paired =
        !err && wire_rank_info_pair_groups(sender, receiver, others);
    for (uint32_t i = 0; !err && i < sender->group_count; i++) {
        uint32_t other = are_paired ? others[i] : i;
        err =
            compare_group(i, &sender->groups[i], &receiver->groups[other], why);
    }
    return err;
}
