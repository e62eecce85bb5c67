#pragma once
/* io/sim_body: what the parts of a simulated world share: time and loops
 * (loop_sim.c), pipes (net_sim.c), names (sim_names.c), what goes wrong
 * (sim_fault.c), wakers (sim_waker.c, mailbox.c). Private to io. */
#include "io/loop_body.h"
#include "io/sim.h"

enum {
    SIM_SOCKET_MAX = 512,
    SIM_BACKLOG_MAX = 32,
    SIM_FD_FIRST = 0x10000000,
    SIM_NETWORK = 0x0a000000, /* 10.0.0.0 */
};

enum sim_socket_state {
    SIM_SOCKET_FREE,
    SIM_SOCKET_OPEN,
    SIM_SOCKET_LISTENING,
    SIM_SOCKET_CONNECTING,
    SIM_SOCKET_CONNECTED,
    SIM_SOCKET_FAILED, /* a connect: `error` */
    SIM_SOCKET_WAKER
};

enum sim_segment_kind { SIM_BYTES, SIM_END, SIM_RESET };

/* On its way, or arrived and not read. */
struct sim_segment {
    struct sim_segment *next;
    enum sim_segment_kind kind;
    uint64_t arrival_ns;
    uint32_t size, taken;
    uint8_t bytes[];
};

struct sim_socket {
    enum sim_socket_state state;
    struct io_loop *loop;
    uint32_t host;
    uint16_t port;
    uint32_t to_host; /* where it is connected to */
    uint16_t to_port;
    int peer; /* index, -1: gone */
    uint64_t due_ns; /* CONNECTING: when the answer is here */
    int error;
    struct sim_segment *first, *last; /* of what comes in */
    uint32_t held; /* bytes in them */
    uint64_t last_arrival_ns;
    bool has_sent_end;
    uint64_t reset_ns; /* from then on it is broken; UINT64_MAX: not */
    int backlog[SIM_BACKLOG_MAX]; /* LISTENING: connected, not accepted */
    uint32_t backlog_count;
    bool is_raised; /* WAKER */
};

struct sim_way { /* from one host to another */
    bool is_blocked;
    uint64_t blocked_ns; /* since when */
    uint64_t extra_ns;
    uint32_t corrupt_count;
};

struct sim_loop {
    struct io_loop base;
    struct io_sim *sim;
    struct sim_loop *next; /* in the order of their creation */
    uint32_t host;
    bool is_frozen;
    uint64_t ready_ns; /* no turn before */
    struct sim_timer *timers;
    struct sim_watch *watches;
};

struct io_sim {
    struct io_sim_options options;
    struct rng rng;
    uint64_t now;
    uint64_t skew_ns[IO_SIM_HOST_MAX]; /* of the hosts' clocks, ahead of now */
    struct sim_loop *loops;
    uint16_t next_port;
    struct sim_socket sockets[SIM_SOCKET_MAX];
    struct sim_way ways[IO_SIM_HOST_MAX][IO_SIM_HOST_MAX];
    struct io_sim_counts counts;
};

extern const struct io_net_ops io_net_sim;
/* When the descriptor is next readable or writable; UINT64_MAX: not known. */
uint64_t io_sim_readable_ns(const struct io_sim *sim, int fd);
uint64_t io_sim_writable_ns(const struct io_sim *sim, int fd);
/* An index; -1: none is left, as if there were no more descriptors. */
int io_sim_take(struct io_sim *sim, enum sim_socket_state state,
                struct io_loop *loop, uint32_t host);
/* When what is sent now is there. */
uint64_t io_sim_arrival_ns(struct io_sim *sim, uint32_t from, uint32_t to);
/* When the next connect is answered, and answers those that are due. */
uint64_t io_sim_connects_ns(const struct io_sim *sim);
void io_sim_connects_step(struct io_sim *sim);

/* A descriptor that is readable while it is raised. */
int io_sim_waker_open(struct io_sim *sim);
void io_sim_waker_set(struct io_sim *sim, int fd, bool is_raised);
void io_sim_waker_close(struct io_sim *sim, int fd);

struct io_endpoint io_sim_endpoint(uint32_t host, uint16_t port);
/* As the table of io/net.h has them. */
enum err io_sim_look_up(void *context, const char *name, struct why *why,
                        struct io_addresses *addresses_out);
enum err io_sim_waker(struct io_loop *loop, struct io_waker **waker_out);
