#pragma once
/* http/newcomers: connections that have not asked anything yet, which is sending
 * one complete head. They are bounded apart from those that have, by number and
 * time: of too many the oldest is cut off, so that a crowd that says nothing keeps
 * no client out and harms no stream. Private to http. */
#include <stdbool.h>
#include <stdint.h>

struct http_exchange;

/* Open, in the server, zero at first but for the maximum. */
struct http_newcomers {
    struct http_exchange *oldest, *newest;
    uint32_t count, count_max;
};
struct http_newcomer { /* in each connection */
    struct http_exchange *older, *newer;
    bool is_one;
};

/* The one that has to go for it, or NULL. */
struct http_exchange *http_newcomers_add(struct http_newcomers *newcomers,
                                         struct http_exchange *exchange);
/* It has asked, or is gone; fine when it was none any more. */
void http_newcomers_remove(struct http_newcomers *newcomers,
                           struct http_exchange *exchange);
