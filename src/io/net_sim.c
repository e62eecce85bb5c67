#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/sim_body.h"

static struct io_sim *sim_of(const struct io_loop *loop)
{
    return ((const struct sim_loop *)loop)->sim;
}

static struct sim_socket *at_index(const struct io_sim *sim, int index)
{
    CHECK(index >= 0);
    CHECK(index < SIM_SOCKET_MAX);
    return (struct sim_socket *)&sim->sockets[index];
}

static struct sim_socket *at_fd(const struct io_sim *sim, int fd)
{
    struct sim_socket *one = at_index(sim, fd - SIM_FD_FIRST);
    CHECK(one->state != SIM_SOCKET_FREE);
    return one;
}

static int index_of(const struct io_sim *sim, const struct sim_socket *one)
{
    return (int)(one - sim->sockets);
}

int io_sim_take(struct io_sim *sim, enum sim_socket_state state,
                struct io_loop *loop, uint32_t host)
{
    for (int i = 0; i < SIM_SOCKET_MAX; i++) {
        if (sim->sockets[i].state == SIM_SOCKET_FREE) {
            sim->sockets[i] = (struct sim_socket){.state = state,
                                                  .loop = loop,
                                                  .host = host,
                                                  .peer = -1,
                                                  .reset_ns = UINT64_MAX};
            return i;
        }
    }
    errno = EMFILE;
    return -1;
}

/* 0: nowhere in this world. */
static uint32_t host_of(const struct io_endpoint *endpoint)
{
    const struct sockaddr_in *v4 =
        (const struct sockaddr_in *)&endpoint->address;
    uint32_t host = ntohl(v4->sin_addr.s_addr) - SIM_NETWORK;
    bool is_known = v4->sin_family == AF_INET && host < IO_SIM_HOST_MAX;
    return is_known ? host : 0;
}

static uint16_t draw_port(struct io_sim *sim)
{
    sim->next_port = sim->next_port == 65535 ? 40000 : sim->next_port;
    return sim->next_port++;
}

/* -------- what is under way -------- */

uint64_t io_sim_arrival_ns(struct io_sim *sim, uint32_t from, uint32_t to)
{
    const struct io_sim_options *options = &sim->options;
    uint64_t spread = options->latency_ns_max - options->latency_ns_min;
    return sim->now + options->latency_ns_min +
           rng_below(&sim->rng, spread + 1) + sim->ways[from][to].extra_ns;
}

static struct sim_segment *post(struct io_sim *sim, struct sim_socket *to,
                                enum sim_segment_kind kind, uint32_t size)
{
    struct sim_segment *segment = mem_new(sizeof(*segment) + size);
    uint64_t arrival_ns = io_sim_arrival_ns(sim, to->to_host, to->host);
    segment->kind = kind;
    segment->size = size;
    segment->arrival_ns =
        arrival_ns > to->last_arrival_ns ? arrival_ns : to->last_arrival_ns;
    to->last_arrival_ns = segment->arrival_ns;
    if (to->last != NULL) {
        to->last->next = segment;
    } else {
        to->first = segment;
    }
    to->last = segment;
    to->held += size;
    return segment;
}

static void drop_first(struct sim_socket *one)
{
    struct sim_segment *segment = one->first;
    one->first = segment->next;
    one->last = one->first == NULL ? NULL : one->last;
    one->held -= segment->size - segment->taken;
    mem_free(segment);
}

static void drop_all(struct sim_socket *one)
{
    while (one->first != NULL) {
        drop_first(one);
    }
}

/* UINT64_MAX: held up by a block. */
static uint64_t arrival_ns(const struct io_sim *sim,
                           const struct sim_socket *one)
{
    const struct sim_way *way = &sim->ways[one->to_host][one->host];
    if (one->first == NULL ||
        (way->is_blocked && one->first->arrival_ns > way->blocked_ns)) {
        return UINT64_MAX;
    }
    return one->first->arrival_ns;
}

static bool is_broken(const struct io_sim *sim, const struct sim_socket *one)
{
    return one->reset_ns <= sim->now;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t io_sim_readable_ns(const struct io_sim *sim, int fd)
{
    const struct sim_socket *one = at_fd(sim, fd);
    switch (one->state) {
    case SIM_SOCKET_WAKER:
        return one->is_raised ? sim->now : UINT64_MAX;
    case SIM_SOCKET_LISTENING:
        return one->backlog_count > 0 ? sim->now : UINT64_MAX;
    case SIM_SOCKET_CONNECTED:
        return sooner(arrival_ns(sim, one), one->reset_ns);
    case SIM_SOCKET_FAILED:
        return sim->now;
    case SIM_SOCKET_FREE:
    case SIM_SOCKET_OPEN:
    case SIM_SOCKET_CONNECTING:
        break;
    }
    return UINT64_MAX;
}

static uint32_t room_of(const struct io_sim *sim, const struct sim_socket *one)
{
    uint32_t held = one->peer < 0 ? 0 : at_index(sim, one->peer)->held;
    uint32_t size = sim->options.buffer_size;
    return held < size ? size - held : 0;
}

uint64_t io_sim_writable_ns(const struct io_sim *sim, int fd)
{
    const struct sim_socket *one = at_fd(sim, fd);
    if (one->state == SIM_SOCKET_FAILED) {
        return sim->now;
    }
    if (one->state != SIM_SOCKET_CONNECTED) {
        return UINT64_MAX;
    }
    return room_of(sim, one) > 0 ? sim->now : one->reset_ns;
}

/* -------- connections -------- */

static int open_socket(struct io_loop *loop, const struct io_endpoint *peer)
{
    (void)peer;
    struct io_sim *sim = sim_of(loop);
    uint32_t host = ((struct sim_loop *)loop)->host;
    int index = io_sim_take(sim, SIM_SOCKET_OPEN, loop, host);
    return index < 0 ? -1 : SIM_FD_FIRST + index;
}

static int connect_socket(struct io_loop *loop, int fd,
                          const struct io_endpoint *peer)
{
    struct io_sim *sim = sim_of(loop);
    struct sim_socket *one = at_fd(sim, fd);
    one->to_host = host_of(peer);
    one->to_port = io_endpoint_port(peer);
    if (one->to_host == 0) {
        errno = ENETUNREACH;
        return -1;
    }
    one->port = draw_port(sim);
    one->state = SIM_SOCKET_CONNECTING;
    one->due_ns = io_sim_arrival_ns(sim, one->host, one->to_host) +
                  io_sim_arrival_ns(sim, one->to_host, one->host) - sim->now;
    errno = EINPROGRESS;
    return -1;
}

static struct sim_socket *find_listener(struct io_sim *sim, uint32_t host,
                                        uint16_t port)
{
    for (int i = 0; i < SIM_SOCKET_MAX; i++) {
        struct sim_socket *one = &sim->sockets[i];
        if (one->state == SIM_SOCKET_LISTENING && one->host == host &&
            one->port == port) {
            return one;
        }
    }
    return NULL;
}

static void refuse(struct io_sim *sim, struct sim_socket *one)
{
    one->state = SIM_SOCKET_FAILED;
    one->error = ECONNREFUSED;
    sim->counts.refusals++;
}

static void answer_connect(struct io_sim *sim, struct sim_socket *one)
{
    struct sim_socket *listener =
        find_listener(sim, one->to_host, one->to_port);
    if (listener == NULL || listener->backlog_count == SIM_BACKLOG_MAX) {
        refuse(sim, one);
        return;
    }
    int index =
        io_sim_take(sim, SIM_SOCKET_CONNECTED, listener->loop, one->to_host);
    if (index < 0) {
        refuse(sim, one);
        return;
    }
    struct sim_socket *other = at_index(sim, index);
    other->port = one->to_port;
    other->to_host = one->host;
    other->to_port = one->port;
    other->peer = index_of(sim, one);
    one->peer = index;
    one->state = SIM_SOCKET_CONNECTED;
    listener->backlog[listener->backlog_count++] = index;
    sim->counts.connects++;
}

static bool is_held_up(const struct io_sim *sim, const struct sim_socket *one)
{
    return sim->ways[one->host][one->to_host].is_blocked ||
           sim->ways[one->to_host][one->host].is_blocked;
}

uint64_t io_sim_connects_ns(const struct io_sim *sim)
{
    uint64_t next = UINT64_MAX;
    for (int i = 0; i < SIM_SOCKET_MAX; i++) {
        const struct sim_socket *one = &sim->sockets[i];
        if (one->state == SIM_SOCKET_CONNECTING && !is_held_up(sim, one)) {
            next = sooner(next, one->due_ns);
        }
    }
    return next;
}

void io_sim_connects_step(struct io_sim *sim)
{
    for (int i = 0; i < SIM_SOCKET_MAX; i++) {
        struct sim_socket *one = &sim->sockets[i];
        if (one->state == SIM_SOCKET_CONNECTING && !is_held_up(sim, one) &&
            one->due_ns <= sim->now) {
            answer_connect(sim, one);
        }
    }
}

static int socket_error(struct io_loop *loop, int fd)
{
    return at_fd(sim_of(loop), fd)->error;
}

/* -------- bytes -------- */

static uint32_t draw_part(struct io_sim *sim, size_t size)
{
    uint32_t whole = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
    bool is_partial =
        whole > 1 && rng_below(&sim->rng, 1024) < sim->options.part_per_1024;
    return is_partial ? 1 + (uint32_t)rng_below(&sim->rng, whole - 1) : whole;
}

static void corrupt(struct io_sim *sim, struct sim_way *way,
                    struct sim_segment *segment)
{
    if (way->corrupt_count > 0 && segment->size > 0) {
        way->corrupt_count--;
        sim->counts.corrupted++;
        uint64_t bit = rng_below(&sim->rng, (uint64_t)segment->size * 8);
        segment->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
}

static void copy_parts(uint8_t *to, uint32_t size, const struct iovec *parts,
                       size_t part_count)
{
    for (size_t i = 0; i < part_count && size > 0; i++) {
        uint32_t part =
            parts[i].iov_len < size ? (uint32_t)parts[i].iov_len : size;
        if (part > 0) {
            memcpy(to, parts[i].iov_base, part);
        }
        to += part;
        size -= part;
    }
}

/* What is sent now never arrives, so that no byte does behind a gap. */
static bool is_cut(struct io_sim *sim, const struct sim_socket *one)
{
    return one->peer < 0 || one->reset_ns != UINT64_MAX ||
           at_index(sim, one->peer)->reset_ns != UINT64_MAX;
}

static ssize_t send_parts(struct io_loop *loop, int fd, struct iovec *parts,
                          size_t part_count)
{
    struct io_sim *sim = sim_of(loop);
    struct sim_socket *one = at_fd(sim, fd);
    size_t whole = 0;
    for (size_t i = 0; i < part_count; i++) {
        whole += parts[i].iov_len;
    }
    if (one->state != SIM_SOCKET_CONNECTED || is_broken(sim, one) ||
        one->has_sent_end) {
        errno = EPIPE;
        return -1;
    }
    uint32_t room = room_of(sim, one);
    if (room == 0) {
        errno = EAGAIN;
        return -1;
    }
    uint32_t size = draw_part(sim, whole < room ? whole : room);
    if (is_cut(sim, one)) { /* in time the other kernel says so */
        one->reset_ns = sooner(one->reset_ns,
                               io_sim_arrival_ns(sim, one->to_host, one->host));
        return (ssize_t)size;
    }
    struct sim_segment *segment =
        post(sim, at_index(sim, one->peer), SIM_BYTES, size);
    copy_parts(segment->bytes, size, parts, part_count);
    corrupt(sim, &sim->ways[one->host][one->to_host], segment);
    sim->counts.bytes += size;
    return (ssize_t)size;
}

static ssize_t receive(struct io_loop *loop, int fd, void *bytes, size_t size)
{
    struct io_sim *sim = sim_of(loop);
    struct sim_socket *one = at_fd(sim, fd);
    bool has_arrived = arrival_ns(sim, one) <= sim->now;
    if (!has_arrived || one->first->kind == SIM_RESET) {
        bool is_reset = has_arrived || is_broken(sim, one);
        errno = is_reset ? ECONNRESET : EAGAIN;
        return -1;
    }
    struct sim_segment *first = one->first;
    if (first->kind == SIM_END) {
        return 0;
    }
    uint32_t left = first->size - first->taken;
    uint32_t part = draw_part(sim, left < size ? left : size);
    memcpy(bytes, first->bytes + first->taken, part);
    first->taken += part;
    one->held -= part;
    if (first->taken == first->size) {
        drop_first(one);
    }
    return (ssize_t)part;
}

static bool is_stale(struct io_loop *loop, int fd)
{
    struct io_sim *sim = sim_of(loop);
    return io_sim_readable_ns(sim, fd) <= sim->now;
}

static void end_sending(struct io_loop *loop, int fd)
{
    struct io_sim *sim = sim_of(loop);
    struct sim_socket *one = at_fd(sim, fd);
    if (one->state == SIM_SOCKET_CONNECTED && !is_cut(sim, one) &&
        !one->has_sent_end) {
        post(sim, at_index(sim, one->peer), SIM_END, 0);
    }
    one->has_sent_end = true;
}

/* The kernel goes on without the process: closing over unread bytes resets. */
static void leave(struct io_sim *sim, struct sim_socket *one, bool is_reset)
{
    if (one->state == SIM_SOCKET_CONNECTED && one->peer >= 0) {
        struct sim_socket *peer = at_index(sim, one->peer);
        bool has_unread =
            arrival_ns(sim, one) <= sim->now && one->first->kind == SIM_BYTES;
        if (is_reset || has_unread) {
            post(sim, peer, SIM_RESET, 0);
        } else if (!one->has_sent_end) {
            post(sim, peer, SIM_END, 0);
        }
        peer->peer = -1;
    }
    drop_all(one);
    one->state = SIM_SOCKET_FREE;
}

static void close_socket(struct io_loop *loop, int fd, bool is_reset)
{
    struct io_sim *sim = sim_of(loop);
    struct sim_socket *one = at_fd(sim, fd);
    for (uint32_t i = 0; i < one->backlog_count; i++) {
        leave(sim, at_index(sim, one->backlog[i]), true);
    }
    leave(sim, one, is_reset);
}

/* -------- listening -------- */

static int listen_at(struct io_loop *loop, const struct io_endpoint *at,
                     bool reuse_port)
{
    (void)reuse_port;
    struct io_sim *sim = sim_of(loop);
    uint32_t host = ((struct sim_loop *)loop)->host;
    if (host_of(at) != host) {
        errno = EADDRNOTAVAIL;
        return -1;
    }
    uint16_t port = io_endpoint_port(at);
    port = port == 0 ? draw_port(sim) : port;
    if (find_listener(sim, host, port) != NULL) {
        errno = EADDRINUSE;
        return -1;
    }
    int index = io_sim_take(sim, SIM_SOCKET_LISTENING, loop, host);
    if (index < 0) {
        return -1;
    }
    sim->sockets[index].port = port;
    return SIM_FD_FIRST + index;
}

static int accept_one(struct io_loop *loop, int fd,
                      struct io_endpoint *peer_out)
{
    struct io_sim *sim = sim_of(loop);
    struct sim_socket *listener = at_fd(sim, fd);
    if (listener->backlog_count == 0) {
        errno = EAGAIN;
        return -1;
    }
    int index = listener->backlog[0];
    listener->backlog_count--;
    memmove(listener->backlog, listener->backlog + 1,
            listener->backlog_count * sizeof(listener->backlog[0]));
    const struct sim_socket *one = at_index(sim, index);
    *peer_out = io_sim_endpoint(one->to_host, one->to_port);
    return SIM_FD_FIRST + index;
}

static uint16_t bound_port(struct io_loop *loop, int fd)
{
    return at_fd(sim_of(loop), fd)->port;
}

const struct io_net_ops io_net_sim = {
    .open = open_socket,
    .connect = connect_socket,
    .error = socket_error,
    .send = send_parts,
    .receive = receive,
    .is_stale = is_stale,
    .end = end_sending,
    .close = close_socket,
    .listen = listen_at,
    .accept = accept_one,
    .port = bound_port,
    .look_up = io_sim_look_up,
    .is_look_up_instant = true,
    .waker = io_sim_waker,
};
