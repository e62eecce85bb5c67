#include "base/mem.h"
#include "io/sim_body.h"

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What was held up sets out again, in its order. */
static void release(struct io_sim *sim, struct sim_socket *one,
                    uint64_t blocked_ns)
{
    uint64_t at_ns = io_sim_arrival_ns(sim, one->to_host, one->host);
    for (struct sim_segment *at = one->first; at != NULL; at = at->next) {
        if (at->arrival_ns > blocked_ns && at->arrival_ns < at_ns) {
            at->arrival_ns = at_ns;
        }
    }
    if (one->last != NULL && one->last_arrival_ns < one->last->arrival_ns) {
        one->last_arrival_ns = one->last->arrival_ns;
    }
}

void io_sim_block(struct io_sim *sim, uint32_t from, uint32_t to, bool on)
{
    struct sim_way *way = &sim->ways[from][to];
    if (way->is_blocked == on) {
        return;
    }
    for (int i = 0; i < SIM_SOCKET_MAX && !on; i++) {
        struct sim_socket *one = &sim->sockets[i];
        if (one->state == SIM_SOCKET_CONNECTED && one->to_host == from &&
            one->host == to) {
            release(sim, one, way->blocked_ns);
        }
    }
    way->is_blocked = on;
    way->blocked_ns = sim->now;
}

void io_sim_delay(struct io_sim *sim, uint32_t from, uint32_t to, uint64_t ns)
{
    sim->ways[from][to].extra_ns = ns;
}

/* What has not arrived never will. */
static void lose(struct io_sim *sim, struct sim_socket *one)
{
    struct sim_segment **at = &one->first;
    one->last = NULL;
    while (*at != NULL) {
        struct sim_segment *segment = *at;
        if (segment->arrival_ns <= sim->now) {
            one->last = segment;
            at = &segment->next;
            continue;
        }
        *at = segment->next;
        one->held -= segment->size - segment->taken;
        mem_free(segment);
    }
    one->reset_ns =
        sooner(one->reset_ns, io_sim_arrival_ns(sim, one->to_host, one->host));
}

uint32_t io_sim_break(struct io_sim *sim, uint32_t one, uint32_t other)
{
    uint32_t count = 0;
    for (int i = 0; i < SIM_SOCKET_MAX; i++) {
        struct sim_socket *end = &sim->sockets[i];
        bool is_meant = (end->host == one && end->to_host == other) ||
                        (end->host == other && end->to_host == one);
        if (end->state == SIM_SOCKET_CONNECTED && is_meant) {
            lose(sim, end);
            count++;
        }
    }
    sim->counts.resets += count / 2;
    return (count + 1) / 2;
}

void io_sim_corrupt(struct io_sim *sim, uint32_t from, uint32_t to)
{
    sim->ways[from][to].corrupt_count++;
}

void io_sim_spare(struct io_sim *sim)
{
    for (uint32_t i = 0; i < IO_SIM_HOST_MAX * IO_SIM_HOST_MAX; i++) {
        sim->ways[i / IO_SIM_HOST_MAX][i % IO_SIM_HOST_MAX].corrupt_count = 0;
    }
}
