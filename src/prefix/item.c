#include "prefix/item.h"

#include <string.h>

#include "base/digest.h"

static enum err check_source(const struct prefix_item_source *source,
                             struct why *why)
{
    if (source->token_count == 0) {
        return why_say(why, ERR_INVALID, "media item: no tokens");
    }
    uint64_t end = (uint64_t)source->vocab_size + source->token_count;
    if (end > (uint64_t)INT32_MAX + 1) {
        return why_say(why, ERR_INVALID,
                       "media item: %u tokens above a vocabulary of %u do not "
                       "fit 31 bits",
                       source->token_count, source->vocab_size);
    }
    return OK;
}

/* BLAKE3 of the user's id, whatever its length, and the content digest. */
static enum err mix_user_id(const struct prefix_item_source *source,
                            uint8_t name_out[PREFIX_ITEM_DIGEST_SIZE])
{
    struct buf both;
    buf_init(&both, source->user_id.size + PREFIX_ITEM_DIGEST_SIZE + 1);
    buf_add_span(&both, source->user_id);
    buf_add(&both, source->content, PREFIX_ITEM_DIGEST_SIZE);
    enum err err = buf_error(&both);
    if (err == OK) {
        digest_blake3(NULL, buf_span(&both), name_out, PREFIX_ITEM_DIGEST_SIZE);
    }
    buf_finish(&both);
    return err;
}

enum err prefix_item_init(const struct prefix_item_source *source,
                          uint32_t position, struct why *why,
                          struct prefix_item *item_out, int32_t *ids_out)
{
    enum err err = check_source(source, why);
    if (err != OK) {
        return err;
    }
    struct prefix_item item = {.position = position,
                               .has_user_id = source->has_user_id};
    memcpy(item.name, source->content, sizeof(item.name));
    if (source->has_user_id) {
        err = mix_user_id(source, item.name);
    }
    if (err != OK) {
        return why_say(why, err, "media item: user id of %zu bytes: %s",
                       source->user_id.size, err_name(err));
    }
    for (uint32_t i = 0; i < source->token_count; i++) {
        ids_out[i] = (int32_t)(source->vocab_size + i);
    }
    *item_out = item;
    return OK;
}
