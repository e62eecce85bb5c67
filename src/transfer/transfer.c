#include "transfer/transfer.h"

#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/loop.h"
#include "io/thread.h"
#include "transfer/bounce.h"
#include "transfer/control.h"
#include "transfer/receive_side.h"
#include "transfer/send_side.h"

static const uint64_t MS_NS = 1000000u;
enum {
    TICK_BUSY_MS = 10, /* sessions are under way */
    TICK_IDLE_MS = 200, /* heartbeats only */
    COMMANDS_A_TURN_MAX = 256
};

struct transfer {
    struct transfer_options options;
    char host[256], advertise[256]; /* copies for options */
    struct io_timer *timer;
    uint64_t tick_ns; /* when it is due; 0: it is not started */
    struct io_watch *watch; /* of the backend; NULL when it cannot sleep */
    struct control *control;
    struct send_side *sends;
    struct receive_side *receives;
    struct bounce *bounce; /* NULL: there is no arena */
    bool is_pumping; /* a pump is deferred */
    bool is_instance; /* transfer_instance_begin done */
    struct transfer_stats stats;
    struct io_lock *lock; /* of `shared` */
    struct transfer_stats shared;
};

static uint64_t now_of(const struct transfer *transfer)
{
    return io_loop_now(transfer->options.loop);
}

static uint32_t session_count(const struct transfer *transfer)
{
    return send_side_count(transfer->sends) +
           receive_side_count(transfer->receives);
}

static void publish_stats(struct transfer *transfer)
{
    transfer->stats.sends = send_side_count(transfer->sends);
    transfer->stats.receives = receive_side_count(transfer->receives);
    transfer->stats.peers = control_link_count(transfer->control);
    io_lock_take(transfer->lock);
    transfer->shared = transfer->stats;
    io_lock_give(transfer->lock);
}

void transfer_stats_read(const struct transfer *transfer,
                         struct transfer_stats *stats_out)
{
    io_lock_take(transfer->lock);
    *stats_out = transfer->shared;
    io_lock_give(transfer->lock);
}

/* -------- the pump: one bounded step of copying and checking -------- */

static void pump(void *context);

static void wake(void *context)
{
    struct transfer *transfer = context;
    if (!transfer->is_pumping) {
        transfer->is_pumping = true;
        io_loop_defer(transfer->options.loop, pump, transfer);
    }
}

static bool poll_backend(struct transfer *transfer)
{
    bool is_busy = false;
    struct transfer_write *write =
        transfer_backend_poll(transfer->options.backend, &is_busy);
    bool is_packed = write != NULL && transfer->bounce != NULL &&
                     bounce_written(transfer->bounce, write, now_of(transfer));
    if (write != NULL && !is_packed) {
        send_side_written(transfer->sends, write, now_of(transfer));
    }
    return is_busy || write != NULL;
}

static void pump(void *context)
{
    struct transfer *transfer = context;
    transfer->is_pumping = false;
    bool is_busy = poll_backend(transfer);
    if (transfer->bounce != NULL) {
        is_busy |= bounce_pump(transfer->bounce, now_of(transfer));
    }
    is_busy |= receive_side_verify(transfer->receives, now_of(transfer));
    if (is_busy || transfer_backend_arm(transfer->options.backend)) {
        wake(transfer);
    }
    publish_stats(transfer);
}

static void on_backend_ready(void *context, int ready)
{
    (void)ready;
    wake(context);
}

/* -------- commands -------- */

static void take_command(struct transfer *transfer,
                         const struct transfer_command *command)
{
    uint64_t now = now_of(transfer);
    switch (command->kind) {
    case TRANSFER_OFFER:
    case TRANSFER_SEND:
        send_side_command(transfer->sends, command, now);
        break;
    case TRANSFER_RECEIVE:
        receive_side_command(transfer->receives, command, now);
        break;
    case TRANSFER_WITHDRAW:
        send_side_withdraw(transfer->sends, command->request, now);
        break;
    case TRANSFER_CANCEL:
        send_side_cancel(transfer->sends, command->request, command->reason,
                         now);
        receive_side_cancel(transfer->receives, command->request,
                            command->reason, now);
        break;
    }
}

/* Whoever answers a context request has posted its send before (port.h). There
 * is an end: a slice takes longer to compute than to take here. */
static void take_all_commands(struct transfer *transfer)
{
    struct transfer_command command;
    while (io_mailbox_take(transfer->options.port.commands, &command)) {
        take_command(transfer, &command);
    }
}

/* Sooner than it would, never later: commands that do not stop must not put off
 * what time alone ends. */
static void tick_within(struct transfer *transfer, uint64_t ms)
{
    uint64_t due_ns = now_of(transfer) + ms * MS_NS;
    if (transfer->tick_ns == 0 || due_ns < transfer->tick_ns) {
        transfer->tick_ns = due_ns;
        io_timer_start(transfer->timer, ms * MS_NS);
    }
}

static void on_commands(void *context)
{
    struct transfer *transfer = context;
    struct transfer_command command;
    for (int i = 0; i < COMMANDS_A_TURN_MAX; i++) {
        if (!io_mailbox_take(transfer->options.port.commands, &command)) {
            tick_within(transfer, TICK_BUSY_MS);
            publish_stats(transfer);
            return;
        }
        take_command(transfer, &command);
    }
    /* The rest in the next turn. */
    io_waker_wake(transfer->options.commands_waker);
}

static void on_tick(void *context)
{
    struct transfer *transfer = context;
    uint64_t now = now_of(transfer);
    send_side_tick(transfer->sends, now);
    receive_side_tick(transfer->receives, now);
    if (transfer->bounce != NULL) {
        bounce_tick(transfer->bounce, now);
    }
    control_tick(transfer->control, now);
    bool is_busy = session_count(transfer) > 0;
    if (is_busy) {
        wake(transfer); /* a backend may hold something without a sign */
    }
    publish_stats(transfer);
    transfer->tick_ns = 0;
    tick_within(transfer, is_busy ? TICK_BUSY_MS : TICK_IDLE_MS);
}

/* -------- links -------- */

static void on_registered(void *context, struct link *link)
{
    struct transfer *transfer = context;
    if (link->is_outgoing) {
        receive_side_registered(transfer->receives, link, now_of(transfer));
    } else {
        wake(transfer); /* the peer's pages may want populating */
    }
}

static void on_frame(void *context, struct link *link,
                     const struct wire_header *header, struct span body)
{
    struct transfer *transfer = context;
    uint64_t now = now_of(transfer);
    if (link->is_outgoing) {
        receive_side_frame(transfer->receives, link, header, body, now);
    } else {
        take_all_commands(transfer);
        send_side_frame(transfer->sends, link, header, body, now);
    }
}

static void on_end(void *context, struct link *link)
{
    struct transfer *transfer = context;
    uint64_t now = now_of(transfer);
    if (link->is_outgoing) {
        receive_side_lost(transfer->receives, link, now);
    } else {
        send_side_lost(transfer->sends, link, now);
    }
    wake(transfer); /* stopped writes come back */
}

static const struct control_handler control_handler = {
    .on_registered = on_registered,
    .on_frame = on_frame,
    .on_end = on_end,
};

/* -------- life -------- */

static enum err check_pool(const struct transfer_options *options,
                           uint32_t index, struct why *why)
{
    const struct kv_pool_view *pool = &options->groups[index].pool;
    size_t page_bytes = kv_layout_page_bytes(&pool->layout);
    if (pool->base == NULL || pool->page_count == 0 ||
        pool->page_count > INT32_MAX) {
        return why_say(why, ERR_INVALID, "transfer pool %u: has no pages",
                       index);
    }
    if (pool->page_bytes < page_bytes || pool->page_bytes > UINT32_MAX) {
        return why_say(why, ERR_INVALID,
                       "transfer pool %u: page_bytes %zu, the layout needs %zu",
                       index, pool->page_bytes, page_bytes);
    }
    if (pool->layout.tokens_per_block !=
        options->groups[0].pool.layout.tokens_per_block) {
        return why_say(why, ERR_INVALID,
                       "transfer pool %u: tokens_per_block differs", index);
    }
    size_t offset = (size_t)(pool->base - options->memory);
    if (pool->base < options->memory || offset > options->memory_size ||
        pool->page_bytes > (options->memory_size - offset) / pool->page_count) {
        return why_say(why, ERR_INVALID,
                       "transfer pool %u: not inside the memory", index);
    }
    return OK;
}

static enum err check_groups(const struct transfer_options *options,
                             struct why *why)
{
    if (options->group_count == 0 ||
        options->group_count > TRANSFER_GROUP_COUNT_MAX) {
        return why_say(why, ERR_INVALID, "transfer groups: %u, at most %d",
                       options->group_count, TRANSFER_GROUP_COUNT_MAX);
    }
    enum err err = OK;
    for (uint32_t i = 0; !err && i < options->group_count; i++) {
        err = check_pool(options, i, why);
    }
    return err;
}

static enum err check_options(const struct transfer_options *options,
                              struct why *why)
{
    CHECK(options->loop != NULL && options->backend != NULL);
    CHECK(options->port.commands != NULL && options->port.reports != NULL);
    CHECK(options->commands_waker != NULL);
    if (options->incarnation == 0) {
        return why_say(why, ERR_INVALID, "transfer incarnation: is 0");
    }
    if (options->host == NULL || options->host[0] == 0 ||
        strlen(options->host) >= 256 ||
        (options->advertise != NULL && strlen(options->advertise) >= 256)) {
        return why_say(why, ERR_INVALID, "transfer host: too short or long");
    }
    enum err err = check_groups(options, why);
    return err ? err : bounce_check(options, why);
}

static void fill_defaults(struct transfer *transfer,
                          const struct transfer_options *options)
{
    struct transfer_options *own = &transfer->options;
    *own = *options;
    memcpy(transfer->host, options->host, strlen(options->host));
    own->host = transfer->host;
    if (options->advertise != NULL) {
        memcpy(transfer->advertise, options->advertise,
               strlen(options->advertise));
        own->advertise = transfer->advertise;
    }
    own->send_count_max = own->send_count_max ? own->send_count_max : 256;
    own->receive_count_max =
        own->receive_count_max ? own->receive_count_max : 256;
    own->peer_count_max = own->peer_count_max ? own->peer_count_max : 64;
    own->grace_ns = own->grace_ns ? own->grace_ns : 60000 * MS_NS;
    own->advert_ttl_ns =
        own->advert_ttl_ns ? own->advert_ttl_ns : 120000 * MS_NS;
    own->heartbeat_ns = own->heartbeat_ns ? own->heartbeat_ns : 1000 * MS_NS;
}

static void free_all(struct transfer *transfer)
{
    io_watch_destroy(transfer->watch);
    io_timer_destroy(transfer->timer);
    send_side_destroy(transfer->sends);
    receive_side_destroy(transfer->receives);
    bounce_destroy(transfer->bounce);
    control_destroy(transfer->control);
    if (transfer->is_instance) {
        transfer_instance_end(transfer->options.incarnation);
    }
    io_lock_destroy(transfer->lock);
    mem_free(transfer);
}

static void on_sent(void *context, void *owner, enum bounce_outcome outcome,
                    uint64_t now)
{
    struct transfer *transfer = context;
    send_side_bounced(transfer->sends, owner, outcome, now);
}

static void on_received(void *context, const struct bounce_key *key,
                        uint64_t bytes)
{
    struct transfer *transfer = context;
    receive_side_unpacked(transfer->receives, key, bytes);
}

static void on_broken(void *context, const struct bounce_key *key, uint64_t now)
{
    struct transfer *transfer = context;
    receive_side_broken(transfer->receives, key, now);
}

static enum err create_bounce(struct transfer *transfer, struct why *why)
{
    struct bounce_options options = {
        .transfer = &transfer->options,
        .stats = &transfer->stats,
        .wake = wake,
        .on_sent = on_sent,
        .on_received = on_received,
        .on_broken = on_broken,
        .context = transfer,
    };
    enum err err = transfer->options.bounce.size == 0
                       ? OK
                       : bounce_create(&options, &transfer->bounce);
    return err ? why_say(why, err, "transfer bounce: no memory") : OK;
}

static void create_sides(struct transfer *transfer)
{
    struct send_side_options sends = {
        .transfer = &transfer->options,
        .stats = &transfer->stats,
        .bounce = transfer->bounce,
        .wake = wake,
        .context = transfer,
    };
    transfer->sends = send_side_create(&sends);
    struct receive_side_options receives = {
        .transfer = &transfer->options,
        .stats = &transfer->stats,
        .bounce = transfer->bounce,
        .wake = wake,
        .context = transfer,
    };
    transfer->receives = receive_side_create(&receives);
}

static enum err open_all(struct transfer *transfer, struct why *why)
{
    struct io_loop *loop = transfer->options.loop;
    transfer->lock = io_lock_create();
    transfer->timer = io_timer_create(loop, on_tick, transfer);
    enum err err = create_bounce(transfer, why);
    create_sides(transfer);
    if (err) {
        return err;
    }
    struct control_options control = {
        .loop = loop,
        .backend = transfer->options.backend,
        .transfer = &transfer->options,
        .stats = &transfer->stats,
        .handler = &control_handler,
        .context = transfer,
    };
    err = control_open(&control, why, &transfer->control);
    if (err) {
        return err;
    }
    receive_side_set_control(transfer->receives, transfer->control);
    if (transfer->bounce != NULL) {
        bounce_set_control(transfer->bounce, transfer->control);
    }
    err = transfer_instance_begin(transfer->options.incarnation);
    transfer->is_instance = !err;
    return err ? why_say(why, err, "too many transfers in this process") : OK;
}

enum err transfer_create(const struct transfer_options *options,
                         struct why *why, struct transfer **transfer_out)
{
    enum err err = check_options(options, why);
    if (err) {
        return err;
    }
    struct transfer *transfer = mem_new(sizeof(*transfer));
    fill_defaults(transfer, options);
    err = open_all(transfer, why);
    if (!err && io_waker_attach(options->commands_waker, options->loop,
                                on_commands, transfer)) {
        err = why_say(why, ERR_IO, "transfer: the waker cannot be attached");
    }
    if (err) {
        free_all(transfer);
        return err;
    }
    int fd = transfer_backend_fd(options->backend);
    if (fd >= 0) {
        transfer->watch =
            io_watch_create(options->loop, fd, on_backend_ready, transfer);
        io_watch_set(transfer->watch, IO_READABLE);
    }
    tick_within(transfer, TICK_IDLE_MS);
    wake(transfer); /* arms the backend */
    publish_stats(transfer);
    *transfer_out = transfer;
    return OK;
}

enum err transfer_destroy(struct transfer *transfer)
{
    if (transfer == NULL) {
        return OK;
    }
    /* What was ordered last counts too; later it would open a session that
     * nobody waits for. */
    take_all_commands(transfer);
    if (session_count(transfer) > 0) {
        return ERR_BUSY;
    }
    struct io_loop *loop = transfer->options.loop;
    io_watch_destroy(transfer->watch);
    transfer->watch = NULL;
    control_shut(transfer->control);
    /* Closes come from the loop, and so do the last pumps. */
    while (!control_is_closed(transfer->control) || transfer->is_pumping) {
        io_loop_turn(loop, 10 * MS_NS);
    }
    free_all(transfer);
    return OK;
}

void transfer_abandon(struct transfer *transfer)
{
    struct transfer_command command;
    while (io_mailbox_take(transfer->options.port.commands, &command)) {
    }
    send_side_abandon(transfer->sends);
    receive_side_abandon(transfer->receives);
    if (transfer->bounce != NULL) {
        bounce_abandon(transfer->bounce);
    }
    CHECK(transfer_destroy(transfer) == OK);
}

const char *transfer_endpoint(const struct transfer *transfer)
{
    return control_endpoint(transfer->control);
}
