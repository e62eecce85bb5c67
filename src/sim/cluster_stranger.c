/* Strangers who connect to a worker's transfer port, say something that is no
 * message, and leave or stay: they may end their own connection only. */
#include <stdio.h>

#include "base/mem.h"
#include "io/tcp.h"
#include "sim/cluster_world.h"
#include "wire/frame.h"

struct cluster_stranger {
    struct cluster *world;
    struct io_stream *stream;
    uint32_t size; /* of what it says */
    bool leaves; /* right after it; else the worker has to end it */
};

static void on_open(void *context)
{
    struct cluster_stranger *stranger = context;
    struct rng *rng = &stranger->world->fault_rng;
    uint8_t bytes[256];
    /* One in four begins as a message does. */
    bool has_magic = sim_chance(rng, 256);
    for (uint32_t i = 0; i < stranger->size; i++) {
        bytes[i] = (uint8_t)rng_below(rng, 256);
    }
    if (has_magic) {
        struct buf frame;
        struct wire_header header = {.type = WIRE_REGISTER};
        buf_init(&frame, 1024);
        IGNORE(
            wire_frame_encode(&header, span_of(bytes, stranger->size), &frame));
        /* Half of them end in the middle. */
        size_t size =
            sim_chance(rng, 512) ? frame.size : rng_below(rng, frame.size);
        IGNORE(io_stream_write(stranger->stream, span_of(frame.data, size)));
        buf_finish(&frame);
    } else {
        IGNORE(
            io_stream_write(stranger->stream, span_of(bytes, stranger->size)));
    }
    if (stranger->leaves) {
        io_stream_close(stranger->stream, true);
    }
}

static void on_read(void *context, struct span bytes)
{
    (void)context;
    (void)bytes;
}

static void on_close(void *context, enum err reason, const char *text)
{
    (void)reason;
    (void)text;
    struct cluster_stranger *stranger = context;
    struct cluster *world = stranger->world;
    for (uint32_t i = 0; i < CLUSTER_STRANGER_MAX; i++) {
        if (world->strangers[i] == stranger) {
            world->strangers[i] = NULL;
        }
    }
    mem_free(stranger);
}

static const struct io_stream_handler handler = {
    .on_open = on_open, .on_read = on_read, .on_close = on_close};

bool cluster_stranger_come(struct cluster *world, uint32_t worker)
{
    uint32_t at = 0;
    while (at < CLUSTER_STRANGER_MAX && world->strangers[at] != NULL) {
        at++;
    }
    if (at == CLUSTER_STRANGER_MAX) {
        return false;
    }
    struct rng *rng = &world->fault_rng;
    struct cluster_stranger *stranger = mem_new(sizeof(*stranger));
    stranger->world = world;
    stranger->size = sim_range(rng, 0, 255);
    stranger->leaves = sim_chance(rng, 512);
    char host[32];
    snprintf(host, sizeof(host), "10.0.0.%u", worker + 1);
    struct io_stream_options options = {.handler = &handler,
                                        .context = stranger};
    struct why why;
    if (io_stream_connect(world->stranger_loop, host, CLUSTER_TRANSFER_PORT,
                          &options, &why, &stranger->stream) != OK) {
        mem_free(stranger);
        return false;
    }
    world->strangers[at] = stranger;
    return true;
}

void cluster_strangers_leave(struct cluster *world)
{
    for (uint32_t i = 0; i < CLUSTER_STRANGER_MAX; i++) {
        if (world->strangers[i] != NULL) {
            io_stream_reset(world->strangers[i]->stream);
        }
    }
}
