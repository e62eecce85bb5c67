#include "transfer/control_part.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "io/allow.h"

enum {
    INPUT_MAX = WIRE_HEADER_SIZE + WIRE_BODY_SIZE_MAX,
    GREETING_MAX = WIRE_HEADER_SIZE + sizeof(struct why),
    SILENT_BEATS_MAX = 10
};
/* Of a sender that cannot be reached its stream tells why, so it is first. */
static const uint64_t CONNECT_NS = 4500000000u, HELLO_NS_MAX = 5000000000u;

/* -------- links -------- */

static struct link *take_link(struct control *control, bool is_outgoing)
{
    struct link *links = control->links + (is_outgoing ? control->link_max : 0);
    for (uint32_t i = 0; i < control->link_max; i++) {
        if (!links[i].is_used) {
            uint64_t now = io_loop_now(control->options.loop);
            links[i] = (struct link){
                .control = control,
                .is_used = true,
                .is_outgoing = is_outgoing,
                .opened_ns = now,
                .heard_ns = now,
                .said_ns = now,
                .lane = "",
            };
            buf_init(&links[i].input, INPUT_MAX);
            return &links[i];
        }
    }
    return NULL;
}

void control_move(struct link *link, enum peer_event event)
{
    link->state =
        transfer_state_next(&transfer_peer_moves, link->state, (uint8_t)event);
}

static void give_link(struct link *link)
{
    transfer_process_close(link->process);
    link->process = NULL;
    buf_finish(&link->input);
    link->is_used = false;
}

uint32_t control_link_count(const struct control *control)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < 2 * control->link_max; i++) {
        count += control->links[i].is_used;
    }
    return count;
}

struct link *control_find_sender(struct control *control, uint64_t incarnation)
{
    struct link *links = control->links + control->link_max;
    for (uint32_t i = 0; i < control->link_max; i++) {
        struct link *link = &links[i];
        if (link->is_used && link->state == PEER_REGISTERED &&
            !link->is_closing && link->incarnation == incarnation) {
            return link;
        }
    }
    return NULL;
}

void control_close(struct link *link, bool after_pending)
{
    if (!link->is_closing) {
        link->is_closing = true;
        io_stream_close(link->stream, after_pending);
    }
}

void control_drop(struct link *link, const char *format, ...)
{
    if (link->is_closing) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(link->text, sizeof(link->text), format, arguments);
    va_end(arguments);
    link->control->options.stats->connections_dropped++;
    log_warn_rare("transfer", "peer %s dropped: %s",
                  io_stream_peer(link->stream), link->text);
    control_close(link, false);
}

/* -------- frames -------- */

static void on_frame(struct link *link, const struct wire_header *header,
                     struct span body)
{
    struct control *control = link->control;
    link->heard_ns = io_loop_now(control->options.loop);
    if (link->proven == 0) {
        control_on_greeting(link, header, body);
        return;
    }
    if (control_is_hello(header->type)) {
        control_on_hello(link, header->type, body);
        return;
    }
    if (link->state != PEER_REGISTERED) {
        control_drop(link, "%s before the hello", wire_type_name(header->type));
        return;
    }
    /* Late traffic of another life has no effect (transfer.md I26). */
    if (header->source_incarnation != link->incarnation ||
        header->target_incarnation != control->options.transfer->incarnation) {
        control->options.stats->frames_dropped++;
        return;
    }
    if (header->type != WIRE_HEARTBEAT) {
        control->options.handler->on_frame(control->options.context, link,
                                           header, body);
    }
}

/* Takes whole frames off the front; false when the link is to end. */
static bool take_frames(struct link *link)
{
    size_t at = 0;
    while (!link->is_closing) {
        struct wire_header header;
        struct span body;
        size_t used;
        struct why why = {0};
        struct span rest =
            span_slice(buf_span(&link->input), at, link->input.size);
        enum err err = wire_frame_decode(rest, &why, &header, &body, &used);
        if (err == ERR_BUSY) {
            buf_drop_front(&link->input, at);
            return true;
        }
        if (err) {
            link->is_refused |= err == ERR_UNSUPPORTED;
            control_drop(link, "%s", why.text);
            return false;
        }
        on_frame(link, &header, body);
        at += used;
    }
    return false;
}

static void on_read(void *context, struct span bytes)
{
    struct link *link = context;
    while (bytes.size > 0 && !link->is_closing) {
        size_t max = link->proven == 0 ? GREETING_MAX : INPUT_MAX;
        size_t room = max - link->input.size;
        if (room == 0) {
            control_drop(link, "a long frame before the greeting");
            return;
        }
        struct span part = span_slice(bytes, 0, room);
        buf_add_span(&link->input, part);
        if (buf_error(&link->input)) {
            control_drop(link, "no memory for its message");
            return;
        }
        bytes = span_slice(bytes, part.size, bytes.size);
        if (!take_frames(link)) {
            return;
        }
    }
}

static void on_open(void *context)
{
    struct link *link = context;
    control_move(link, PEER_START);
    control_greet(link);
}

static void end_link(struct link *link)
{
    struct control *control = link->control;
    link->is_closing = true;
    control_note_end(link);
    control_move(link, PEER_LOSE);
    control->options.handler->on_end(control->options.context, link);
    if (link->backend_peer != NULL) {
        transfer_backend_peer_close(link->backend_peer);
    }
    give_link(link);
}

static void on_close(void *context, enum err reason, const char *text)
{
    struct link *link = context;
    if (control_will_come_again(link, reason)) {
        return;
    }
    if (link->text[0] == 0) {
        snprintf(link->text, sizeof(link->text), "%s",
                 reason ? text : "closed");
    }
    if (reason) {
        log_info_rare("transfer", "peer %s: connection ended: %s",
                      link->is_outgoing ? link->endpoint : "(receiver)", text);
    }
    end_link(link);
}

static const struct io_stream_handler stream_handler = {
    .on_open = on_open,
    .on_read = on_read,
    .on_close = on_close,
};

/* Counts and says who is not: "peer" or "sender", by its name here. */
static bool is_allowed(struct control *control, const char *host,
                       const char *what, const char *name)
{
    const struct io_allow *allow = control->options.transfer->allow;
    if (allow == NULL || io_allow_has(allow, host)) {
        return true;
    }
    control->options.stats->peers_refused++;
    log_warn_rare("transfer",
                  "%s %s: its host is not in "
                  "cache_transceiver_config.allowed_peer_hosts",
                  what, name);
    return false;
}

static void on_accept(void *context, struct io_stream *stream)
{
    struct control *control = context;
    struct why why;
    struct io_address peer;
    const char *name = io_stream_peer(stream);
    if (io_address_parse(span_of_string(name), &why, &peer) != OK ||
        !is_allowed(control, peer.host, "peer", name)) {
        return; /* a stream without handler is closed */
    }
    strangers_add(control->strangers, stream);
}

/* It may have said its REGISTER in one breath with its proof. */
static enum err on_proven(void *context, struct io_stream *stream,
                          uint64_t incarnation, struct span rest,
                          struct why *why)
{
    struct control *control = context;
    struct link *link = take_link(control, false);
    if (link == NULL) {
        return why_say(why, ERR_FULL, "%u receivers are connected already",
                       control->link_max);
    }
    link->stream = stream;
    link->proven = incarnation;
    snprintf(link->endpoint, sizeof(link->endpoint), "%s",
             io_stream_peer(stream));
    control_move(link, PEER_START);
    io_stream_set_handler(stream, &stream_handler, link);
    on_read(link, rest);
    return OK;
}

/* -------- outgoing -------- */

/* One that was asked for by name and answered to it serves anybody. */
static bool is_for(const struct link *link, uint64_t wanted)
{
    bool is_known =
        link->state == PEER_REGISTERED && link->incarnation == link->wanted;
    return link->wanted == wanted || (wanted == 0 && is_known);
}

static struct link *find_outgoing(struct control *control, const char *endpoint,
                                  uint64_t wanted)
{
    struct link *links = control->links + control->link_max;
    for (uint32_t i = 0; i < control->link_max; i++) {
        struct link *link = &links[i];
        if (link->is_used && !link->is_closing && is_for(link, wanted) &&
            strcmp(link->endpoint, endpoint) == 0) {
            return link;
        }
    }
    return NULL;
}

static enum err open_stream(struct link *link, const char *endpoint,
                            struct why *why)
{
    struct io_address address;
    struct io_stream_options options = {.handler = &stream_handler,
                                        .context = link,
                                        .connect_timeout_ns = CONNECT_NS};
    enum err err = io_address_parse(span_of_string(endpoint), why, &address);
    if (!err && !is_allowed(link->control, address.host, "sender", endpoint)) {
        err = why_say(why, ERR_DENIED,
                      "host %s is not in its allowed_peer_hosts", address.host);
    }
    return err ? err
               : io_stream_connect(link->control->options.loop, address.host,
                                   address.port, &options, why, &link->stream);
}

enum err control_connect(struct control *control, const char *endpoint,
                         uint64_t wanted, struct why *why,
                         struct link **link_out)
{
    struct link *link = find_outgoing(control, endpoint, wanted);
    if (link != NULL) {
        *link_out = link;
        return OK;
    }
    link = take_link(control, true);
    if (link == NULL) {
        return why_say(why, ERR_FULL, "%u senders are connected already",
                       control->link_max);
    }
    link->wanted = wanted;
    snprintf(link->endpoint, sizeof(link->endpoint), "%s", endpoint);
    enum err err = open_stream(link, endpoint, why);
    if (err) {
        snprintf(link->text, sizeof(link->text), "%s", why->text);
        control_note_end(link);
        give_link(link);
        return why_prefix(why, err, "sender endpoint");
    }
    *link_out = link;
    return OK;
}

/* -------- time -------- */

static void come_again(struct link *link)
{
    struct why why = {{0}};
    if (open_stream(link, link->endpoint, &why)) {
        snprintf(link->text, sizeof(link->text), "%s", why.text);
        end_link(link);
    }
}

static void tick_link(struct link *link, uint64_t now, uint64_t beat_ns)
{
    if (link->stream == NULL) {
        if (now >= link->retry_ns) {
            come_again(link);
        }
        return;
    }
    bool is_registered = link->state == PEER_REGISTERED;
    if (!is_registered && now - link->opened_ns > HELLO_NS_MAX) {
        control_drop(link, "no hello within 5 s");
    } else if (is_registered &&
               now - link->heard_ns > SILENT_BEATS_MAX * beat_ns) {
        control_drop(link, "silent for %d heartbeats", SILENT_BEATS_MAX);
    } else if (is_registered && now - link->said_ns >= beat_ns) {
        /* A failure has dropped the link. */
        IGNORE(control_send(link, WIRE_HEARTBEAT, 0, 0, span_of(NULL, 0)));
    }
}

void control_tick(struct control *control, uint64_t now)
{
    strangers_tick(control->strangers, now);
    uint64_t beat_ns = control->options.transfer->heartbeat_ns;
    for (uint32_t i = 0; i < 2 * control->link_max; i++) {
        struct link *link = &control->links[i];
        if (link->is_used && !link->is_closing) {
            tick_link(link, now, beat_ns);
        }
    }
}

/* -------- life -------- */

static void name_endpoint(struct control *control)
{
    const struct transfer_options *options = control->options.transfer;
    const char *host =
        options->advertise != NULL ? options->advertise : options->host;
    bool is_v6 = strchr(host, ':') != NULL && host[0] != '[';
    snprintf(control->endpoint, sizeof(control->endpoint),
             is_v6 ? "tcp://[%s]:%u" : "tcp://%s:%u", host,
             io_listener_port(control->listener));
}

enum err control_open(const struct control_options *options, struct why *why,
                      struct control **control_out)
{
    const struct transfer_options *transfer = options->transfer;
    struct control *control = mem_new(sizeof(*control));
    control->options = *options;
    control->link_max = transfer->peer_count_max;
    control->links =
        mem_new_array(2 * control->link_max, sizeof(control->links[0]));
    buf_init(&control->frame, INPUT_MAX);
    buf_init(&control->held, INPUT_MAX);
    buf_init(&control->body, WIRE_BODY_SIZE_MAX);
    control->strangers = strangers_create(&(struct strangers_options){
        .loop = options->loop,
        .transfer = transfer,
        .stats = options->stats,
        .on_proven = on_proven,
        .context = control,
    });
    struct io_listener_options listen = {
        .host = transfer->host,
        .port = transfer->listen_port,
        .connection_count_max =
            control->link_max + STRANGER_COUNT_MAX + STRANGER_LEAVING_MAX,
        .on_accept = on_accept,
        .context = control,
    };
    enum err err =
        io_listener_open(options->loop, &listen, why, &control->listener);
    if (!err) {
        name_endpoint(control);
        err = hello_init(&control->hello, transfer, control->endpoint, why);
    }
    if (err) {
        control_destroy(control);
        return err;
    }
    *control_out = control;
    return OK;
}

void control_shut(struct control *control)
{
    io_listener_close(control->listener);
    control->listener = NULL;
    strangers_shut(control->strangers);
    for (uint32_t i = 0; i < 2 * control->link_max; i++) {
        struct link *link = &control->links[i];
        if (link->is_used && link->stream == NULL) {
            end_link(link);
        } else if (link->is_used) {
            link->is_closing = true;
            io_stream_close(link->stream, false);
        }
    }
}

bool control_is_closed(const struct control *control)
{
    return control_link_count(control) == 0 &&
           strangers_is_closed(control->strangers);
}

void control_destroy(struct control *control)
{
    if (control == NULL) {
        return;
    }
    CHECK(control_is_closed(control));
    io_listener_close(control->listener);
    strangers_destroy(control->strangers);
    hello_finish(&control->hello);
    buf_finish(&control->frame);
    buf_finish(&control->held);
    buf_finish(&control->body);
    mem_free(control->links);
    mem_free(control);
}

const char *control_endpoint(const struct control *control)
{
    return control->endpoint;
}
