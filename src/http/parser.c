#include "http/parser.h"

#include <llhttp.h>

#include "base/check.h"
#include "base/mem.h"

enum { KEPT_SIZE_MAX = 4096 }; /* what an idle connection may keep */

enum parser_phase { PHASE_HEAD, PHASE_BODY, PHASE_COMPLETE, PHASE_REFUSED };

struct http_parser {
    struct http_parser_options options;
    enum parser_phase phase;
    bool skips_body;
    bool keeps_alive;
    struct buf raw; /* the head as it came; what `head` points into */
    size_t searched; /* bytes of `raw` known to hold no empty line */
    struct http_head head;
    struct buf body;
    size_t extra_size; /* chunk extensions and trailers */
    uint64_t chunk_left; /* bytes of data the open chunk still has */
    uint32_t mark_left; /* bytes to come of the CR LF behind its data */
    struct span fed; /* what the library reads just now */
    struct http_refusal refusal;
    llhttp_t library;
};

static enum http_parse refuse(struct http_parser *parser, int status,
                              const char *message)
{
    parser->phase = PHASE_REFUSED;
    parser->refusal =
        (struct http_refusal){.status = status, .message = message};
    return HTTP_PARSE_REFUSED;
}

/* The library takes any two bytes for the CR LF behind a chunk's data; a proxy
 * that does not would see another message than we do. */
static bool has_chunk_mark(struct http_parser *parser, struct span bytes)
{
    for (size_t i = 0; i < bytes.size && parser->mark_left > 0; i++) {
        if (bytes.data[i] != (parser->mark_left == 2 ? '\r' : '\n')) {
            return false;
        }
        parser->mark_left--;
    }
    return true;
}

/* Called by the library; a value that is not 0 stops it. */

static int on_chunk_header(llhttp_t *library)
{
    struct http_parser *parser = library->data;
    parser->chunk_left = library->content_length;
    bool is_kept = parser->options.on_body == NULL;
    size_t room = parser->options.body_bytes_max - parser->body.size;
    if (is_kept && parser->chunk_left > room) {
        refuse(parser, 413, "request body too large");
        return HPE_USER;
    }
    return 0;
}

/* `size` bytes of data at `at` are taken; is the chunk whole, and if so, is
 * what follows its end? */
static int pass_chunk_data(struct http_parser *parser, const char *at,
                           size_t size)
{
    if (!parser->head.is_chunked) {
        return 0;
    }
    parser->chunk_left -= size;
    if (parser->chunk_left > 0) {
        return 0;
    }
    size_t used = (size_t)((const uint8_t *)at + size - parser->fed.data);
    parser->mark_left = 2;
    struct span rest = span_slice(parser->fed, used, parser->fed.size);
    return has_chunk_mark(parser, rest) ? 0 : HPE_USER;
}

static int on_headers_complete(llhttp_t *library)
{
    struct http_parser *parser = library->data;
    /* Nobody here changes protocols: an offer to do so is ignored. */
    library->upgrade = 0;
    return parser->skips_body ? 1 : 0;
}

static int on_body(llhttp_t *library, const char *at, size_t size)
{
    struct http_parser *parser = library->data;
    if (parser->options.on_body != NULL) {
        parser->options.on_body(parser->options.context, span_of(at, size));
        return pass_chunk_data(parser, at, size);
    }
    buf_add(&parser->body, at, size);
    if (buf_error(&parser->body) == OK) {
        return pass_chunk_data(parser, at, size);
    }
    refuse(parser, 413, "request body too large");
    return HPE_USER;
}

/* The head was read before; what comes now are trailers and extensions, which
 * nobody wants, but which nobody may send without end either. */
static int on_extra(llhttp_t *library, const char *at, size_t size)
{
    (void)at;
    struct http_parser *parser = library->data;
    if (parser->phase != PHASE_BODY) {
        return 0;
    }
    parser->extra_size += size;
    if (parser->extra_size <= parser->options.head_bytes_max) {
        return 0;
    }
    refuse(parser, 431, "chunk extensions or trailers too large");
    return HPE_USER;
}

static int on_message_complete(llhttp_t *library)
{
    struct http_parser *parser = library->data;
    parser->keeps_alive = llhttp_should_keep_alive(library) != 0;
    parser->phase = PHASE_COMPLETE;
    return HPE_PAUSED;
}

static const llhttp_settings_t SETTINGS = {
    .on_headers_complete = on_headers_complete,
    .on_body = on_body,
    .on_chunk_header = on_chunk_header,
    .on_header_field = on_extra,
    .on_header_value = on_extra,
    .on_chunk_extension_name = on_extra,
    .on_chunk_extension_value = on_extra,
    .on_message_complete = on_message_complete,
};

static void start_library(struct http_parser *parser)
{
    llhttp_init(&parser->library,
                parser->options.is_request ? HTTP_REQUEST : HTTP_RESPONSE,
                &SETTINGS);
    parser->library.data = parser;
}

struct http_parser *http_parser_create(
    const struct http_parser_options *options)
{
    struct http_parser *parser = mem_new(sizeof(*parser));
    parser->options = *options;
    buf_init(&parser->raw, options->head_bytes_max);
    buf_init(&parser->body, options->body_bytes_max);
    start_library(parser);
    return parser;
}

void http_parser_destroy(struct http_parser *parser)
{
    if (parser == NULL) {
        return;
    }
    buf_finish(&parser->raw);
    buf_finish(&parser->body);
    mem_free(parser);
}

void http_parser_reset(struct http_parser *parser)
{
    if (parser->raw.size > KEPT_SIZE_MAX) {
        buf_finish(&parser->raw);
    }
    buf_reset(&parser->raw);
    buf_finish(&parser->body);
    parser->phase = PHASE_HEAD;
    parser->searched = 0;
    parser->extra_size = 0;
    parser->chunk_left = 0;
    parser->mark_left = 0;
    parser->skips_body = false;
    parser->keeps_alive = false;
    parser->head.count = 0;
    start_library(parser);
}

void http_parser_expect_no_body(struct http_parser *parser)
{
    parser->skips_body = true;
}

static enum http_parse refuse_malformed(struct http_parser *parser)
{
    return refuse(parser, parser->options.is_request ? 400 : 502,
                  "malformed message");
}

/* Gives `bytes` to the library, which takes all, or stops at the end of the
 * message or at what it dislikes. */
static enum http_parse run_library(struct http_parser *parser,
                                   struct span bytes, size_t *taken_out)
{
    *taken_out = 0;
    if (bytes.size == 0) {
        return HTTP_PARSE_MORE;
    }
    const char *begin = (const char *)bytes.data;
    parser->fed = bytes;
    if (!has_chunk_mark(parser, bytes)) {
        return refuse_malformed(parser);
    }
    llhttp_errno_t code = llhttp_execute(&parser->library, begin, bytes.size);
    *taken_out = bytes.size;
    if (code == HPE_OK) {
        return HTTP_PARSE_MORE;
    }
    if (code == HPE_PAUSED && parser->phase == PHASE_COMPLETE) {
        const char *end = llhttp_get_error_pos(&parser->library);
        *taken_out = (size_t)(end - begin);
        return HTTP_PARSE_COMPLETE;
    }
    if (parser->phase == PHASE_REFUSED) {
        return HTTP_PARSE_REFUSED;
    }
    return refuse_malformed(parser);
}

static enum http_parse head_is_whole(struct http_parser *parser)
{
    struct span bytes = buf_span(&parser->raw);
    struct http_head *head = &parser->head;
    bool is_good = parser->options.is_request
                       ? http_head_read_request(bytes, head, &parser->refusal)
                       : http_head_read_answer(bytes, head, &parser->refusal);
    if (!is_good) {
        parser->phase = PHASE_REFUSED;
        return HTTP_PARSE_REFUSED;
    }
    if (parser->options.is_request &&
        head->length > parser->options.body_bytes_max) {
        return refuse(parser, 413, "request body too large");
    }
    size_t taken;
    if (run_library(parser, bytes, &taken) == HTTP_PARSE_REFUSED) {
        return HTTP_PARSE_REFUSED;
    }
    /* The second reader must have found the end where the first did. */
    if (taken != bytes.size) {
        return refuse(parser, 400, "ambiguous message head");
    }
    if (parser->phase == PHASE_HEAD) {
        parser->phase = PHASE_BODY;
    }
    return HTTP_PARSE_HEAD;
}

/* Index behind the empty line that ends the head, or 0. */
static size_t find_head_end(struct http_parser *parser)
{
    const struct buf *raw = &parser->raw;
    const uint8_t *end =
        raw->size < 4 ? NULL
                      : memmem(raw->data + parser->searched,
                               raw->size - parser->searched, "\r\n\r\n", 4);
    parser->searched = raw->size < 3 ? 0 : raw->size - 3;
    return end == NULL ? 0 : (size_t)(end + 4 - raw->data);
}

static enum http_parse head_too_long(struct http_parser *parser)
{
    bool has_line = memchr(parser->raw.data, '\n', parser->raw.size) != NULL;
    if (!parser->options.is_request) {
        return refuse(parser, 502, "answer head too large");
    }
    return has_line ? refuse(parser, 431, "request head too large")
                    : refuse(parser, 414, "request target too long");
}

/* Blank lines before a request are allowed for old clients' sake. */
static size_t skip_blank_lines(const struct http_parser *parser,
                               struct span bytes)
{
    size_t skipped = 0;
    while (parser->raw.size == 0 && skipped < bytes.size &&
           (bytes.data[skipped] == '\r' || bytes.data[skipped] == '\n')) {
        skipped++;
    }
    return skipped;
}

/* Collects the head; takes no byte behind it. */
static enum http_parse feed_head(struct http_parser *parser, struct span bytes,
                                 size_t *taken_out)
{
    size_t skipped = skip_blank_lines(parser, bytes);
    size_t before = parser->raw.size;
    size_t room = parser->options.head_bytes_max - before;
    size_t piece = bytes.size - skipped < room ? bytes.size - skipped : room;
    buf_add_span(&parser->raw, span_slice(bytes, skipped, skipped + piece));
    if (buf_error(&parser->raw) != OK) {
        return refuse(parser, 431, "no memory for the head");
    }
    size_t end = find_head_end(parser);
    if (end > 0) {
        parser->raw.size = end;
        *taken_out = skipped + end - before;
        return head_is_whole(parser);
    }
    *taken_out = skipped + piece;
    if (parser->raw.size == parser->options.head_bytes_max) {
        return head_too_long(parser);
    }
    return HTTP_PARSE_MORE;
}

enum http_parse http_parser_feed(struct http_parser *parser, struct span bytes,
                                 size_t *taken_out)
{
    *taken_out = 0;
    switch (parser->phase) {
    case PHASE_HEAD:
        return feed_head(parser, bytes, taken_out);
    case PHASE_BODY:
        return run_library(parser, bytes, taken_out);
    case PHASE_COMPLETE: /* a message without a body ends with its head */
        return HTTP_PARSE_COMPLETE;
    case PHASE_REFUSED:
        break;
    }
    return HTTP_PARSE_REFUSED;
}

enum http_parse http_parser_finish(struct http_parser *parser)
{
    if (parser->phase == PHASE_BODY) {
        llhttp_errno_t code = llhttp_finish(&parser->library);
        if (code == HPE_PAUSED || code == HPE_OK) {
            if (parser->phase == PHASE_COMPLETE) {
                return HTTP_PARSE_COMPLETE;
            }
        }
    }
    return parser->phase == PHASE_COMPLETE
               ? HTTP_PARSE_COMPLETE
               : refuse(parser, 502, "the message was cut in its middle");
}

const struct http_head *http_parser_head(const struct http_parser *parser)
{
    return &parser->head;
}

struct span http_parser_body(const struct http_parser *parser)
{
    return buf_span(&parser->body);
}

bool http_parser_keeps_alive(const struct http_parser *parser)
{
    return parser->keeps_alive;
}

struct http_refusal http_parser_refusal(const struct http_parser *parser)
{
    return parser->refusal;
}

bool http_parser_has_begun(const struct http_parser *parser)
{
    return parser->raw.size > 0;
}

size_t http_parser_held(const struct http_parser *parser)
{
    return parser->body.size;
}
