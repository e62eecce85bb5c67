/* The backend of the cluster: memory of other hosts is written piece by piece,
 * in any order, as virtual time goes by, whether the sender's loop turns or
 * not. Its process gone: it stops where it is. */
#include <string.h>

#include "base/check.h"
#include "base/digest.h"
#include "base/mem.h"
#include "io/mailbox.h"
#include "sim/cluster_world.h"
#include "wire/bytes.h"

struct cluster_backend {
    struct transfer_backend base;
    struct cluster_worker *worker;
    uint64_t incarnation;
    struct cluster_memory *memory; /* its own pool */
    struct io_waker *waker; /* raised: a write has ended */
};

struct cluster_peer {
    struct transfer_backend_peer base;
    struct cluster_memory *memory;
    uint32_t write_count; /* not given back */
    bool is_closed;
};

static struct cluster_backend *body_of(const struct transfer_backend *backend)
{
    return (struct cluster_backend *)backend;
}

static struct cluster *world_of(const struct transfer_backend *backend)
{
    return body_of(backend)->worker->world;
}

/* ---- memory ---- */

static enum err alloc(struct transfer_backend *backend, size_t size,
                      struct why *why, void **memory_out)
{
    struct cluster_backend *body = body_of(backend);
    struct cluster *world = world_of(backend);
    struct cluster_memory *memory = mem_new(sizeof(*memory));
    memory->bytes = mem_try_aligned(64, size);
    if (memory->bytes == NULL) {
        mem_free(memory);
        return why_say(why, ERR_NO_MEMORY, "sim: no %zu bytes", size);
    }
    memory->incarnation = body->incarnation;
    memory->worker = body->worker->index;
    memory->size = size;
    memory->maps = 1;
    memory->next = world->memories;
    world->memories = memory;
    body->memory = memory;
    *memory_out = memory->bytes;
    return OK;
}

static void free_pool(struct transfer_backend *backend, void *bytes)
{
    struct cluster_backend *body = body_of(backend);
    CHECK(bytes == body->memory->bytes);
    cluster_memory_unmap(world_of(backend), body->memory);
    body->memory = NULL;
}

static const char *config(const struct transfer_backend *backend)
{
    (void)backend;
    return "sim 1";
}

static enum err export_pool(struct transfer_backend *backend, void *memory,
                            size_t size, struct why *why, struct buf *blob_out)
{
    (void)memory;
    (void)why;
    wire_write_u64(blob_out, body_of(backend)->incarnation);
    wire_write_u64(blob_out, size);
    return buf_error(blob_out);
}

/* ---- peers ---- */

static enum err peer_open(struct transfer_backend *backend, struct span blob,
                          size_t pool_size, struct why *why,
                          struct transfer_backend_peer **peer_out)
{
    struct wire_reader reader = wire_reader_of(blob);
    uint64_t incarnation = wire_read_u64(&reader);
    uint64_t size = wire_read_u64(&reader);
    struct cluster_memory *memory =
        cluster_memory_find(world_of(backend), incarnation);
    if (!wire_reader_is_done(&reader) || size < pool_size || memory == NULL ||
        memory->size < pool_size) {
        return why_say(why, ERR_UNSUPPORTED, "sim: that pool is not there");
    }
    struct cluster_peer *peer = mem_new(sizeof(*peer));
    peer->base.backend = backend;
    peer->base.owner = incarnation;
    peer->memory = memory;
    memory->maps++;
    *peer_out = &peer->base;
    return OK;
}

static void end_if_unused(struct cluster *world, struct cluster_peer *peer)
{
    if (peer->is_closed && peer->write_count == 0) {
        cluster_memory_unmap(world, peer->memory);
        mem_free(peer);
    }
}

static void free_write(struct cluster *world, struct cluster_write *write)
{
    struct cluster_write **at = &world->writes;
    while (*at != write) {
        at = &(*at)->next;
    }
    *at = write->next;
    mem_free(write->pieces);
    mem_free(write->order);
    mem_free(write);
}

static void end_write(struct cluster_write *write,
                      enum transfer_outcome outcome)
{
    write->is_ended = true;
    write->outcome = outcome;
    io_waker_wake(write->backend->waker);
}

/* The mapping goes: nothing is written through it any more. */
static void peer_close(struct transfer_backend_peer *base)
{
    struct cluster_peer *peer = (struct cluster_peer *)base;
    struct cluster *world = world_of(base->backend);
    CHECK(!peer->is_closed);
    peer->is_closed = true;
    struct cluster_write *next;
    for (struct cluster_write *at = world->writes; at != NULL; at = next) {
        next = at->next;
        if (at->peer != peer) {
            continue;
        }
        if (at->caller == NULL) {
            free_write(world, at);
        } else if (!at->is_ended) {
            end_write(at, TRANSFER_STOPPED);
        }
    }
    end_if_unused(world, peer);
}

static const char *peer_lane(const struct transfer_backend_peer *peer)
{
    (void)peer;
    return "memory";
}

/* ---- writes ---- */

static enum cluster_fate draw_fate(struct cluster *world)
{
    struct rng *rng = &world->write_rng;
    const struct cluster_hostility *bad = &world->hostility;
    uint32_t drawn = (uint32_t)rng_below(rng, 1024);
    enum cluster_fate told = world->next_fate;
    world->next_fate = CLUSTER_WRITE_GOOD;
    if (told != CLUSTER_WRITE_GOOD) {
        return told;
    }
    const uint32_t chances[] = {bad->stop, bad->doubt, bad->hang, bad->flip};
    for (uint32_t i = 0; i < 4 && !world->is_quiet; i++) {
        if (drawn < chances[i]) {
            return (enum cluster_fate)(CLUSTER_WRITE_STOPS + i);
        }
        drawn -= chances[i];
    }
    return CLUSTER_WRITE_GOOD;
}

static uint64_t draw_due(struct cluster *world)
{
    return io_sim_now(world->io) +
           rng_below(&world->write_rng, world->hostility.write_ns_max + 1);
}

static void shuffle(struct cluster *world, struct cluster_write *write)
{
    for (uint32_t i = 0; i < write->piece_count; i++) {
        write->order[i] = i;
    }
    for (uint32_t i = write->piece_count; i > 1; i--) {
        uint32_t drawn = (uint32_t)rng_below(&world->write_rng, i);
        uint32_t kept = write->order[i - 1];
        write->order[i - 1] = write->order[drawn];
        write->order[drawn] = kept;
    }
}

static void start_write(struct transfer_backend *backend,
                        struct transfer_write *caller)
{
    struct cluster *world = world_of(backend);
    struct cluster_write *write = mem_new(sizeof(*write));
    uint32_t count = (uint32_t)caller->piece_count;
    write->backend = body_of(backend);
    write->peer = (struct cluster_peer *)caller->peer;
    CHECK(!write->peer->is_closed);
    write->caller = caller;
    write->piece_count = count;
    write->pieces = mem_new_array(count + 1, sizeof(write->pieces[0]));
    write->order = mem_new_array(count + 1, sizeof(write->order[0]));
    for (uint32_t i = 0; i < count; i++) {
        write->pieces[i] = caller->pieces[i];
    }
    write->rid = caller->token.rid;
    write->writer = body_of(backend)->incarnation;
    write->target = write->peer->memory;
    shuffle(world, write);
    write->fate = draw_fate(world);
    write->stop_at = (uint32_t)rng_below(&world->write_rng, count + 1);
    write->due_ns = draw_due(world);
    write->is_held = world->is_held[body_of(backend)->worker->index]
                                   [write->peer->memory->worker];
    write->peer->write_count++;
    struct cluster_write **at = &world->writes;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = write;
    cluster_say(world, "write by %u to %u rid %lld pieces %u fate %d",
                body_of(backend)->worker->index, write->peer->memory->worker,
                (long long)write->rid, count, write->fate);
    for (uint32_t i = 0; i < count; i++) {
        cluster_check_piece(body_of(backend)->worker, write->rid,
                            write->peer->memory, &write->pieces[i]);
    }
}

static void copy_piece(struct cluster *world, struct cluster_write *write)
{
    uint32_t index = write->order[write->done++];
    struct transfer_piece *piece = &write->pieces[index];
    struct cluster_memory *target = write->peer->memory;
    const struct cluster_memory *source = write->backend->memory;
    CHECK(piece->source_offset + piece->size <= source->size);
    CHECK(piece->target_offset + piece->size <= target->size);
    struct span bytes =
        span_of(source->bytes + piece->source_offset, piece->size);
    uint8_t *to = target->bytes + piece->target_offset;
    memcpy(to, bytes.data, bytes.size);
    world->summary.written_pages++;
    if (write->fate == CLUSTER_WRITE_FLIPS && write->done == 1) {
        uint64_t bit = rng_below(&world->write_rng, piece->size * 8);
        to[bit / 8] ^= (uint8_t)(1u << bit % 8);
        world->summary.flips++;
        world->rid_is_flipped[write->rid] = true;
        cluster_say(world, "a bit of piece %u is wrong", index);
    }
    if (write->caller != NULL) {
        write->caller->pieces[index].crc32c = digest_crc32c(0, bytes);
    }
}

/* Its fate has come, unless it has none. True: it is over for the caller. */
static bool meet_fate(struct cluster *world, struct cluster_write *write)
{
    if (write->done < write->stop_at || write->caller == NULL ||
        write->is_ended) {
        return false;
    }
    switch (write->fate) {
    case CLUSTER_WRITE_STOPS:
        world->summary.stops++;
        end_write(write, TRANSFER_STOPPED);
        return true;
    case CLUSTER_WRITE_IN_DOUBT:
        world->summary.doubts++;
        write->backend->worker->is_doubtful = true;
        end_write(write, TRANSFER_IN_DOUBT);
        return false;
    case CLUSTER_WRITE_HANGS:
        world->summary.hangs++;
        cluster_say(world, "a write by %u hangs",
                    write->backend->worker->index);
        write->due_ns = UINT64_MAX;
        return true;
    case CLUSTER_WRITE_GOOD:
    case CLUSTER_WRITE_FLIPS:
        break;
    }
    return false;
}

static void step_write(struct cluster *world, struct cluster_write *write)
{
    write->due_ns = draw_due(world);
    if (meet_fate(world, write)) {
        return;
    }
    if (write->done < write->piece_count) {
        copy_piece(world, write);
    } else if (write->caller == NULL) {
        write->due_ns = UINT64_MAX;
    } else if (!write->is_ended) {
        end_write(write, TRANSFER_DONE);
    }
}

uint64_t cluster_writes_ns(const struct cluster *world)
{
    uint64_t next = UINT64_MAX;
    for (const struct cluster_write *at = world->writes; at != NULL;
         at = at->next) {
        if (cluster_write_is_moving(at) && !at->is_held && at->due_ns < next) {
            next = at->due_ns;
        }
    }
    return next;
}

void cluster_writes_step(struct cluster *world)
{
    uint64_t now = io_sim_now(world->io);
    for (struct cluster_write *at = world->writes; at != NULL; at = at->next) {
        if (world->is_quiet && at->fate == CLUSTER_WRITE_HANGS) {
            at->fate = CLUSTER_WRITE_GOOD;
            at->due_ns = now;
        }
        if (cluster_write_is_moving(at) && !at->is_held && at->due_ns <= now) {
            step_write(world, at);
        }
    }
}

void cluster_writes_release(struct cluster *world)
{
    for (struct cluster_write *at = world->writes; at != NULL; at = at->next) {
        at->is_held = false;
    }
}

static struct cluster_write *find_ended(const struct cluster_backend *body)
{
    struct cluster_write *at = body->worker->world->writes;
    while (at != NULL &&
           !(at->backend == body && at->is_ended && at->caller != NULL)) {
        at = at->next;
    }
    return at;
}

static struct transfer_write *poll_once(struct transfer_backend *backend,
                                        bool *is_busy_out)
{
    struct cluster_backend *body = body_of(backend);
    struct cluster *world = world_of(backend);
    struct cluster_write *write = find_ended(body);
    struct transfer_write *caller = NULL;
    if (write != NULL) {
        struct cluster_peer *peer = write->peer;
        caller = write->caller;
        caller->outcome = write->outcome;
        write->caller = NULL;
        bool goes_on = write->outcome == TRANSFER_IN_DOUBT && !peer->is_closed;
        if (!goes_on) {
            free_write(world, write);
        }
        peer->write_count--;
        end_if_unused(world, peer);
    }
    *is_busy_out = find_ended(body) != NULL;
    return caller;
}

static int fd(const struct transfer_backend *backend)
{
    return io_waker_fd(body_of(backend)->waker);
}

static enum err arm(struct transfer_backend *backend)
{
    struct cluster_backend *body = body_of(backend);
    io_waker_clear(body->waker);
    return find_ended(body) != NULL ? ERR_BUSY : OK;
}

static void destroy(struct transfer_backend *backend)
{
    struct cluster_backend *body = body_of(backend);
    CHECK(body->memory == NULL);
    io_waker_destroy(body->waker);
    mem_free(body);
}

/* ---- the world's side ---- */

void cluster_backend_kill(struct cluster_worker *worker)
{
    struct cluster *world = worker->world;
    struct cluster_write *next;
    for (struct cluster_write *at = world->writes; at != NULL; at = next) {
        next = at->next;
        if (&at->backend->base != worker->backend) {
            continue;
        }
        struct cluster_peer *peer = at->peer;
        bool was_held = at->caller != NULL;
        free_write(world, at);
        if (was_held) {
            peer->write_count--;
            end_if_unused(world, peer);
        }
    }
}

static const struct transfer_backend_ops ops = {
    .name = "sim",
    .toucher = TRANSFER_PEER_MAPPED,
    .capabilities =
        TRANSFER_CAN_SLEEP | TRANSFER_CAN_PROCESS | TRANSFER_CAN_HOST,
    .destroy = destroy,
    .alloc = alloc,
    .free = free_pool,
    .config = config,
    .export_pool = export_pool,
    .peer_open = peer_open,
    .peer_close = peer_close,
    .peer_lane = peer_lane,
    .write = start_write,
    .poll = poll_once,
    .fd = fd,
    .arm = arm,
};

void cluster_backend_create(struct cluster_worker *worker)
{
    struct cluster_backend *body = mem_new(sizeof(*body));
    transfer_backend_init(&body->base, &ops);
    body->worker = worker;
    body->incarnation = worker->incarnation;
    CHECK(io_sim_waker_create(worker->world->io, &body->waker) == OK);
    worker->backend = &body->base;
}
