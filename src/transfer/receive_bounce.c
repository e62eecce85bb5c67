/* A receive whose pages come packed (bounce.h): which of its frames have effect,
 * and that nothing of it lands once it is over. */
#include "agree/word.h"
#include "transfer/receive_slot.h"

void receive_bounce_frame(struct receive_side *side, struct link *link,
                          const struct wire_header *header, struct span body,
                          uint64_t now)
{
    struct receive_slot *slot =
        receive_side_find(side, link->incarnation, header->rid);
    if (side->options.bounce == NULL || slot == NULL ||
        slot->session.attempt != header->attempt) {
        side->options.stats->frames_dropped++;
        return;
    }
    struct bounce_key key = receive_slot_key(slot);
    struct span ranges = span_of(NULL, 0);
    if (!bounce_knows(side->options.bounce, &key) &&
        receive_grant_ranges(side, slot, &ranges)) {
        return; /* no memory: the sender goes the plain way soon */
    }
    bool is_over = slot->session.word & AGREE_TERMINAL;
    bounce_hear_sender(side->options.bounce, link, header, body, &key,
                       is_over || slot->is_verifying, ranges, now);
}

void receive_bounce_end(struct receive_side *side, struct receive_slot *slot,
                        uint64_t now, bool is_quiet)
{
    struct bounce_key key = receive_slot_key(slot);
    if (side->options.bounce != NULL && is_quiet) {
        bounce_quiet(side->options.bounce, &key, now);
    } else if (side->options.bounce != NULL) {
        bounce_reclaim(side->options.bounce, &key, now);
    }
}

static struct receive_slot *find_key(struct receive_side *side,
                                     const struct bounce_key *key)
{
    struct receive_slot *slot = receive_side_find(side, key->sender, key->rid);
    return slot != NULL && slot->session.attempt == key->attempt ? slot : NULL;
}

void receive_side_unpacked(struct receive_side *side,
                           const struct bounce_key *key, uint64_t bytes)
{
    struct receive_slot *slot = find_key(side, key);
    if (slot != NULL) {
        slot->bounced_bytes += bytes;
    }
}

void receive_side_broken(struct receive_side *side,
                         const struct bounce_key *key, uint64_t now)
{
    struct receive_slot *slot = find_key(side, key);
    if (slot != NULL) {
        receive_side_simple_step(side, slot, RX_BROKEN, now);
    }
}
