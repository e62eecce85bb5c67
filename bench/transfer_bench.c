/* How fast pages reach a peer's pool, beside the least that must be done for
 * it, turn about in one run:
 *
 *   tcp     1 MiB writes over loopback, digest and answer included, beside a
 *           bare socket that carries as many bytes; also pieces of 16 KiB
 *   shared  large and scattered pages into shared memory of another mapping,
 *           with digest and without, beside memcpy into memory of that kind
 *   pairs   descriptors planned from two block lists
 *
 * Pools are larger than the last-level cache where that is below 512 MiB, and
 * every round goes on where the one before stopped. The two ends are threads on
 * two CPUs where there are two. [transfer T96] */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "io/dial.h"
#include "io/socket.h"
#include "io/thread.h"
#include "line.h"
#include "transfer/backend_tcp.h"
#include "transfer/backend_ucx.h"
#include "transfer/pairing.h"

enum {
    MIB = 1 << 20,
    POOL_SIZE = 768 * MIB,
    ROUND_SIZE = 192 * MIB,
    ROUNDS = 9,
    FLIGHT = 8, /* writes under way */
    PIECES_MAX = ROUND_SIZE / 4096,
};

static const struct transfer_token TOKEN = {1, 1};

struct bench {
    struct transfer_backend *sender, *receiver;
    uint8_t *source, *target;
    struct transfer_backend_peer *peer;
    struct io_thread *thread;
    atomic_bool is_over;
    size_t at; /* where the next round begins */
    struct transfer_piece *pieces; /* (PIECES_MAX) */
};

static void stop_on(enum err err, const char *what)
{
    if (err) {
        fprintf(stderr, "transfer_bench: %s: %s\n", what, err_name(err));
        exit(1);
    }
}

/* Of all our threads: what others do on the CPUs does not count. */
static double cpu_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (io_thread_cpu_count() > 1) {
        /* Refused: the scheduler places us. */
        IGNORE(sched_setaffinity(0, sizeof(set), &set));
    }
}

/* -------- two backends, one pool each -------- */

static uint8_t *pool_of(struct transfer_backend *backend, int value)
{
    void *pool;
    struct why why = {{0}};
    enum err err = transfer_backend_alloc(backend, POOL_SIZE, &why, &pool);
    if (err) {
        fprintf(stderr, "transfer_bench: %s\n", why.text);
    }
    stop_on(err, "pool");
    memset(pool, value, POOL_SIZE);
    return pool;
}

static void connect_pools(struct bench *b)
{
    struct why why = {{0}};
    struct buf blob;
    buf_init(&blob, TRANSFER_BLOB_SIZE_MAX);
    struct transfer_range all = {0, POOL_SIZE};
    stop_on(transfer_backend_authorise(b->receiver, 11, TOKEN, &all, 1),
            "authorise");
    stop_on(
        transfer_backend_export(b->receiver, b->target, POOL_SIZE, &why, &blob),
        "export");
    stop_on(transfer_backend_peer_open(b->sender, buf_span(&blob), POOL_SIZE,
                                       &why, &b->peer),
            "open");
    buf_finish(&blob);
}

/* The receiving worker: polls, and sleeps when there is nothing. */
static void receive(void *context)
{
    struct bench *b = context;
    pin(1);
    while (!atomic_load(&b->is_over)) {
        bool is_busy = false;
        IGNORE(transfer_backend_poll(b->receiver, &is_busy) != NULL);
        if (!is_busy && transfer_backend_arm(b->receiver) == OK) {
            struct pollfd fd = {transfer_backend_fd(b->receiver), POLLIN, 0};
            poll(&fd, 1, 10);
        }
    }
}

static struct transfer_write *wait_for_one(struct bench *b)
{
    for (;;) {
        bool is_busy = false;
        struct transfer_write *write =
            transfer_backend_poll(b->sender, &is_busy);
        if (write != NULL) {
            stop_on(write->outcome == TRANSFER_DONE ? OK : ERR_IO, "write");
            return write;
        }
        if (!is_busy && transfer_backend_arm(b->sender) == OK) {
            struct pollfd fd = {transfer_backend_fd(b->sender), POLLIN, 0};
            poll(&fd, 1, 10);
        }
    }
}

/* Pages lie apart in opposite orders, as pools that were in use lend them. */
static void plan_round(struct bench *b, size_t size)
{
    size_t count = ROUND_SIZE / size;
    for (size_t i = 0; i < count; i++) {
        size_t to = size <= 65536 ? i * 7 % count : i;
        b->pieces[i] = (struct transfer_piece){b->at + (count - 1 - i) * size,
                                               b->at + to * size, size, 0};
    }
    b->at = (b->at + ROUND_SIZE) % POOL_SIZE;
}

/* Writes of about a MiB, so many under way. */
static double run_writes(struct bench *b, size_t size, bool with_digest)
{
    struct transfer_write writes[FLIGHT];
    size_t count = ROUND_SIZE / size;
    size_t each = size < MIB ? MIB / size : 1;
    size_t next = 0, live = 0;
    plan_round(b, size);
    uint64_t begin = io_clock_now_ns();
    struct transfer_write *free_one = NULL;
    while (next < count || live > 0) {
        while (next < count && (live < FLIGHT)) {
            struct transfer_write *write =
                free_one != NULL ? free_one : &writes[live];
            free_one = NULL;
            *write = (struct transfer_write){.peer = b->peer,
                                             .token = TOKEN,
                                             .pieces = b->pieces + next,
                                             .piece_count = each,
                                             .without_digest = !with_digest};
            transfer_backend_write(b->sender, write);
            next += each;
            live++;
        }
        free_one = wait_for_one(b);
        live--;
    }
    return (double)(io_clock_now_ns() - begin);
}

/* -------- a bare socket -------- */

struct bare {
    int fds[2];
    uint8_t *source, *target; /* (POOL_SIZE) */
    size_t source_at, target_at;
    struct io_thread *thread;
};

static void move(int fd, uint8_t *at, size_t size, bool is_out)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = is_out ? send(fd, at + done, size - done, MSG_NOSIGNAL)
                             : recv(fd, at + done, size - done, 0);
        if (got <= 0) {
            return;
        }
        done += (size_t)got;
    }
}

/* Answers a byte a round, as the writes are answered. */
static void receive_bare(void *context)
{
    struct bare *bare = context;
    pin(1);
    char byte = 0;
    while (recv(bare->fds[1], &byte, 1, MSG_PEEK) == 1) {
        for (size_t done = 0; done < ROUND_SIZE; done += MIB) {
            move(bare->fds[1], bare->target + bare->target_at + done, MIB,
                 false);
        }
        bare->target_at = (bare->target_at + ROUND_SIZE) % POOL_SIZE;
        move(bare->fds[1], (uint8_t *)&byte, 1, true);
    }
}

static double run_bare(struct bare *bare)
{
    uint8_t byte;
    uint64_t begin = io_clock_now_ns();
    for (size_t done = 0; done < ROUND_SIZE; done += MIB) {
        move(bare->fds[0], bare->source + bare->source_at + done, MIB, true);
    }
    bare->source_at = (bare->source_at + ROUND_SIZE) % POOL_SIZE;
    move(bare->fds[0], &byte, 1, false);
    return (double)(io_clock_now_ns() - begin);
}

static void set_blocking(int fd)
{
    struct timeval forever = {0, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof(forever));
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags & ~O_NONBLOCK);
}

static void open_bare(struct bare *bare, const struct bench *b)
{
    struct io_socket_listen at = {.host = "127.0.0.1"};
    int listener = -1;
    stop_on(io_socket_listen(&at, NULL, &listener), "listen");
    struct io_dial *dial;
    struct io_dial_options to = {.host = "127.0.0.1",
                                 .port = io_socket_port(listener)};
    stop_on(io_dial_create(&to, NULL, &dial), "dial");
    stop_on(io_socket_connect(dial, 0, NULL, &bare->fds[0]), "connect");
    io_dial_destroy(dial);
    struct pollfd wait = {listener, POLLIN, 0};
    poll(&wait, 1, 1000);
    stop_on(io_socket_accept(listener, &bare->fds[1]), "accept");
    io_socket_reset(listener);
    set_blocking(bare->fds[0]);
    set_blocking(bare->fds[1]);
    bare->source = b->source;
    bare->target = b->target;
    stop_on(io_thread_start("bare", receive_bare, bare, &bare->thread),
            "thread");
}

static void close_bare(struct bare *bare)
{
    shutdown(bare->fds[0], SHUT_RDWR);
    io_thread_join(bare->thread);
    close(bare->fds[0]);
    close(bare->fds[1]);
}

/* -------- figures -------- */

static double gigabytes(double ns)
{
    return ROUND_SIZE / ns;
}

static void say(const char *name, double *ours, double *theirs,
                const char *peer, double goal, double aim)
{
    double ratios[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        ratios[i] = theirs[i] / ours[i];
    }
    char against[64];
    double other = gigabytes(line_median(theirs, ROUNDS));
    snprintf(against, sizeof(against), "%s, %.2f GB/s", peer, other);
    line_print(&(struct line){.bench = "transfer",
                              .name = name,
                              .value = gigabytes(line_median(ours, ROUNDS)),
                              .unit = "GB/s",
                              .against = against,
                              .ratio = line_median(ratios, ROUNDS),
                              .goal = goal,
                              .aim = aim,
                              .runs = ROUNDS});
}

static void bench_tcp(struct bench *b)
{
    struct transfer_backend_tcp_options options = {.incarnation = 11,
                                                   .host = "127.0.0.1"};
    stop_on(transfer_backend_tcp_create(&options, NULL, &b->sender), "tcp");
    options.incarnation = 22;
    stop_on(transfer_backend_tcp_create(&options, NULL, &b->receiver), "tcp");
    b->source = pool_of(b->sender, 1);
    b->target = pool_of(b->receiver, 2);
    connect_pools(b);
    stop_on(io_thread_start("receive", receive, b, &b->thread), "thread");
    struct bare bare = {0};
    open_bare(&bare, b);
    double whole[ROUNDS], plain[ROUNDS], small[ROUNDS], theirs[ROUNDS];
    double whole_cpu[ROUNDS], theirs_cpu[ROUNDS];
    run_writes(b, MIB, true);
    run_bare(&bare);
    for (int i = 0; i < ROUNDS; i++) {
        double begin = cpu_ns();
        whole[i] = run_writes(b, MIB, true);
        double middle = cpu_ns();
        theirs[i] = run_bare(&bare);
        theirs_cpu[i] = cpu_ns() - middle;
        whole_cpu[i] = middle - begin;
        plain[i] = run_writes(b, MIB, false);
        small[i] = run_writes(b, 16384, true);
    }
    double again[ROUNDS], more[ROUNDS];
    memcpy(again, theirs, sizeof(again));
    memcpy(more, theirs, sizeof(more));
    say("tcp, 1 MiB", whole, theirs, "bare socket", 0.8, 0.95);
    say("tcp, 1 MiB, no digest", plain, again, "bare socket", 0, 0);
    say("tcp, scattered 16 KiB", small, more, "bare socket", 0, 0.8);
    say("tcp, 1 MiB, bytes a CPU second", whole_cpu, theirs_cpu, "bare socket",
        0, 0.9);
    close_bare(&bare);
    atomic_store(&b->is_over, true);
    io_thread_join(b->thread);
    atomic_store(&b->is_over, false);
}

static void end_backends(struct bench *b)
{
    transfer_backend_peer_close(b->peer);
    transfer_backend_free(b->sender, b->source);
    transfer_backend_free(b->receiver, b->target);
    transfer_backend_destroy(b->sender);
    transfer_backend_destroy(b->receiver);
}

/* Into shared memory that the copying side did not make: the receiver's pool
 * is a segment too. */
static double run_memcpy(struct bench *b, size_t size)
{
    plan_round(b, size);
    size_t count = ROUND_SIZE / size;
    double begin = cpu_ns();
    for (size_t i = 0; i < count; i++) {
        memcpy(b->target + b->pieces[i].target_offset,
               b->source + b->pieces[i].source_offset, size);
        __asm__ volatile("" : : "r"(b->target) : "memory");
    }
    return cpu_ns() - begin;
}

/* One thread does it all: its CPU time is the time on an idle machine. */
static double cpu_of_writes(struct bench *b, size_t size, bool with_digest)
{
    double begin = cpu_ns();
    run_writes(b, size, with_digest);
    return cpu_ns() - begin;
}

static void bench_shared_size(struct bench *b, const char *text, size_t size,
                              double goal, double aim)
{
    double plain[ROUNDS], whole[ROUNDS], theirs[ROUNDS], again[ROUNDS];
    char name[64];
    run_writes(b, size, true);
    run_memcpy(b, size);
    for (int i = 0; i < ROUNDS; i++) {
        plain[i] = cpu_of_writes(b, size, false);
        theirs[i] = run_memcpy(b, size);
        whole[i] = cpu_of_writes(b, size, true);
    }
    memcpy(again, theirs, sizeof(again));
    snprintf(name, sizeof(name), "shared memory, %s, no digest", text);
    say(name, plain, theirs, "memcpy", goal, aim);
    snprintf(name, sizeof(name), "shared memory, %s", text);
    say(name, whole, again, "memcpy", goal / 2, goal);
}

static void bench_shared(struct bench *b)
{
    struct why why = {{0}};
    struct transfer_backend_ucx_options options = {.incarnation = 11};
    stop_on(transfer_backend_ucx_create(&options, &why, &b->sender), "ucx");
    options.incarnation = 22;
    stop_on(transfer_backend_ucx_create(&options, &why, &b->receiver), "ucx");
    b->source = pool_of(b->sender, 1);
    b->target = pool_of(b->receiver, 2);
    connect_pools(b);
    bool is_busy = true;
    while (is_busy) { /* the first touch of its pages */
        IGNORE(transfer_backend_poll(b->sender, &is_busy) != NULL);
    }
    bench_shared_size(b, "1 MiB", MIB, 1.2, 1.5);
    bench_shared_size(b, "scattered 64 KiB", 65536, 1.1, 1.3);
    bench_shared_size(b, "scattered 4 KiB", 4096, 1.1, 1.3);
}

/* -------- plans -------- */

static void bench_pairs(struct bench *b)
{
    enum { BLOCKS = 4096, TIMES = 200 };
    static kv_page_id from[BLOCKS], to[BLOCKS];
    static struct transfer_pair pairs[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        from[i] = (kv_page_id)(i * 7 % BLOCKS);
        to[i] = (kv_page_id)(i * 5 % BLOCKS);
    }
    struct transfer_blocks source = {from, 0, BLOCKS}, target = {to, 0, BLOCKS};
    double times[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t begin = io_clock_now_ns();
        for (int i = 0; i < TIMES; i++) {
            uint32_t count = transfer_pair_blocks(&source, &target, pairs);
            for (uint32_t at = 0; at < count; at++) {
                b->pieces[at] = (struct transfer_piece){
                    (uint64_t)pairs[at].source * 65536,
                    (uint64_t)pairs[at].target * 65536, 65536, 0};
            }
            __asm__ volatile("" : : "r"(b->pieces) : "memory");
        }
        times[round] = line_ns_since(begin, TIMES * BLOCKS);
    }
    line_print(&(struct line){.bench = "transfer",
                              .name = "descriptors planned",
                              .value = 1e3 / line_median(times, ROUNDS),
                              .unit = "M/s",
                              .goal = 3,
                              .runs = ROUNDS});
}

int main(void)
{
    static struct bench b;
    pin(0);
    b.pieces = mem_new_array(PIECES_MAX, sizeof(b.pieces[0]));
    bench_pairs(&b);
    bench_tcp(&b);
    end_backends(&b);
    bench_shared(&b);
    end_backends(&b);
    mem_free(b.pieces);
    return 0;
}
