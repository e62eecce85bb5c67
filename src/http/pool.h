#pragma once
/* http/pool: the client's connections, busy and idle. Private to http.
 *
 *   open or take_idle -> BUSY with one call -> give_back -> IDLE -> take_idle ...
 *                            \-> end                  \-> end (1 s, stray byte,
 *                                                        end of stream)
 */
#include "http/client.h"
#include "http/parser.h"
#include "io/tcp.h"

/* Where links lead; lives as long as one of them. */
struct http_peer {
    struct http_peer *next;
    struct http_link *first_idle; /* given back last: the freshest */
    uint32_t idle_count;
    uint32_t link_count;
    char host[256];
    uint16_t port;
};

struct http_link {
    struct http_client *client;
    struct http_peer *peer;
    struct http_link *next_idle;
    struct http_link *previous_idle;
    struct http_link *next; /* all of the client */
    struct http_link *previous;
    struct io_stream *stream; /* NULL: the name could not be resolved */
    struct http_parser *parser;
    struct io_timer *timer;
    struct http_call *call; /* NULL: idle or ending */
    bool is_open; /* it was connected */
    bool is_idle;
    bool is_ending;
};

struct http_client {
    struct io_loop *loop;
    struct http_client_options options;
    struct http_link *first;
    struct http_peer *peers;
    bool is_destroyed;
};

/* What the call of a link is told. */
void http_call_on_open(struct http_call *call);
void http_call_on_bytes(struct http_call *call, struct span bytes);
void http_call_on_body(struct http_call *call, struct span bytes);
void http_call_on_time(struct http_call *call);
void http_call_on_closed(struct http_call *call, enum err reason,
                         const char *text);

/* An idle link that is still good, or a fresh one that connects. */
struct http_link *http_pool_take(struct http_client *client,
                                 const struct http_call_options *options,
                                 bool *is_reused_out);
/* To the idle ones, or away when there are enough. */
void http_pool_give_back(struct http_link *link);
/* Closes it; nobody hears of it again. */
void http_pool_end(struct http_link *link);
