#include <stdio.h>

#include "base/rng.h"
#include "io/clock.h"
#include "io/mailbox.h"
#include "io/socket.h"
#include "transfer/tcp_body.h"

static const uint64_t CONNECT_NS = 5000000000u;

/* -------- names -------- */

static enum err open_resolver(struct tcp_body *body, struct why *why)
{
    if (body->resolver != NULL) {
        return OK;
    }
    struct io_waker *waker = NULL;
    enum err err = io_waker_create(&waker);
    err = err ? err
              : io_poller_add(body->poller, io_waker_fd(waker), false,
                              &body->waker);
    if (err) {
        io_waker_destroy(waker);
        return why_say(why, err, "no descriptor left to wait for a name");
    }
    body->waker = waker;
    body->resolver = io_resolver_create(&(struct io_resolver_options){
        .waker = waker, .look_up = body->look_up});
    return OK;
}

void tcp_dial_hear(struct tcp_body *body)
{
    io_waker_clear(body->waker);
    io_resolver_step(body->resolver, io_clock_now_ns());
}

void tcp_dial_finish(struct tcp_body *body)
{
    io_resolver_destroy(body->resolver);
    io_waker_destroy(body->waker);
}

/* -------- addresses -------- */

/* `why` is why the last one failed, or why the next one does. ERR_BUSY: the name
 * service has not answered. */
static enum err next(struct tcp_link *link, struct why *why)
{
    int fd = -1;
    tcp_link_drop_fd(link);
    enum err err = io_socket_connect(link->dial, io_clock_now_ns(), why, &fd);
    err = err ? err : tcp_link_take_fd(link, fd, why);
    link->deadline_ns = io_dial_until_ns(link->dial);
    return err;
}

static void next_or_break(struct tcp_link *link, struct why *why)
{
    enum err err = next(link, why);
    if (err) {
        tcp_link_break(link, why->text);
    }
}

static void on_found(void *context)
{
    struct why why = {0};
    next_or_break(context, &why);
}

void tcp_dial_on_late(struct tcp_link *link)
{
    struct why why = {"no answer in time"};
    next_or_break(link, &why); /* also while there is no address yet */
}

void tcp_dial_on_writable(struct tcp_link *link)
{
    struct why why = {0};
    if (io_socket_connected(link->fd, &why)) {
        next_or_break(link, &why);
        return;
    }
    io_dial_destroy(link->dial);
    link->dial = NULL;
    link->deadline_ns = link->opened_ns + CONNECT_NS;
    tcp_hello_encode(&link->terms, link->out);
    link->out_size = TCP_HELLO_SIZE;
    link->state = TCP_LINK_HELLO;
}

/* -------- begin -------- */

static enum err dial(struct tcp_link *link, const struct tcp_blob *where,
                     struct why *why)
{
    struct io_endpoint digits;
    struct io_dial_options options = {
        .host = where->host,
        .port = where->port,
        .now = link->opened_ns,
        .limit_ns = link->opened_ns + CONNECT_NS,
        .on_found = on_found,
        .context = link,
    };
    enum err err = OK;
    if (!io_resolve_digits(where->host, where->port, &digits)) {
        err = open_resolver(link->body, why);
        options.resolver = link->body->resolver;
    }
    err = err ? err : io_dial_create(&options, why, &link->dial);
    err = err ? err : next(link, why);
    return err == ERR_BUSY ? OK : err;
}

static void set_terms(struct tcp_link *link, const struct tcp_blob *where)
{
    struct tcp_body *body = link->body;
    snprintf(link->name, sizeof(link->name), "%.50s port %u", where->host,
             where->port);
    link->secret =
        tcp_secret_of(span_of(body->key, body->key_size), where->nonce);
    link->terms.sender = body->incarnation;
    link->terms.receiver = where->incarnation;
    rng_system_bytes(link->terms.sender_nonce, TCP_NONCE_SIZE);
}

enum err tcp_dial_start(struct tcp_body *body, struct tcp_peer *peer,
                        struct why *why)
{
    struct tcp_link *link = tcp_link_add(body);
    link->state = TCP_LINK_CONNECTING;
    link->peer = peer;
    peer->link = link;
    set_terms(link, &peer->where);
    enum err err = dial(link, &peer->where, why);
    if (err) {
        tcp_link_break(link, NULL);
        tcp_link_sweep(body);
    }
    return err;
}
