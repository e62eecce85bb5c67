/* The message parser, as request and as answer, whole and in pieces: whatever
 * comes, both cuts must end in the same way, and a parser that is done stays
 * done. First byte: how large the pieces are. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "http/parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { BODY_MAX = 4096, HEAD_MAX = 1024, MESSAGES_MAX = 16 };

struct outcome {
    int statuses[MESSAGES_MAX]; /* 0 complete, else refused */
    size_t bodies[MESSAGES_MAX];
    int count;
};

#define EXPECT(condition)                        \
    do {                                         \
        if (!(condition)) {                      \
            fprintf(stderr, "%s\n", #condition); \
            abort();                             \
        }                                        \
    } while (0)

static void count_body(void *context, struct span bytes)
{
    *(size_t *)context += bytes.size;
}

/* Every view of a message must lie in readable memory. */
static void look_at(const struct http_parser *parser)
{
    const struct http_head *head = http_parser_head(parser);
    uint32_t sum = (uint32_t)(head->path.size + head->query.size);
    for (uint32_t i = 0; i < head->count; i++) {
        EXPECT(http_head_is_token(head->fields[i].name));
        EXPECT(http_head_is_value(head->fields[i].value));
    }
    struct span value;
    sum += http_head_find(head, "host", &value) ? 1 : 0;
    struct span body = http_parser_body(parser);
    for (size_t i = 0; i < body.size; i++) {
        sum += body.data[i];
    }
    __asm__ volatile("" : : "r"(sum));
}

static void note(struct outcome *outcome, int status, size_t body)
{
    outcome->statuses[outcome->count] = status;
    outcome->bodies[outcome->count] = body;
    outcome->count++;
}

static void run(bool is_request, struct span bytes, size_t piece,
                struct outcome *outcome)
{
    size_t body = 0;
    struct http_parser *parser =
        http_parser_create(&(struct http_parser_options){
            .is_request = is_request,
            .head_bytes_max = HEAD_MAX,
            .body_bytes_max = is_request ? BODY_MAX : 0,
            .on_body = is_request ? NULL : count_body,
            .context = &body,
        });
    while (bytes.size > 0 && outcome->count < MESSAGES_MAX) {
        struct span now = span_slice(bytes, 0, piece);
        size_t taken;
        enum http_parse got = http_parser_feed(parser, now, &taken);
        EXPECT(taken <= now.size);
        EXPECT(got != HTTP_PARSE_MORE || taken == now.size);
        EXPECT(http_parser_held(parser) <= BODY_MAX);
        bytes = span_slice(bytes, taken, bytes.size);
        size_t none;
        if (got == HTTP_PARSE_HEAD) {
            look_at(parser);
            got = http_parser_feed(parser, span_of(NULL, 0), &none);
        }
        if (got == HTTP_PARSE_REFUSED) {
            EXPECT(http_parser_refusal(parser).status >= 400);
            EXPECT(http_parser_feed(parser, bytes, &none) == got && none == 0);
            note(outcome, http_parser_refusal(parser).status, 0);
            break;
        }
        if (got == HTTP_PARSE_COMPLETE) {
            look_at(parser);
            EXPECT(http_parser_feed(parser, bytes, &none) == got && none == 0);
            note(outcome, 0, is_request ? http_parser_held(parser) : body);
            body = 0;
            http_parser_reset(parser);
        }
    }
    http_parser_destroy(parser);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) {
        return 0;
    }
    size_t piece = 1 + data[0] % 64;
    struct span bytes = span_of(data + 1, size - 1);
    for (int is_request = 0; is_request < 2; is_request++) {
        struct outcome whole = {.count = 0};
        struct outcome pieces = {.count = 0};
        run(is_request, bytes, SIZE_MAX, &whole);
        run(is_request, bytes, piece, &pieces);
        EXPECT(whole.count == pieces.count);
        for (int i = 0; i < whole.count; i++) {
            /* Of two faults either may be named. */
            EXPECT((whole.statuses[i] == 0) == (pieces.statuses[i] == 0));
            EXPECT(whole.bodies[i] == pieces.bodies[i]);
        }
    }
    return 0;
}
