#pragma once
/* http/connection: what a server and its connections know of each other.
 * Private to http.
 *
 *   IDLE -> RECEIVING -> WORKING -> STREAMING -> IDLE        (kept alive)
 *     |         |           \___________\______-> CLOSING    (told to, or 1.0)
 *     |         \-> CLOSING  a refusal was answered
 *     \-> CLOSING            nobody asked for long
 *   any state -> GONE: the stream ended; WORKING and STREAMING tell on_gone
 */
#include "http/newcomers.h"
#include "http/parser.h"
#include "http/server.h"
#include "io/tcp.h"

enum connection_state {
    CONNECTION_IDLE,
    CONNECTION_RECEIVING,
    CONNECTION_WORKING,
    CONNECTION_STREAMING,
    CONNECTION_CLOSING,
    CONNECTION_GONE,
};

/* A connection carries one exchange at a time, so the two are one object. */
struct http_exchange {
    struct http_server *server;
    struct http_exchange *next; /* all of the server */
    struct http_exchange *previous;
    struct http_newcomer newcomer;
    struct http_exchange *next_dirty; /* to be looked at after this turn */
    bool is_dirty;
    enum connection_state state;
    struct io_stream *stream;
    struct io_timer *timer;
    struct http_parser *parser;
    struct buf input; /* what came behind the request being answered */
    struct buf output; /* leaves after this turn */
    size_t held; /* of body and `input`, counted in the server's total */
    uint64_t sent_seen; /* progress of a slow reader, see on_limit */
    uint64_t arrival_ns;
    bool keeps_alive; /* after the answer */
    bool is_head; /* HEAD: the answer has no body */
    bool has_body;
    bool has_chunks; /* the answer comes in chunks; 1.0 knows none */
    bool is_over_mark;
    bool is_lost; /* part of an answer could not be kept */
    bool owes_end; /* closing; its last answer may still be on its way */
    void *user;
};

struct http_server {
    struct io_loop *loop;
    struct http_server_options options;
    struct io_listener *listener;
    uint16_t port;
    bool is_winding_down; /* each answer is the last of its connection */
    bool is_draining;
    bool is_closed;
    bool is_flush_due; /* a deferred flush is on its way */
    struct http_exchange *first;
    struct http_exchange *first_dirty;
    struct http_newcomers newcomers;
    uint32_t connection_count;
    uint32_t open_count; /* exchanges between on_request and their end */
    uint64_t held; /* bytes of bodies and early input, all connections */
    uint64_t held_max;
    uint64_t date_second;
    struct buf date;
};

void http_connection_accept(struct http_server *server,
                            struct io_stream *stream);
/* Sends what is waiting, then reads what came early. */
void http_connection_settle(struct http_exchange *exchange);
/* Closes when nothing is asked; what is answered leaves first. */
void http_connection_close_if_idle(struct http_exchange *exchange);
void http_connection_cut(struct http_exchange *exchange);
/* Behind what is waiting; large bytes leave at once, without a copy. */
void http_connection_send(struct http_exchange *exchange, struct span bytes);
/* Bytes that the kernel has not taken yet. */
size_t http_connection_pending(const struct http_exchange *exchange);
/* Nothing is asked of us, and what was answered has left. */
bool http_connection_is_quiet(const struct http_exchange *exchange);
/* Ends it so that the client cannot take it for a clean end. */
void http_connection_reset(struct http_exchange *exchange);
/* The answer is complete. */
void http_connection_answered(struct http_exchange *exchange);
/* Of the connections of a server. */
void http_server_link(struct http_server *server,
                      struct http_exchange *exchange);
void http_server_unlink(struct http_server *server,
                        struct http_exchange *exchange);
/* Has it settled after this turn of the loop. */
void http_server_settle_later(struct http_exchange *exchange);
void http_server_forget_settling(struct http_exchange *exchange);
/* After the last connection of a closed server. */
void http_server_free_if_last(struct http_server *server);
