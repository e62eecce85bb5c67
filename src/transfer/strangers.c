#include "transfer/strangers.h"

#include <string.h>

#include "base/check.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/frame.h"
#include "wire/refusal.h"

enum { FRAME_SIZE_MAX = WIRE_HEADER_SIZE + sizeof(struct why) };
static const uint64_t STRANGER_NS_MAX = 2000000000u;

struct stranger {
    struct strangers *all;
    struct io_stream *stream; /* NULL: the place is free */
    uint64_t opened_ns;
    bool is_greeted; /* it is the proof's turn */
    bool is_closing; /* refused; it may still read why */
    bool has_key;
    struct wire_greeting greeting;
    size_t input_size;
    uint8_t input[FRAME_SIZE_MAX];
};

struct strangers {
    struct strangers_options options;
    struct rng chance;
    struct buf frame, body;
    uint32_t leaving_count; /* streams without a place, about to end */
    struct stranger places[STRANGER_COUNT_MAX];
};

void strangers_nonce(struct strangers *strangers, uint8_t out[WIRE_NONCE_SIZE])
{
    if (strangers->options.transfer->chance == 0) {
        rng_system_bytes(out, WIRE_NONCE_SIZE);
        return;
    }
    for (size_t at = 0; at < WIRE_NONCE_SIZE; at += 8) {
        uint64_t bits = rng_next(&strangers->chance);
        memcpy(out + at, &bits, 8);
    }
}

static struct span our_key(const struct stranger *stranger)
{
    return stranger->all->options.transfer->key;
}

/* -------- ends -------- */

static void ignore_read(void *context, struct span bytes)
{
    (void)context, (void)bytes;
}

static void on_left(void *context, enum err reason, const char *text)
{
    (void)reason, (void)text;
    struct strangers *strangers = context;
    strangers->leaving_count--;
}

static const struct io_stream_handler leaving_handler = {.on_read = ignore_read,
                                                         .on_close = on_left};

static void leave(struct stranger *stranger)
{
    struct strangers *strangers = stranger->all;
    io_stream_set_handler(stranger->stream, &leaving_handler, strangers);
    io_stream_reset(stranger->stream);
    strangers->leaving_count++;
    stranger->stream = NULL;
}

static void cut(struct stranger *stranger, const char *text)
{
    if (!stranger->is_closing) {
        stranger->all->options.stats->strangers_cut++;
        log_warn_rare("transfer", "stranger %s cut off: %s",
                      io_stream_peer(stranger->stream), text);
    }
    leave(stranger);
}

/* False: it is gone. */
static bool say(struct stranger *stranger, uint16_t type, struct span body)
{
    struct strangers *strangers = stranger->all;
    const struct wire_header header = {
        .type = type,
        .source_incarnation = strangers->options.transfer->incarnation,
        .target_incarnation = stranger->greeting.opener,
    };
    buf_reset(&strangers->frame);
    enum err err = wire_frame_encode(&header, body, &strangers->frame);
    CHECK(!err);
    if (io_stream_write(stranger->stream, buf_span(&strangers->frame))) {
        leave(stranger);
        return false;
    }
    return true;
}

static void refuse(struct stranger *stranger, uint64_t *counter,
                   const struct why *why)
{
    struct buf *body = &stranger->all->body;
    (*counter)++;
    log_warn_rare("transfer", "peer %s refused: %s",
                  io_stream_peer(stranger->stream), why->text);
    buf_reset(body);
    wire_refusal_encode(why, body);
    if (say(stranger, WIRE_REFUSED, buf_span(body))) {
        stranger->is_closing = true;
        io_stream_close(stranger->stream, true);
    }
}

static void deny(struct stranger *stranger)
{
    struct why why = {{0}};
    IGNORE(wire_greeting_deny(stranger->has_key, our_key(stranger).size > 0,
                              &why));
    refuse(stranger, &stranger->all->options.stats->peers_denied, &why);
}

/* -------- the greeting -------- */

static void on_greet(struct stranger *stranger, struct span body)
{
    struct strangers *strangers = stranger->all;
    struct wire_greet greet;
    struct why why = {{0}};
    if (wire_greet_decode(body, &why, &greet)) {
        cut(stranger, why.text);
        return;
    }
    struct wire_greeting *greeting = &stranger->greeting;
    struct wire_greeted greeted = {.has_key = our_key(stranger).size > 0};
    stranger->has_key = greet.has_key;
    if (greet.has_key != greeted.has_key) {
        deny(stranger);
        return;
    }
    greeting->server = strangers->options.transfer->incarnation;
    memcpy(greeting->opener_nonce, greet.nonce, WIRE_NONCE_SIZE);
    strangers_nonce(strangers, greeting->server_nonce);
    memcpy(greeted.nonce, greeting->server_nonce, WIRE_NONCE_SIZE);
    wire_greeting_prove(our_key(stranger), greeting, false, greeted.proof);
    buf_reset(&strangers->body);
    wire_greeted_encode(&greeted, &strangers->body);
    stranger->is_greeted = true;
    /* A failure has ended it. */
    IGNORE(!say(stranger, WIRE_GREETED, buf_span(&strangers->body)));
}

static void on_proof(struct stranger *stranger, struct span body,
                     struct span rest)
{
    struct strangers *strangers = stranger->all;
    uint8_t proof[WIRE_PROOF_SIZE];
    struct why why = {{0}};
    if (wire_proof_decode(body, &why, proof)) {
        cut(stranger, why.text);
        return;
    }
    if (!wire_greeting_is_proof(our_key(stranger), &stranger->greeting, true,
                                proof)) {
        deny(stranger);
        return;
    }
    enum err err = strangers->options.on_proven(
        strangers->options.context, stranger->stream, stranger->greeting.opener,
        rest, &why);
    if (err) {
        refuse(stranger, &strangers->options.stats->peers_refused, &why);
    } else {
        stranger->stream = NULL;
    }
}

/* Our proof was not what the other end holds a key for. */
static void on_refused(struct stranger *stranger, struct span body)
{
    struct why why;
    wire_refusal_decode(body, &why);
    stranger->all->options.stats->peers_denied++;
    log_warn_rare("transfer", "peer %s refuses us: %s",
                  io_stream_peer(stranger->stream), why.text);
    leave(stranger);
}

static void on_frame(struct stranger *stranger,
                     const struct wire_header *header, struct span body,
                     struct span rest)
{
    bool is_one = header->source_incarnation != 0 &&
                  (!stranger->is_greeted ||
                   header->source_incarnation == stranger->greeting.opener);
    if (is_one && !stranger->is_greeted && header->type == WIRE_GREET) {
        stranger->greeting.opener = header->source_incarnation;
        on_greet(stranger, body);
    } else if (is_one && stranger->is_greeted && header->type == WIRE_PROOF) {
        on_proof(stranger, body, rest);
    } else if (is_one && stranger->is_greeted && header->type == WIRE_REFUSED) {
        on_refused(stranger, body);
    } else {
        struct why why;
        IGNORE(why_say(&why, ERR_INVALID, "%s before the greeting is over",
                       wire_type_name(header->type)));
        cut(stranger, why.text);
    }
}

/* -------- bytes -------- */

/* Never more than the frame that is due; what is left is returned. */
static struct span fill(struct stranger *stranger, struct span bytes)
{
    size_t have = stranger->input_size;
    size_t due = wire_frame_size(span_of(stranger->input, have));
    due = due < FRAME_SIZE_MAX ? due : FRAME_SIZE_MAX;
    struct span part = span_slice(bytes, 0, due - have);
    if (part.size > 0) {
        memcpy(stranger->input + have, part.data, part.size);
    }
    stranger->input_size += part.size;
    return span_slice(bytes, part.size, bytes.size);
}

static void take_frame(struct stranger *stranger, struct span rest)
{
    struct wire_header header;
    struct span body;
    size_t used;
    struct why why = {{0}};
    enum err err =
        wire_frame_decode(span_of(stranger->input, stranger->input_size), &why,
                          &header, &body, &used);
    if (!err) {
        stranger->input_size = 0;
        on_frame(stranger, &header, body, rest);
    } else if (err == ERR_UNSUPPORTED) {
        refuse(stranger, &stranger->all->options.stats->peers_refused, &why);
    } else if (err != ERR_BUSY) {
        cut(stranger, why.text);
    } else if (stranger->input_size == FRAME_SIZE_MAX) {
        cut(stranger, "a long frame before the greeting");
    }
}

static void on_read(void *context, struct span bytes)
{
    struct stranger *stranger = context;
    while (bytes.size > 0 && stranger->stream != NULL &&
           !stranger->is_closing) {
        bytes = fill(stranger, bytes);
        take_frame(stranger, bytes);
    }
}

static void on_close(void *context, enum err reason, const char *text)
{
    (void)reason, (void)text;
    struct stranger *stranger = context;
    stranger->stream = NULL;
}

static const struct io_stream_handler handler = {.on_read = on_read,
                                                 .on_close = on_close};

/* -------- all of them -------- */

static struct stranger *take_place(struct strangers *strangers)
{
    struct stranger *oldest = &strangers->places[0];
    for (uint32_t i = 0; i < STRANGER_COUNT_MAX; i++) {
        struct stranger *stranger = &strangers->places[i];
        if (stranger->stream == NULL) {
            return stranger;
        }
        if (stranger->opened_ns < oldest->opened_ns) {
            oldest = stranger;
        }
    }
    cut(oldest, "too many that have not said who they are");
    return oldest;
}

void strangers_add(struct strangers *strangers, struct io_stream *stream)
{
    struct stranger *stranger = take_place(strangers);
    *stranger = (struct stranger){
        .all = strangers,
        .stream = stream,
        .opened_ns = io_loop_now(strangers->options.loop),
    };
    io_stream_set_handler(stream, &handler, stranger);
}

void strangers_tick(struct strangers *strangers, uint64_t now)
{
    for (uint32_t i = 0; i < STRANGER_COUNT_MAX; i++) {
        struct stranger *stranger = &strangers->places[i];
        if (stranger->stream != NULL &&
            now - stranger->opened_ns > STRANGER_NS_MAX) {
            cut(stranger, "did not say in time who it is");
        }
    }
}

uint32_t strangers_count(const struct strangers *strangers)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < STRANGER_COUNT_MAX; i++) {
        count += strangers->places[i].stream != NULL;
    }
    return count;
}

struct strangers *strangers_create(const struct strangers_options *options)
{
    struct strangers *strangers = mem_new(sizeof(*strangers));
    strangers->options = *options;
    strangers->chance = rng_from_seed(options->transfer->chance);
    buf_init(&strangers->frame, FRAME_SIZE_MAX);
    buf_init(&strangers->body, FRAME_SIZE_MAX);
    return strangers;
}

void strangers_shut(struct strangers *strangers)
{
    for (uint32_t i = 0; i < STRANGER_COUNT_MAX; i++) {
        if (strangers->places[i].stream != NULL) {
            leave(&strangers->places[i]);
        }
    }
}

bool strangers_is_closed(const struct strangers *strangers)
{
    return strangers_count(strangers) == 0 && strangers->leaving_count == 0;
}

void strangers_destroy(struct strangers *strangers)
{
    if (strangers == NULL) {
        return;
    }
    CHECK(strangers_is_closed(strangers));
    buf_finish(&strangers->frame);
    buf_finish(&strangers->body);
    mem_free(strangers);
}
