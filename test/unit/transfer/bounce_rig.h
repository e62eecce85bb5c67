#pragma once
/* A bounce beside a control that only notes what is said; its arena is the
 * upper half of the memory, pages 0 to 7 are the pool. */
#include "fake_control.h"

#include "transfer/bounce_body.h"

enum {
    RIG_GRANULE = 256,
    RIG_ARENA = 4096, /* offset and size */
    RIG_PEER = 0xb,
    RIG_RID = 9,
    RIG_ATTEMPT = 3
};

struct rig {
    struct around around;
    struct bounce *bounce;
    struct link link;
    uint32_t sent_count, broken_count;
    enum bounce_outcome outcome;
    uint64_t received;
};

static inline void rig_on_sent(void *context, void *owner,
                               enum bounce_outcome outcome, uint64_t now)
{
    struct rig *rig = context;
    assert_ptr_equal(owner, rig);
    (void)now;
    rig->sent_count++;
    rig->outcome = outcome;
}

static inline void rig_on_received(void *context, const struct bounce_key *key,
                                   uint64_t bytes)
{
    struct rig *rig = context;
    assert_int_equal(key->rid, RIG_RID);
    rig->received += bytes;
}

static inline void rig_on_broken(void *context, const struct bounce_key *key,
                                 uint64_t now)
{
    struct rig *rig = context;
    assert_int_equal(key->rid, RIG_RID);
    (void)now;
    rig->broken_count++;
}

static inline void rig_open(struct rig *rig)
{
    memset(rig, 0, sizeof(*rig));
    around_open(&rig->around);
    rig->around.options.bounce =
        (struct transfer_bounce_options){.offset = RIG_ARENA,
                                         .size = RIG_ARENA,
                                         .granule = RIG_GRANULE,
                                         .is_forced = true};
    struct bounce_options options = {.transfer = &rig->around.options,
                                     .stats = &rig->around.stats,
                                     .wake = no_wake,
                                     .on_sent = rig_on_sent,
                                     .on_received = rig_on_received,
                                     .on_broken = rig_on_broken,
                                     .context = rig};
    assert_int_equal(bounce_create(&options, &rig->bounce), OK);
    bounce_set_control(rig->bounce, &fake_control);
    rig->link = (struct link){.is_used = true,
                              .state = PEER_REGISTERED,
                              .incarnation = RIG_PEER,
                              .wanted = RIG_PEER,
                              .lane = "memory",
                              .bounce = {RIG_ARENA, RIG_ARENA, 2048}};
    fake_control.sender = &rig->link;
}

static inline void rig_close(struct rig *rig)
{
    struct transfer_arena_counts counts =
        transfer_arena_counts(rig->bounce->arena);
    assert_int_equal(counts.live + counts.quarantined, 0);
    bounce_destroy(rig->bounce);
    around_close(&rig->around);
}

/* The last thing said, which is of that kind. */
static inline struct span rig_said(uint16_t type)
{
    assert_true(fake_control.said_count > 0);
    struct said *said = &fake_control.said[fake_control.said_count - 1];
    assert_int_equal(said->type, type);
    assert_int_equal(said->rid, RIG_RID);
    assert_int_equal(said->attempt, RIG_ATTEMPT);
    return span_of(said->body, said->size);
}

static inline struct wire_header rig_header(uint16_t type)
{
    return (struct wire_header){
        .type = type, .rid = RIG_RID, .attempt = RIG_ATTEMPT};
}
