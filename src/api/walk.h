#pragma once
/* api/walk: steps over JSON text and checks it on the way. The scanner, the
 * typed reads and the hand-off share it; nobody outside api needs it. Strict
 * RFC 8259 with the limits of api/scan.h. Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/scan.h"
#include "base/err.h"
#include "base/span.h"

struct api_walk {
    const uint8_t *begin;
    const uint8_t *at;
    const uint8_t *end;
    const char *wrong; /* what stopped it, static text; NULL: nothing */
    bool allows_nul; /* \u0000 in a string is no fault */
};

struct api_walk api_walk_of(struct span text);

/* Each returns false with `wrong` set; `at` then points to the fault. */
bool api_walk_value(struct api_walk *walk, uint32_t depth,
                    enum api_json_kind *kind_out);
/* `at` stands on the opening quote, then behind the closing one. */
bool api_walk_string(struct api_walk *walk);
/* Nothing but white space is left. */
bool api_walk_end(struct api_walk *walk);
bool api_walk_fail(struct api_walk *walk, const char *wrong);
/* ERR_INVALID "not valid JSON at byte 17: ...". */
enum err api_walk_say(const struct api_walk *walk, struct why *why);

static inline void api_walk_blank(struct api_walk *walk)
{
    const uint8_t *at = walk->at;
    while (at < walk->end &&
           (*at == ' ' || *at == '\n' || *at == '\t' || *at == '\r')) {
        at++;
    }
    walk->at = at;
}

static inline bool api_walk_is_at(const struct api_walk *walk, uint8_t byte)
{
    return walk->at < walk->end && *walk->at == byte;
}

/* Decodes one character of a string's checked inside at `*at`, at least one
 * byte before `end`; returns its UTF-8 length. */
size_t api_walk_decode(const uint8_t **at, const uint8_t *end,
                       uint8_t utf8_out[4]);
/* The four digits of a \u escape at `at`; -1: there are not four. */
int32_t api_walk_hex4(const uint8_t *at, const uint8_t *end);
