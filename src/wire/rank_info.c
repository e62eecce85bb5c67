#include "wire/rank_info.h"

#include <string.h>

#include "wire/fields.h"

#define FIELD(kind, member, max)                                             \
    {                                                                        \
#member, WIRE_FIELD_##kind, offsetof(struct wire_rank_info, member), \
            max                                                              \
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
    FIELD(U32, layer_count, 0),
    FIELD(U32, kv_head_count, 0),
    FIELD(U32, head_dim, 0),
    FIELD(U32, tokens_per_block, 0),
    FIELD(U32, element_bytes, 0),
    FIELD(U32, page_count, INT32_MAX),
    FIELD(U64, page_bytes, 0),
};
enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

void wire_rank_info_encode(const struct wire_rank_info *info, struct buf *out)
{
    wire_fields_encode(fields, FIELD_COUNT, 0, info, out);
}

enum err wire_rank_info_decode(struct span body, struct why *why,
                               struct wire_rank_info *info_out)
{
    enum err err = wire_fields_decode(fields, FIELD_COUNT, body, why, info_out,
                                      sizeof(*info_out));
    return err ? why_prefix(why, err, "rank info") : OK;
}

static enum err compare_numbers(const struct wire_rank_info *sender,
                                const struct wire_rank_info *receiver,
                                struct why *why)
{
    const struct {
        const char *name;
        uint64_t sender, receiver;
    } pairs[] = {
        {"instance_size", sender->instance_size, receiver->instance_size},
        {"instance_rank", sender->instance_rank, receiver->instance_rank},
        {"tp_size", sender->tp_size, receiver->tp_size},
        {"pp_size", sender->pp_size, receiver->pp_size},
        {"dp_size", sender->dp_size, receiver->dp_size},
        {"cp_size", sender->cp_size, receiver->cp_size},
        {"layer_count", sender->layer_count, receiver->layer_count},
        {"kv_head_count", sender->kv_head_count, receiver->kv_head_count},
        {"head_dim", sender->head_dim, receiver->head_dim},
        {"tokens_per_block", sender->tokens_per_block,
         receiver->tokens_per_block},
        {"element_bytes", sender->element_bytes, receiver->element_bytes},
        {"page_bytes", sender->page_bytes, receiver->page_bytes},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (pairs[i].sender != pairs[i].receiver) {
            return why_say(why, ERR_UNSUPPORTED,
                           "%s: %llu at the sender, %llu at the receiver",
                           pairs[i].name, (unsigned long long)pairs[i].sender,
                           (unsigned long long)pairs[i].receiver);
        }
    }
    return OK;
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

enum err wire_rank_info_compare(const struct wire_rank_info *sender,
                                const struct wire_rank_info *receiver,
                                struct why *why)
{
    enum err err =
        compare_text("backend", sender->backend, receiver->backend, why);
    err = err ? err
              : compare_text("backend_config", sender->backend_config,
                             receiver->backend_config, why);
    return err ? err : compare_numbers(sender, receiver, why);
}
