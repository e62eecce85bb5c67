#pragma once
/* http/head: the strict reading of a message's head, before any library sees
 * it. Private to http. Pure.
 *
 * Two readers that disagree about where a message ends are how requests are
 * smuggled. So a head is taken in one spelling only: lines end in CR LF, names
 * are tokens directly followed by a colon, nothing is folded, no control
 * characters, one length or one "chunked" but never both (RFC 9112; serve.md
 * 6.3). What this passes, the parser library must read in the same way. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/span.h"

enum { HTTP_HEADER_COUNT_MAX = 128, HTTP_TARGET_SIZE_MAX = 8192 };

struct http_head_field {
    struct span name;
    struct span value; /* without the blanks around it */
};

/* Spans point into the bytes that were read. */
struct http_head {
    bool is_request;
    struct span method; /* requests */
    struct span path;
    struct span query;
    int status; /* answers */
    int minor; /* of HTTP/1.minor */
    bool has_length;
    uint64_t length;
    bool is_chunked;
    bool expects_continue;
    uint32_t count;
    struct http_head_field fields[HTTP_HEADER_COUNT_MAX];
};

/* What is wrong, as the status and the words to answer with. */
struct http_refusal {
    int status;
    const char *message;
};

/* `bytes` is a whole head with its empty line. False: `refusal_out` is set. */
MUST_USE bool http_head_read_request(struct span bytes, struct http_head *head,
                                     struct http_refusal *refusal_out);
MUST_USE bool http_head_read_answer(struct span bytes, struct http_head *head,
                                    struct http_refusal *refusal_out);
/* False: absent. The name compares without case; the first one wins. */
bool http_head_find(const struct http_head *head, const char *name,
                    struct span *value_out);
/* Compares without case. */
bool http_head_is(struct span text, const char *word);
bool http_head_is_token(struct span text);
/* No control characters but the tab. */
bool http_head_is_value(struct span text);
