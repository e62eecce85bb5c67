#pragma once
/* Generation-first between rigs: a transfer that carries a slice as soon as it
 * is ordered, and first tokens with the last one. */
#include "unit/engine/rig.h"

#include "agree/word.h"
#include "kv/life.h"

enum {
    STREAM_RID_MAX = 32,
    STREAM_NEXT = 100 /* generation ids: rid + NEXT */
};

struct stream {
    struct rig *from, *to; /* NULL: that half has not ordered, or is over */
    struct transfer_command send; /* OFFER, then each slice */
    struct transfer_command receive;
    bool is_told; /* the offer knows of its receiver */
    bool is_cancelled; /* who comes now comes too late */
    uint32_t slice_count;
    uint32_t ends[64];
};

struct streams {
    struct stream of[STREAM_RID_MAX]; /* by rid */
    bool holds_reports; /* slices do not drain */
};

static inline struct engine_request *stream_half(enum engine_kind kind,
                                                 int64_t rid, int prompt_kind,
                                                 uint32_t tokens)
{
    uint64_t id =
        (uint64_t)rid + (kind == ENGINE_GENERATION_ONLY ? STREAM_NEXT : 0);
    struct engine_request *request = rig_request(id, prompt_kind, tokens);
    request->kind = kind;
    request->rid = rid;
    request->is_generation_first = true;
    snprintf(request->sender_endpoint, sizeof(request->sender_endpoint),
             "tcp://host:1");
    return request;
}

static inline void stream_report(struct rig *rig,
                                 const struct transfer_command *command,
                                 const struct transfer_report *report)
{
    struct transfer_report copy = *report;
    copy.request = command->request;
    engine_core_report(rig->core, rig->now_ns, &copy);
    assert_true(engine_core_is_valid(rig->core));
}

static inline void stream_tell(struct stream *stream)
{
    if (stream->from != NULL && stream->to != NULL && !stream->is_told) {
        stream->is_told = true;
        stream_report(stream->from, &stream->send,
                      &(struct transfer_report){.is_awaited = true});
    }
}

static inline bool stream_has(const struct rig *rig, uint32_t life,
                              uint32_t tokens)
{
    return kv_range_count(kv_life_stale(&rig->hash.lives[life],
                                        rig->hash.tokens_per_block, tokens)) ==
           0;
}

static inline void stream_carry(struct streams *streams, struct stream *stream,
                                const struct transfer_command *slice)
{
    const uint8_t done = AGREE_TERMINAL | AGREE_QUIET;
    assert_true(stream->is_told);
    assert_int_equal(slice->slice_index, stream->slice_count);
    assert_int_equal(
        slice->first_block,
        stream->slice_count == 0 ? 0 : stream->ends[stream->slice_count - 1]);
    stream->ends[stream->slice_count++] = slice->end_block;
    for (uint32_t life = 0; life < slice->group_count; life++) {
        bool streams_now = stream_has(stream->from, life, slice->prompt_tokens);
        if (streams_now || slice->is_last) {
            rig_move_blocks(stream->from, slice, stream->to, &stream->receive,
                            life, streams_now ? slice->first_block : 0,
                            slice->end_block);
        }
    }
    if (!slice->is_last) {
        if (!streams->holds_reports) {
            stream_report(
                stream->from, slice,
                &(struct transfer_report){.is_awaited = true,
                                          .slice_index = stream->slice_count});
        }
        return;
    }
    assert_non_null(slice->aux);
    stream_report(
        stream->from, slice,
        &(struct transfer_report){.word = done,
                                  .is_awaited = true,
                                  .slice_index = stream->slice_count});
    stream_report(stream->to, &stream->receive,
                  &(struct transfer_report){.word = done, .aux = slice->aux});
    *stream = (struct stream){0};
}

/* Both halves are told that nothing comes of it. */
static inline void stream_cancel(struct stream *stream)
{
    const struct transfer_report gone = {.word = AGREE_TERMINAL | AGREE_FAILED |
                                                 AGREE_CANCEL | AGREE_QUIET,
                                         .reason = AGREE_REASON_PEER_CANCEL};
    if (stream->from != NULL) {
        stream_report(stream->from, &stream->send, &gone);
    }
    if (stream->to != NULL) {
        stream_report(stream->to, &stream->receive, &gone);
    }
    *stream = (struct stream){.is_cancelled = true};
}

/* Nobody had asked: it may be offered again. */
static inline void stream_withdraw(struct stream *stream)
{
    if (stream->is_told || stream->is_cancelled) {
        return;
    }
    stream_report(stream->from, &stream->send,
                  &(struct transfer_report){.word = AGREE_TERMINAL |
                                                    AGREE_FAILED | AGREE_QUIET,
                                            .reason = AGREE_REASON_REFUSED,
                                            .is_withdrawn = true});
    stream->from = NULL;
}

/* Carries out what this rig has ordered. */
static inline void stream_turn(struct streams *streams, struct rig *rig)
{
    struct transfer_command order = {0};
    while (rig_take_order(rig, &order)) {
        struct stream *stream = &streams->of[order.rid];
        switch (order.kind) {
        case TRANSFER_OFFER:
            stream->from = rig;
            stream->send = order;
            break;
        case TRANSFER_WITHDRAW:
            stream_withdraw(stream);
            break;
        case TRANSFER_RECEIVE:
            assert_true(order.is_generation_first);
            stream->to = rig;
            stream->receive = order;
            break;
        case TRANSFER_SEND:
            stream_carry(streams, stream, &order);
            break;
        case TRANSFER_CANCEL:
            stream_cancel(stream);
            break;
        }
        if (stream->is_cancelled) {
            stream_cancel(stream);
        }
        stream_tell(stream);
    }
}

/* A worker that computes, and one that goes on. */
struct stream_pair {
    struct rig *context, *generation;
    struct streams streams;
};

static inline void stream_pair_open(struct stream_pair *pair,
                                    const struct engine_core_options *options)
{
    *pair = (struct stream_pair){.context = rig_create(options),
                                 .generation = rig_create(options)};
}

static inline void stream_pair_close(struct stream_pair *pair)
{
    rig_assert_idle(pair->context);
    rig_assert_idle(pair->generation);
    rig_destroy(pair->context);
    rig_destroy(pair->generation);
}

static inline void stream_pair_run(struct stream_pair *pair, int turns)
{
    for (int i = 0; i < turns; i++) {
        rig_turn(pair->generation);
        stream_turn(&pair->streams, pair->generation);
        rig_turn(pair->context);
        stream_turn(&pair->streams, pair->context);
    }
}

/* Turns of `count` rigs one after the other, whose clocks go on by `step_ns`. */
static inline void stream_run(struct streams *streams, struct rig **rigs,
                              int count, int turns, uint64_t step_ns)
{
    for (int turn = 0; turn < turns; turn++) {
        for (int i = 0; i < count; i++) {
            rig_turn(rigs[i]);
            rigs[i]->now_ns += step_ns;
            stream_turn(streams, rigs[i]);
        }
    }
}
