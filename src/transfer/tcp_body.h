#pragma once
/* transfer/tcp_body: what the parts of backend_tcp share. Private to it:
 * the table and its turns (backend_tcp.c), how they are made (tcp_dial.c),
 * connections and who they are (tcp_link.c), the side that sends (tcp_send.c)
 * and that receives (tcp_receive.c).
 *
 *   peer (ours to write to) -- link -- ... -- link (incoming) -> grants, pool
 *
 * A link whose connection is over is DEAD at once and freed at the end of the
 * turn; nobody but its owner holds it. */
#include <sys/uio.h>

#include "io/dial.h"
#include "io/poller.h"
#include "io/resolver.h"
#include "transfer/tcp_grants.h"
#include "transfer/tcp_wire.h"
#include "transfer/write_queue.h"

enum {
    TCP_PEER_COUNT_MAX = 128,
    TCP_INCOMING_MAX = 256,
    TCP_STRANGERS_MAX = 32, /* of these, who have not proven themselves */
    TCP_LINK_COUNT_MAX = TCP_PEER_COUNT_MAX + TCP_INCOMING_MAX,
    TCP_OUT_SIZE = 64 * TCP_HEAD_SIZE, /* ACKs that wait for the kernel */
    TCP_SCRAP_SIZE = 64 * 1024,
    TCP_KEY_SIZE_MAX = 4096
};

enum tcp_state {
    TCP_LINK_CONNECTING, /* outgoing */
    TCP_LINK_HELLO, /* CHALLENGE or HELLO is still to come */
    TCP_LINK_PROOF, /* incoming: PROOF is still to come */
    TCP_LINK_OPEN,
    TCP_LINK_DEAD
};

/* What is being received. */
struct tcp_inbox {
    bool is_in_write; /* between the frames of one */
    uint64_t write; /* the last one's number */
    struct transfer_token token;
    bool is_refused; /* some bytes of this write were thrown away */
    struct tcp_head head;
    struct tcp_piece pieces[TCP_PIECES_MAX];
    uint32_t piece_at;
    uint32_t piece_done; /* bytes of that piece */
    uint32_t payload_left; /* 0: the next frame's head or list is due */
    uint64_t checked_at; /* grants->change when the pieces were allowed */
};

struct tcp_link {
    struct tcp_body *body;
    struct tcp_peer *peer; /* NULL: incoming */
    enum tcp_state state;
    struct io_dial *dial; /* CONNECTING; else NULL */
    int fd; /* -1: the receiver's name is being looked up */
    bool is_readable, is_writable; /* until the kernel says otherwise */
    bool has_ended; /* read on until the end shows: nobody tells again */
    uint64_t opened_ns, deadline_ns; /* of the proof, or of an address */
    char name[64];
    struct tcp_secret secret;
    struct tcp_terms terms;
    uint8_t in[TCP_HEAD_SIZE + TCP_LIST_SIZE_MAX];
    size_t in_size;
    uint8_t out[TCP_OUT_SIZE];
    size_t out_size, out_sent;
    struct tcp_inbox *inbox; /* incoming, once open */
};

/* A frame on its way out. */
struct tcp_frame {
    uint8_t head[TCP_HEAD_SIZE + TCP_LIST_SIZE_MAX];
    struct iovec parts[TCP_PIECES_MAX + 1]; /* what is left of it */
    uint32_t part_at, part_count;
    size_t left; /* bytes; 0: none under way */
    bool is_last;
};

struct tcp_peer {
    struct transfer_backend_peer base;
    struct tcp_blob where;
    size_t pool_size;
    struct tcp_link *link; /* NULL: broken */
    uint64_t retry_ns; /* no new connection before */
    struct transfer_write_queue waiting; /* the first one is being sent */
    struct transfer_write_queue sent; /* all bytes; the ACK is to come */
    uint64_t begun; /* writes begun on this connection */
    uint64_t acked;
    uint64_t piece_done; /* bytes of the piece at the cursor */
    struct tcp_frame frame;
    uint32_t write_count;
    bool is_closed;
};

struct tcp_body {
    struct transfer_backend base;
    uint64_t incarnation;
    char host[TCP_HOST_SIZE]; /* for others */
    uint8_t key[TCP_KEY_SIZE_MAX];
    size_t key_size;
    uint8_t nonce[TCP_NONCE_SIZE];
    int listener; /* -1: closed */
    bool is_resting; /* no descriptor left: does not accept for a while */
    uint64_t rest_ns;
    struct io_poller *poller;
    struct io_look_up look_up;
    struct io_resolver *resolver; /* NULL: no receiver has a name yet */
    struct io_waker *waker; /* its */

    uint8_t *pool; /* NULL before alloc */
    size_t pool_size;
    bool is_pool_ours;
    struct tcp_grants grants;

    struct tcp_link *links[TCP_LINK_COUNT_MAX];
    uint32_t link_count, incoming_count;
    uint32_t turn; /* who is first */
    uint32_t peer_count;
    struct transfer_write_queue done;
    uint8_t scrap[TCP_SCRAP_SIZE];
};

/* -------- tcp_link.c -------- */

/* Without a descriptor; there is room. */
struct tcp_link *tcp_link_add(struct tcp_body *body);
/* The descriptor is closed where this fails. ERR_IO. */
MUST_USE enum err tcp_link_take_fd(struct tcp_link *link, int fd,
                                   struct why *why);
void tcp_link_drop_fd(struct tcp_link *link);
/* Takes what waits at the listener. */
void tcp_link_accept(struct tcp_body *body);
/* Ends it with a log line; NULL: silently. Its writes stop. */
void tcp_link_break(struct tcp_link *link, const char *text);
/* Frees the dead. */
void tcp_link_sweep(struct tcp_body *body);
/* Something to do without waiting for the kernel. */
bool tcp_link_has_work(const struct tcp_link *link);
/* Moves at most about TCP_PAYLOAD_MAX bytes each way; says how many. */
size_t tcp_link_step(struct tcp_link *link);
void tcp_link_expire(struct tcp_body *body, uint64_t now);
/* When something expires; 0: never. */
uint64_t tcp_link_next_ns(const struct tcp_body *body);
/* One receive; 0 when there was nothing, or the link is dead now. */
size_t tcp_link_receive(struct tcp_link *link, const struct iovec *parts,
                        size_t part_count);

/* -------- tcp_dial.c -------- */

/* Starts the connection of `peer`. ERR_IO, ERR_INVALID. */
MUST_USE enum err tcp_dial_start(struct tcp_body *body, struct tcp_peer *peer,
                                 struct why *why);
/* CONNECTING: the address has answered, or has not in its time. */
void tcp_dial_on_writable(struct tcp_link *link);
void tcp_dial_on_late(struct tcp_link *link);
/* The waker is readable. */
void tcp_dial_hear(struct tcp_body *body);
/* All links are gone. */
void tcp_dial_finish(struct tcp_body *body);

/* -------- tcp_send.c -------- */

bool tcp_send_has_work(const struct tcp_peer *peer);
size_t tcp_send_step(struct tcp_peer *peer);
/* The receiver's ACKs. */
size_t tcp_send_hear(struct tcp_peer *peer);
/* All writes come back STOPPED. */
void tcp_send_stop(struct tcp_peer *peer);

/* -------- tcp_receive.c -------- */

/* Room for one more answer: else the sender must wait. */
bool tcp_receive_can_go_on(const struct tcp_link *link);
size_t tcp_receive_step(struct tcp_link *link);
