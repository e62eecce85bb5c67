#include "http/pool.h"

#include <stdio.h>
#include <strings.h>

#include "base/mem.h"

enum { HEAD_BYTES_MAX = 128 << 10, IDLE_COUNT_MAX = 64 };
static const uint64_t SECOND_NS = 1000000000u;
static const size_t WRITE_MAX = (size_t)1 << 30;

static void on_open(void *context);
static void on_read(void *context, struct span bytes);
static void on_close(void *context, enum err reason, const char *text);
static const struct io_stream_handler HANDLER = {
    .on_open = on_open, .on_read = on_read, .on_close = on_close};

struct http_client *http_client_create(
    struct io_loop *loop, const struct http_client_options *options)
{
    struct http_client *client = mem_new(sizeof(*client));
    client->loop = loop;
    client->options = *options;
    if (options->idle_count_max == 0) {
        client->options.idle_count_max = IDLE_COUNT_MAX;
    }
    if (options->idle_ns_max == 0) {
        client->options.idle_ns_max = SECOND_NS;
    }
    if (options->head_bytes_max == 0) {
        client->options.head_bytes_max = HEAD_BYTES_MAX;
    }
    return client;
}

static void free_client_if_last(struct http_client *client)
{
    if (client->is_destroyed && client->first == NULL) {
        mem_free(client);
    }
}

void http_client_destroy(struct http_client *client)
{
    if (client == NULL) {
        return;
    }
    for (struct http_link *at = client->first; at != NULL; at = at->next) {
        if (at->call != NULL) {
            http_call_cancel(at->call);
        } else {
            http_pool_end(at);
        }
    }
    client->is_destroyed = true;
    free_client_if_last(client);
}

static struct http_peer *take_peer(struct http_client *client, const char *host,
                                   uint16_t port)
{
    struct http_peer *peer = client->peers;
    while (peer != NULL &&
           (peer->port != port || strcasecmp(peer->host, host) != 0)) {
        peer = peer->next;
    }
    if (peer == NULL) {
        peer = mem_new(sizeof(*peer));
        peer->port = port;
        snprintf(peer->host, sizeof(peer->host), "%s", host);
        peer->next = client->peers;
        client->peers = peer;
    }
    peer->link_count++;
    return peer;
}

static void give_peer(struct http_client *client, struct http_peer *peer)
{
    if (--peer->link_count > 0) {
        return;
    }
    struct http_peer **at = &client->peers;
    while (*at != peer) {
        at = &(*at)->next;
    }
    *at = peer->next;
    mem_free(peer);
}

static void make_idle(struct http_link *link)
{
    struct http_peer *peer = link->peer;
    link->is_idle = true;
    link->previous_idle = NULL;
    link->next_idle = peer->first_idle;
    if (link->next_idle != NULL) {
        link->next_idle->previous_idle = link;
    }
    peer->first_idle = link;
    peer->idle_count++;
}

static void end_idle(struct http_link *link)
{
    if (!link->is_idle) {
        return;
    }
    link->is_idle = false;
    link->peer->idle_count--;
    if (link->previous_idle != NULL) {
        link->previous_idle->next_idle = link->next_idle;
    } else {
        link->peer->first_idle = link->next_idle;
    }
    if (link->next_idle != NULL) {
        link->next_idle->previous_idle = link->previous_idle;
    }
}

static void free_link(struct http_link *link)
{
    struct http_client *client = link->client;
    end_idle(link);
    give_peer(client, link->peer);
    if (link->previous != NULL) {
        link->previous->next = link->next;
    } else {
        client->first = link->next;
    }
    if (link->next != NULL) {
        link->next->previous = link->previous;
    }
    io_timer_destroy(link->timer);
    http_parser_destroy(link->parser);
    mem_free(link);
    free_client_if_last(client);
}

static void on_open(void *context)
{
    struct http_link *link = context;
    link->is_open = true;
    if (link->call != NULL) {
        http_call_on_open(link->call);
    }
}

static void on_read(void *context, struct span bytes)
{
    struct http_link *link = context;
    if (link->call != NULL) {
        http_call_on_bytes(link->call, bytes);
    } else {
        http_pool_end(link); /* nobody asked: it is not in step with us */
    }
}

static void on_close(void *context, enum err reason, const char *text)
{
    struct http_link *link = context;
    link->is_ending = true;
    if (link->call != NULL) {
        http_call_on_closed(link->call, reason, text);
    }
    free_link(link);
}

/* A name that means nothing is a connection that failed, told later. */
static void connect_failed(void *context)
{
    on_close(context, ERR_IO, "the host name cannot be resolved");
}

static void on_time(void *context)
{
    struct http_link *link = context;
    if (link->call != NULL) {
        http_call_on_time(link->call);
    } else {
        http_pool_end(link);
    }
}

static void on_body(void *context, struct span bytes)
{
    struct http_link *link = context;
    if (link->call != NULL) {
        http_call_on_body(link->call, bytes);
    }
}

static struct http_link *open_link(struct http_client *client,
                                   const struct http_call_options *options)
{
    struct http_link *link = mem_new(sizeof(*link));
    link->client = client;
    link->peer = take_peer(client, options->host, options->port);
    link->timer = io_timer_create(client->loop, on_time, link);
    link->parser = http_parser_create(&(struct http_parser_options){
        .head_bytes_max = client->options.head_bytes_max,
        .on_body = on_body,
        .context = link,
    });
    link->next = client->first;
    if (client->first != NULL) {
        client->first->previous = link;
    }
    client->first = link;
    const struct io_stream_options stream = {
        .handler = &HANDLER,
        .context = link,
        .write_max = WRITE_MAX,
        .connect_timeout_ns = client->options.connect_timeout_ns,
    };
    if (io_stream_connect(client->loop, options->host, options->port, &stream,
                          NULL, &link->stream) != OK) {
        io_loop_defer(client->loop, connect_failed, link);
    }
    return link;
}

struct http_link *http_pool_take(struct http_client *client,
                                 const struct http_call_options *options,
                                 bool *is_reused_out)
{
    struct http_peer *peer = take_peer(client, options->host, options->port);
    *is_reused_out = false;
    struct http_link *link = NULL;
    while (!*is_reused_out && peer->first_idle != NULL) {
        link = peer->first_idle;
        *is_reused_out = !io_stream_is_stale(link->stream);
        if (*is_reused_out) {
            end_idle(link);
            io_timer_stop(link->timer);
        } else {
            http_pool_end(link);
        }
    }
    if (!*is_reused_out) {
        link = open_link(client, options);
    }
    give_peer(client, peer);
    return link;
}

void http_pool_give_back(struct http_link *link)
{
    const struct http_client *client = link->client;
    if (link->is_ending) {
        return;
    }
    if (client->is_destroyed ||
        link->peer->idle_count >= client->options.idle_count_max) {
        http_pool_end(link);
        return;
    }
    http_parser_reset(link->parser);
    make_idle(link);
    io_stream_set_reading(link->stream, true);
    io_timer_start(link->timer, client->options.idle_ns_max);
}

void http_pool_end(struct http_link *link)
{
    end_idle(link);
    if (link->is_ending) {
        return;
    }
    link->is_ending = true;
    io_timer_stop(link->timer);
    if (link->stream != NULL) {
        io_stream_close(link->stream, false);
    }
}
