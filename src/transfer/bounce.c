#include "transfer/bounce_body.h"

#include "base/check.h"
#include "base/mem.h"

static const uint64_t SILENCE_NS = 30000000000u; /* transfer.md 5.3 */
static const uint64_t LEASE_NS = 60000000000u;
static const uint64_t PATIENCE_NS = 200000000u;
enum { GRANTS_A_TURN_MAX = 64 };

static uint32_t granule_of(const struct transfer_bounce_options *options)
{
    return options->granule != 0 ? options->granule : BOUNCE_GRANULE;
}

uint64_t bounce_usable(const struct transfer_bounce_options *options)
{
    return transfer_arena_usable(options->size, granule_of(options));
}

uint32_t bounce_chunk_max(const struct transfer_bounce_options *options)
{
    uint64_t half = bounce_usable(options) / 2;
    uint64_t most =
        options->chunk_max != 0 ? options->chunk_max : BOUNCE_CHUNK_MAX;
    return (uint32_t)(most < half ? most : half);
}

enum err bounce_check(const struct transfer_options *options, struct why *why)
{
    const struct transfer_bounce_options *bounce = &options->bounce;
    if (bounce->size == 0) {
        return OK;
    }
    if (bounce_usable(bounce) == 0) {
        return why_say(why, ERR_INVALID,
                       "transfer bounce: %llu bytes are too few",
                       (unsigned long long)bounce->size);
    }
    if (bounce->offset > options->memory_size ||
        bounce->size > options->memory_size - bounce->offset) {
        return why_say(why, ERR_INVALID,
                       "transfer bounce: not inside the memory");
    }
    return OK;
}

static void create_roles(struct bounce *bounce)
{
    const struct transfer_options *transfer = bounce->options.transfer;
    bounce_send_init(&bounce->send,
                     &(struct bounce_send_options){
                         .arena = bounce->arena,
                         .flow_max = transfer->send_count_max,
                         .silence_ns = SILENCE_NS,
                         .patience_ns = transfer->bounce.patience_ns != 0
                                            ? transfer->bounce.patience_ns
                                            : PATIENCE_NS});
    /* Some of a session may still be cleaned up while the next one begins. */
    bounce_receive_init(&bounce->receive,
                        &(struct bounce_receive_options){
                            .arena = bounce->arena,
                            .flow_max = 2 * transfer->receive_count_max,
                            .chunk_max = bounce->chunk_max,
                            .lease_ns = LEASE_NS});
    tcp_grants_init(&bounce->wanted, transfer->receive_count_max);
}

static enum err create_tables(struct bounce *bounce)
{
    uint64_t half = transfer_arena_capacity(bounce->arena) / 2;
    bounce->move_count = (uint32_t)(half / bounce->granule);
    bounce->part_max = bounce->chunk_max / TRANSFER_STEP_SIZE + 1;
    bounce->outs =
        mem_try_array(bounce->send.options.flow_max, sizeof(bounce->outs[0]));
    bounce->moves = mem_try_array(bounce->move_count, sizeof(bounce->moves[0]));
    bounce->parts = mem_try_array((size_t)bounce->move_count * bounce->part_max,
                                  sizeof(bounce->parts[0]));
    bounce->arrived =
        mem_try_array((size_t)bounce->receive.options.flow_max * BOUNCE_WINDOW,
                      sizeof(bounce->arrived[0]));
    bool has_all = bounce->outs != NULL && bounce->moves != NULL &&
                   bounce->parts != NULL && bounce->arrived != NULL;
    return has_all ? OK : ERR_NO_MEMORY;
}

enum err bounce_create(const struct bounce_options *options,
                       struct bounce **bounce_out)
{
    const struct transfer_bounce_options *own = &options->transfer->bounce;
    struct bounce *bounce = mem_new(sizeof(*bounce));
    bounce->options = *options;
    bounce->granule = granule_of(own);
    bounce->arena = transfer_arena_create(own->size, bounce->granule);
    bounce->base = options->transfer->memory + own->offset;
    bounce->chunk_max = bounce_chunk_max(own);
    buf_init(&bounce->body, WIRE_BODY_SIZE_MAX);
    create_roles(bounce);
    enum err err = create_tables(bounce);
    if (err) {
        bounce_destroy(bounce);
        return err;
    }
    *bounce_out = bounce;
    return OK;
}

void bounce_set_control(struct bounce *bounce, struct control *control)
{
    bounce->control = control;
}

void bounce_abandon(struct bounce *bounce)
{
    bounce_send_abandon(&bounce->send);
    bounce_receive_abandon(&bounce->receive);
    bounce->gather.is_due = bounce->scatter.is_due = false;
}

void bounce_destroy(struct bounce *bounce)
{
    if (bounce == NULL) {
        return;
    }
    for (uint32_t i = 0;
         bounce->outs != NULL && i < bounce->send.options.flow_max; i++) {
        mem_free(bounce->outs[i].firsts);
        mem_free(bounce->outs[i].sizes);
    }
    bounce_send_finish(&bounce->send);
    bounce_receive_finish(&bounce->receive);
    tcp_grants_finish(&bounce->wanted);
    transfer_arena_destroy(bounce->arena);
    buf_finish(&bounce->body);
    mem_free(bounce->outs);
    mem_free(bounce->moves);
    mem_free(bounce->parts);
    mem_free(bounce->arrived);
    mem_free(bounce);
}

static void publish(struct bounce *bounce)
{
    struct transfer_arena_counts counts = transfer_arena_counts(bounce->arena);
    bounce->options.stats->bounce_live_bytes = counts.live;
    bounce->options.stats->bounce_quarantined_bytes = counts.quarantined;
}

/* Room that came free since is used at once, in bounded portions. */
static void grant_more(struct bounce *bounce, uint64_t now)
{
    uint64_t before;
    uint32_t count = 0;
    do {
        before = bounce->receive.handle;
        struct bounce_receive_event event = {.kind = BOUNCE_RECEIVE_TURN,
                                             .now = now};
        IGNORE(bounce_receive_event(bounce, &event)); /* never odd */
    } while (bounce->receive.handle != before && !bounce->receive.is_resting &&
             ++count < GRANTS_A_TURN_MAX);
}

static bool is_idle(const struct bounce *bounce)
{
    return bounce->send.flow_count == 0 && bounce->receive.flow_count == 0 &&
           !bounce->scatter.is_due && !bounce->gather.is_due;
}

bool bounce_pump(struct bounce *bounce, uint64_t now)
{
    if (is_idle(bounce)) {
        return false;
    }
    bool has_more = bounce_gather_some(bounce, now);
    has_more |= bounce_scatter_some(bounce, now);
    bounce_send_event(bounce, &(struct bounce_send_event){
                                  .kind = BOUNCE_SEND_TURN, .now = now});
    grant_more(bounce, now);
    bounce_flush_acks(bounce);
    publish(bounce);
    return has_more || bounce->gather.is_due || bounce->scatter.is_due;
}

void bounce_tick(struct bounce *bounce, uint64_t now)
{
    for (uint32_t i = 0; i < bounce->send.options.flow_max; i++) {
        if (bounce->send.flows[i].is_used) {
            bounce_send_event(
                bounce, &(struct bounce_send_event){
                            .kind = BOUNCE_SEND_TIME, .now = now, .flow = i});
        }
    }
    for (uint32_t i = 0; i < bounce->receive.options.flow_max; i++) {
        if (bounce->receive.flows[i].is_used) {
            struct bounce_receive_event event = {
                .kind = BOUNCE_RECEIVE_TIME, .now = now, .flow = i};
            IGNORE(bounce_receive_event(bounce, &event)); /* never odd */
        }
    }
    publish(bounce);
}
