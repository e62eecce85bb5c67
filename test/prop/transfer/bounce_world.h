#pragma once
/* Nodes on one thread that write to each other through their arenas: the two
 * roles of the product, with channels, copies and one-sided writes that move
 * when the test says so, in random order.
 *
 *   node    | sources (read only) | targets, one place a job | arena |
 *
 * Writes move a few bytes at a time and check that each lands in a region that
 * was granted to their handle and to nobody else. */
#include "unit/base/test.h"

#include "base/mem.h"
#include "base/rng.h"
#include "transfer/arena.h"
#include "transfer/bounce_receive.h"
#include "transfer/bounce_send.h"
#include "wire/bounce.h"
#include "wire/frame.h"

enum {
    NODES = 3,
    JOBS_MAX = 24,
    PIECES_MAX = 64,
    PIECE_MAX = 2048,
    SOURCE_SIZE = 1 << 20,
    PLACE = PIECES_MAX * PIECE_MAX, /* of a job's target */
    GRANULE = 1024,
    ARENA_MAX = 64 * GRANULE,
    ARENA_AT = SOURCE_SIZE + JOBS_MAX * PLACE,
    MEMORY = ARENA_AT + ARENA_MAX,
    CHANNEL_MAX = 256,
    WRITES_MAX = 512
};
#define MS UINT64_C(1000000)

struct piece {
    uint64_t source, target;
    uint32_t size;
};

/* One write of one session. */
struct job {
    uint32_t from, to; /* nodes */
    struct piece pieces[PIECES_MAX];
    uint32_t piece_count;
    uint32_t firsts[PIECES_MAX + 1]; /* piece a chunk begins with */
    uint32_t sizes[PIECES_MAX];
    uint32_t chunk_count;
    uint32_t flow; /* at the sender */
    bool is_open, has_ended, is_receiver_gone;
    enum bounce_outcome outcome;
    uint32_t waits; /* grants to others while a head of it waited */
};

struct note {
    uint16_t type;
    uint32_t job;
    uint8_t body[512];
    size_t size;
};
struct channel {
    struct note notes[CHANNEL_MAX];
    uint32_t first, count;
};

struct moving {
    bool is_used, is_lost;
    uint32_t job, slot, done;
    uint64_t staging, target, handle;
    uint32_t size;
};

struct node {
    uint8_t *memory;
    struct transfer_arena *arena;
    struct bounce_send send;
    struct bounce_receive receive;
    bool is_dead;
    uint64_t owners[ARENA_MAX / GRANULE]; /* handle; 0: not granted */
    struct {
        bool is_due;
        uint32_t flow, slot;
    } gather, scatter;
};

static struct world {
    struct rng rng;
    uint64_t now;
    uint64_t arena_size;
    uint32_t chunk_max;
    bool is_revocable;
    struct node nodes[NODES];
    struct channel channels[NODES][NODES];
    struct moving moves[WRITES_MAX];
    struct job jobs[JOBS_MAX];
    uint32_t job_count;
} world;

static uint32_t chance(uint32_t below)
{
    return (uint32_t)rng_below(&world.rng, below);
}

static struct bounce_key key_of(uint32_t job)
{
    return (struct bounce_key){1 + world.jobs[job].from, job, 1};
}

static uint32_t job_of_flow(uint32_t node, uint32_t flow)
{
    for (uint32_t i = 0; i < world.job_count; i++) {
        struct job *job = &world.jobs[i];
        if (job->is_open && job->from == node && job->flow == flow) {
            return i;
        }
    }
    fail_msg("a flow of nobody");
    return 0;
}

static void say(uint32_t from, uint32_t to, uint16_t type, uint32_t job,
                const struct buf *body)
{
    struct channel *channel = &world.channels[from][to];
    assert_true(channel->count < CHANNEL_MAX);
    struct note *note =
        &channel->notes[(channel->first + channel->count++) % CHANNEL_MAX];
    assert_true(body->size <= sizeof(note->body));
    *note = (struct note){.type = type, .job = job, .size = body->size};
    memcpy(note->body, body->data, body->size);
}

/* -------- what the sender's half wants done -------- */

static void send_step(uint32_t node, const struct bounce_send_event *event);

static void say_want(uint32_t index, uint32_t slot, bool is_cancel)
{
    struct job *job = &world.jobs[index];
    const struct bounce_out_chunk *chunk =
        &world.nodes[job->from].send.flows[job->flow].chunks[slot];
    struct wire_bounce_want want = {0};
    if (!is_cancel) {
        want = (struct wire_bounce_want){
            0, job->chunk_count, chunk->index, 1, {chunk->size}};
    }
    struct buf body;
    buf_init(&body, 512);
    wire_bounce_want_encode(&want, &body);
    say(job->from, job->to, WIRE_BOUNCE_WANT, index, &body);
    buf_finish(&body);
}

static void say_data(uint32_t index, uint32_t slot)
{
    struct job *job = &world.jobs[index];
    const struct bounce_out_chunk *chunk =
        &world.nodes[job->from].send.flows[job->flow].chunks[slot];
    struct wire_bounce_data data = {.chunk = chunk->index,
                                    .handle = chunk->handle};
    struct buf body;
    buf_init(&body, 512);
    wire_bounce_data_encode(&data, &body);
    say(job->from, job->to, WIRE_BOUNCE_DATA, index, &body);
    buf_finish(&body);
}

static void start_move(uint32_t index, uint32_t slot)
{
    struct job *job = &world.jobs[index];
    const struct bounce_out_chunk *chunk =
        &world.nodes[job->from].send.flows[job->flow].chunks[slot];
    uint32_t at = 0;
    while (world.moves[at].is_used) {
        at++;
    }
    assert_true(at < WRITES_MAX);
    world.moves[at] = (struct moving){
        .is_used = true,
        .job = index,
        .slot = slot,
        .staging = chunk->staging,
        .target = chunk->target,
        .handle = chunk->handle,
        .size = chunk->size,
    };
}

static void send_step(uint32_t index, const struct bounce_send_event *event)
{
    struct node *node = &world.nodes[index];
    struct bounce_send_actions actions;
    bounce_send_step(&node->send, event, &actions);
    for (uint32_t i = 0; i < actions.count; i++) {
        const struct bounce_send_action *action = &actions.items[i];
        uint32_t job = job_of_flow(index, action->flow);
        switch (action->kind) {
        case BOUNCE_GATHER:
            assert_false(node->gather.is_due);
            node->gather.is_due = true;
            node->gather.flow = action->flow;
            node->gather.slot = action->slot;
            break;
        case BOUNCE_WANT:
        case BOUNCE_CANCEL:
            say_want(job, action->slot, action->kind == BOUNCE_CANCEL);
            break;
        case BOUNCE_WRITE:
            start_move(job, action->slot);
            break;
        case BOUNCE_DATA:
            say_data(job, action->slot);
            break;
        case BOUNCE_END:
            world.jobs[job].is_open = false;
            world.jobs[job].has_ended = true;
            world.jobs[job].outcome = action->outcome;
            break;
        }
    }
    assert_true(bounce_send_is_valid(&node->send));
}

/* Gathers in place of the caller: pieces one after the other. */
static void gather(uint32_t index)
{
    struct node *node = &world.nodes[index];
    const struct bounce_out_flow *flow = &node->send.flows[node->gather.flow];
    const struct bounce_out_chunk *chunk = &flow->chunks[node->gather.slot];
    const struct job *job = &world.jobs[job_of_flow(index, node->gather.flow)];
    uint8_t *to = node->memory + ARENA_AT + chunk->staging;
    uint32_t done = 0;
    for (uint32_t i = job->firsts[chunk->index];
         i < job->firsts[chunk->index + 1]; i++) {
        memcpy(to + done, node->memory + job->pieces[i].source,
               job->pieces[i].size);
        done += job->pieces[i].size;
    }
    assert_int_equal(done, chunk->size);
    node->gather.is_due = false;
    send_step(index, &(struct bounce_send_event){.kind = BOUNCE_SEND_GATHERED,
                                                 .now = world.now,
                                                 .flow = node->gather.flow,
                                                 .slot = node->gather.slot});
}

/* -------- what the receiver's half wants done -------- */

static void receive_step(uint32_t index, struct bounce_receive_event event);

static bool has_head(const struct bounce_in_flow *flow)
{
    bool has = false;
    for (uint32_t i = 0; i < BOUNCE_WINDOW; i++) {
        has |= flow->chunks[i].state == BOUNCE_IN_WANTED;
    }
    return has && flow->is_used && !flow->is_closed;
}

/* Bounded bypass, seen from outside: others' grants while a head waits. */
static void count_waits(uint32_t index, uint32_t served)
{
    struct bounce_receive *role = &world.nodes[index].receive;
    uint32_t flows = role->options.flow_max;
    uint32_t limit = (2 * flows > 8 ? 2 * flows : 8) + 2 * flows;
    for (uint32_t i = 0; i < flows; i++) {
        const struct bounce_in_flow *flow = &role->flows[i];
        if (!flow->is_used) {
            continue;
        }
        struct job *job = &world.jobs[flow->key.rid];
        job->waits = i == served || !has_head(flow) ? 0 : job->waits + 1;
        assert_true(job->waits <= limit);
    }
}

static void say_grant(uint32_t index, uint32_t flow_index, uint32_t slot)
{
    struct node *node = &world.nodes[index];
    const struct bounce_in_flow *flow = &node->receive.flows[flow_index];
    const struct bounce_in_chunk *chunk = &flow->chunks[slot];
    if (chance(64) == 0) { /* the backend has no room for it */
        receive_step(
            index, (struct bounce_receive_event){.kind = BOUNCE_RECEIVE_REFUSED,
                                                 .now = world.now,
                                                 .flow = flow_index,
                                                 .slot = slot});
        return;
    }
    count_waits(index, flow_index);
    struct wire_bounce_grant grant = {.count = 1};
    grant.credits[0] = (struct wire_bounce_credit){chunk->index, chunk->offset,
                                                   chunk->size, chunk->handle};
    struct buf body;
    buf_init(&body, 512);
    wire_bounce_grant_encode(&grant, &body);
    say(index, world.jobs[flow->key.rid].from, WIRE_BOUNCE_GRANT,
        (uint32_t)flow->key.rid, &body);
    buf_finish(&body);
}

static void say_ack(uint32_t index, const struct bounce_receive_action *action,
                    uint32_t job)
{
    struct wire_bounce_ack ack = {.count = 1,
                                  .chunks = {{action->chunk, action->handle}}};
    struct buf body;
    buf_init(&body, 512);
    wire_bounce_ack_encode(&ack, &body);
    say(index, world.jobs[job].from, WIRE_BOUNCE_ACK, job, &body);
    buf_finish(&body);
}

/* Regions that are lent to nobody any more belong to nobody. */
static void settle_owners(struct node *node)
{
    uint64_t owners[ARENA_MAX / GRANULE] = {0};
    for (uint32_t i = 0; i < node->receive.options.flow_max; i++) {
        const struct bounce_in_flow *flow = &node->receive.flows[i];
        for (uint32_t k = 0; flow->is_used && k < BOUNCE_WINDOW; k++) {
            const struct bounce_in_chunk *chunk = &flow->chunks[k];
            if (chunk->state <= BOUNCE_IN_WANTED) {
                continue;
            }
            for (uint64_t at = chunk->offset / GRANULE;
                 at * GRANULE < chunk->offset + chunk->size; at++) {
                assert_int_equal(owners[at], 0);
                owners[at] = chunk->handle;
            }
        }
    }
    memcpy(node->owners, owners, sizeof(owners));
}

static void receive_step(uint32_t index, struct bounce_receive_event event)
{
    struct node *node = &world.nodes[index];
    event.is_lower_closed = bounce_send_is_hungry(&node->send);
    struct bounce_receive_actions actions;
    bounce_receive_step(&node->receive, &event, &actions);
    assert_false(actions.is_odd);
    for (uint32_t i = 0; i < actions.count; i++) {
        const struct bounce_receive_action *action = &actions.items[i];
        uint32_t job = (uint32_t)node->receive.flows[action->flow].key.rid;
        switch (action->kind) {
        case BOUNCE_GRANT:
            settle_owners(node);
            say_grant(index, action->flow, action->slot);
            break;
        case BOUNCE_REVOKE:
            for (uint32_t k = 0; world.is_revocable && k < WRITES_MAX; k++) {
                struct moving *move = &world.moves[k];
                move->is_lost |= move->is_used &&
                                 world.jobs[move->job].to == index &&
                                 move->handle == action->handle;
            }
            break;
        case BOUNCE_SCATTER:
            assert_false(node->scatter.is_due);
            node->scatter.is_due = true;
            node->scatter.flow = action->flow;
            node->scatter.slot = action->slot;
            break;
        case BOUNCE_ACK:
            say_ack(index, action, job);
            break;
        case BOUNCE_EXPIRED:
            break;
        }
    }
    settle_owners(node);
    assert_true(bounce_receive_is_valid(&node->receive));
}

static void scatter(uint32_t index)
{
    struct node *node = &world.nodes[index];
    const struct bounce_in_flow *flow =
        &node->receive.flows[node->scatter.flow];
    const struct bounce_in_chunk *chunk = &flow->chunks[node->scatter.slot];
    const struct job *job = &world.jobs[flow->key.rid];
    uint32_t done = 0;
    for (uint32_t i = job->firsts[chunk->index];
         chunk->state == BOUNCE_IN_SCATTERING &&
         i < job->firsts[chunk->index + 1];
         i++) {
        memcpy(node->memory + job->pieces[i].target,
               node->memory + ARENA_AT + chunk->offset + done,
               job->pieces[i].size);
        done += job->pieces[i].size;
    }
    node->scatter.is_due = false;
    receive_step(index,
                 (struct bounce_receive_event){.kind = BOUNCE_RECEIVE_SCATTERED,
                                               .now = world.now,
                                               .flow = node->scatter.flow,
                                               .slot = node->scatter.slot});
}

/* -------- what is on its way -------- */

static void hear_sender(const struct note *note)
{
    const struct job *job = &world.jobs[note->job];
    struct bounce_receive_event event = {.now = world.now,
                                         .key = key_of(note->job),
                                         .is_revocable = world.is_revocable};
    if (note->type == WIRE_BOUNCE_WANT) {
        struct wire_bounce_want want;
        assert_int_equal(wire_bounce_want_decode(
                             span_of(note->body, note->size), NULL, &want),
                         OK);
        event.kind = BOUNCE_RECEIVE_WANT;
        event.chunk_count = want.chunk_count;
        event.first = want.first;
        event.count = want.count;
        event.sizes = want.sizes;
        if (job->is_receiver_gone && want.chunk_count > 0) {
            return; /* its session has ended: dropped by the caller */
        }
        receive_step(job->to, event);
        return;
    }
    struct wire_bounce_data data;
    assert_int_equal(
        wire_bounce_data_decode(span_of(note->body, note->size), NULL, &data),
        OK);
    event.kind = BOUNCE_RECEIVE_DATA;
    event.chunk = data.chunk;
    event.handle = data.handle;
    receive_step(job->to, event);
}

static void hear_receiver(const struct note *note)
{
    const struct job *job = &world.jobs[note->job];
    if (!job->is_open) {
        return;
    }
    struct bounce_send_event event = {.now = world.now, .flow = job->flow};
    if (note->type == WIRE_BOUNCE_GRANT) {
        struct wire_bounce_grant grant;
        assert_int_equal(wire_bounce_grant_decode(
                             span_of(note->body, note->size), NULL, &grant),
                         OK);
        event.kind = BOUNCE_SEND_GRANT;
        event.chunk = grant.credits[0].chunk;
        event.target = grant.credits[0].offset;
        event.size = grant.credits[0].size;
        event.handle = grant.credits[0].handle;
    } else {
        struct wire_bounce_ack ack;
        assert_int_equal(
            wire_bounce_ack_decode(span_of(note->body, note->size), NULL, &ack),
            OK);
        event.kind = BOUNCE_SEND_ACK;
        event.chunk = ack.chunks[0].chunk;
        event.handle = ack.chunks[0].handle;
    }
    send_step(job->from, &event);
}

static bool deliver(uint32_t from, uint32_t to)
{
    struct channel *channel = &world.channels[from][to];
    if (channel->count == 0) {
        return false;
    }
    struct note note = channel->notes[channel->first];
    channel->first = (channel->first + 1) % CHANNEL_MAX;
    channel->count--;
    if (world.nodes[from].is_dead || world.nodes[to].is_dead) {
        return true;
    }
    bool is_senders =
        note.type == WIRE_BOUNCE_WANT || note.type == WIRE_BOUNCE_DATA;
    if (is_senders) {
        hear_sender(&note);
    } else {
        hear_receiver(&note);
    }
    return true;
}

/* A few bytes of one write; who writes where it was not granted fails. */
static bool move(struct moving *move)
{
    if (!move->is_used) {
        return false;
    }
    const struct job *job = &world.jobs[move->job];
    struct node *from = &world.nodes[job->from], *to = &world.nodes[job->to];
    uint32_t step = 1 + chance(4 * GRANULE);
    step = step < move->size - move->done ? step : move->size - move->done;
    bool is_landing = !move->is_lost && !to->is_dead;
    for (uint32_t i = 0; is_landing && i < step; i++) {
        uint64_t at = move->target + move->done + i;
        assert_int_equal(to->owners[at / GRANULE], move->handle);
        to->memory[ARENA_AT + at] =
            from->memory[ARENA_AT + move->staging + move->done + i];
    }
    move->done += step;
    if (move->done < move->size) {
        return true;
    }
    move->is_used = false;
    if (!from->is_dead) {
        send_step(job->from, &(struct bounce_send_event){
                                 .kind = BOUNCE_SEND_WRITTEN,
                                 .now = world.now,
                                 .flow = job->flow,
                                 .slot = move->slot,
                                 .outcome = is_landing ? TRANSFER_DONE
                                                       : TRANSFER_STOPPED});
    }
    return true;
}

/* -------- life -------- */

static void open_node(struct node *node, uint64_t seed)
{
    memset(node, 0, sizeof(*node));
    node->memory = mem_new_array(MEMORY, 1);
    for (uint32_t i = 0; i < SOURCE_SIZE / 8; i++) {
        uint64_t word = rng_at(seed, 0, i);
        memcpy(node->memory + 8 * (size_t)i, &word, 8);
    }
    node->arena = transfer_arena_create(world.arena_size, GRANULE);
    bounce_send_init(&node->send,
                     &(struct bounce_send_options){.arena = node->arena,
                                                   .flow_max = JOBS_MAX,
                                                   .silence_ns = 30000 * MS});
    bounce_receive_init(&node->receive, &(struct bounce_receive_options){
                                            .arena = node->arena,
                                            .flow_max = JOBS_MAX,
                                            .chunk_max = world.chunk_max,
                                            .lease_ns = 60000 * MS});
}

static void close_node(struct node *node)
{
    bounce_receive_finish(&node->receive);
    bounce_send_finish(&node->send);
    transfer_arena_destroy(node->arena);
    mem_free(node->memory);
}

/* Pieces in a row until the chunk is full. */
static void plan(struct job *job)
{
    job->chunk_count = 0;
    for (uint32_t i = 0; i < job->piece_count;) {
        uint32_t size = 0;
        job->firsts[job->chunk_count] = i;
        while (i < job->piece_count &&
               size + job->pieces[i].size <= world.chunk_max) {
            size += job->pieces[i++].size;
        }
        job->sizes[job->chunk_count++] = size;
    }
    job->firsts[job->chunk_count] = job->piece_count;
}

static void add_job(uint32_t from, uint32_t to)
{
    uint32_t index = world.job_count++;
    struct job *job = &world.jobs[index];
    *job = (struct job){.from = from, .to = to};
    job->piece_count = 1 + chance(PIECES_MAX);
    uint32_t most = 1 + chance(PIECE_MAX);
    most = most < world.chunk_max ? most : world.chunk_max;
    uint64_t target = SOURCE_SIZE + (uint64_t)index * PLACE;
    for (uint32_t i = 0; i < job->piece_count; i++) {
        uint32_t size = 1 + chance(most);
        job->pieces[i] =
            (struct piece){chance(SOURCE_SIZE - PIECE_MAX), target, size};
        target += size;
    }
    plan(job);
    assert_int_equal(bounce_send_open(&world.nodes[from].send, job->sizes,
                                      job->chunk_count, world.now, &job->flow),
                     OK);
    job->is_open = true;
    send_step(from, &(struct bounce_send_event){.kind = BOUNCE_SEND_TURN,
                                                .now = world.now});
}

static void expect_bytes(const struct job *job)
{
    for (uint32_t i = 0; i < job->piece_count; i++) {
        const struct piece *piece = &job->pieces[i];
        assert_memory_equal(world.nodes[job->to].memory + piece->target,
                            world.nodes[job->from].memory + piece->source,
                            piece->size);
    }
}
