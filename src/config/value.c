#include "config/value.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static enum err read_bool(const char *text, struct why *why, bool *out)
{
    static const char *const WORDS[] = {"false", "true",  "False",
                                        "True",  "FALSE", "TRUE"};
    for (size_t i = 0; i < sizeof(WORDS) / sizeof(WORDS[0]); i++) {
        if (strcmp(text, WORDS[i]) == 0) {
            *out = i % 2 == 1;
            return OK;
        }
    }
    return why_say(why, ERR_INVALID, "must be true or false");
}

static enum err say_range(const struct config_field *field, struct why *why)
{
    return why_say(why, ERR_INVALID, "must be from %.15g to %.15g", field->min,
                   field->max);
}

/* Which power of 1,024 the suffix means; -1: none of ours. */
static int suffix_shift(const char *suffix)
{
    static const char *const SUFFIXES[] = {"", "KiB", "MiB", "GiB"};
    for (int i = 0; i < 4; i++) {
        if (strcmp(suffix, SUFFIXES[i]) == 0) {
            return 10 * i;
        }
    }
    return -1;
}

static enum err read_integer(const struct config_field *field, const char *text,
                             struct why *why, int64_t *out)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    bool starts_well = (text[0] >= '0' && text[0] <= '9') || text[0] == '-';
    if (!starts_well || end == text || errno != 0) {
        return why_say(why, ERR_INVALID, "must be an integer");
    }
    int shift = suffix_shift(end);
    if (shift < 0 || (shift > 0 && field->kind != CONFIG_BYTES)) {
        return why_say(why, ERR_INVALID, "must be an integer%s",
                       field->kind == CONFIG_BYTES
                           ? ", alone or with KiB, MiB or GiB"
                           : "");
    }
    if (__builtin_mul_overflow(number, 1ll << shift, &number) ||
        (double)number < field->min || (double)number > field->max) {
        return say_range(field, why);
    }
    *out = number;
    return OK;
}

static enum err read_double(const struct config_field *field, const char *text,
                            struct why *why, double *out)
{
    char *end;
    double number = strtod(text, &end);
    bool starts_well = (text[0] >= '0' && text[0] <= '9') || text[0] == '-';
    if (!starts_well || *end != 0 || !isfinite(number)) {
        return why_say(why, ERR_INVALID, "must be a number");
    }
    if (number < field->min || number > field->max) {
        return say_range(field, why);
    }
    *out = number;
    return OK;
}

/* The place of `word` in a list like "a|b|c"; -1: not there. */
static int choice_index(const char *choices, const char *word)
{
    size_t size = strlen(word);
    int index = 0;
    for (const char *at = choices; at != NULL; index++) {
        const char *bar = strchr(at, '|');
        size_t length = bar == NULL ? strlen(at) : (size_t)(bar - at);
        if (length == size && strncmp(at, word, size) == 0) {
            return index;
        }
        at = bar == NULL ? NULL : bar + 1;
    }
    return -1;
}

static enum err read_text(const struct config_field *field, const char *text,
                          struct why *why, char *place)
{
    if (strlen(text) >= field->size) {
        return why_say(why, ERR_INVALID, "is longer than %zu bytes",
                       field->size - 1);
    }
    if (field->choices != NULL && choice_index(field->choices, text) < 0) {
        return why_say(why, ERR_INVALID, "must be one of %s, not '%.40s'",
                       field->choices, text);
    }
    memset(place, 0, field->size);
    memcpy(place, text, strlen(text));
    return OK;
}

static enum err read_choice(const struct config_field *field, const char *text,
                            struct why *why, void *place)
{
    int index = choice_index(field->choices, text);
    if (index < 0) {
        return why_say(why, ERR_INVALID, "must be one of %s", field->choices);
    }
    memcpy(place, &index, sizeof(index));
    return OK;
}

static void store_integer(const struct config_field *field, int64_t number,
                          void *place)
{
    if (field->kind == CONFIG_I32) {
        *(int32_t *)place = (int32_t)number;
    } else if (field->kind == CONFIG_U32) {
        *(uint32_t *)place = (uint32_t)number;
    } else {
        *(uint64_t *)place = (uint64_t)number;
    }
}

enum err config_value_read(const struct config_field *field, const char *text,
                           bool is_quoted, struct why *why, void *place)
{
    int64_t number = 0;
    enum err code;
    bool is_text = field->kind == CONFIG_TEXT || field->kind == CONFIG_CHOICE;
    if (is_quoted && !is_text) {
        return why_say(why, ERR_INVALID, "must not be quoted: it is no text");
    }
    switch (field->kind) {
    case CONFIG_BOOL:
        return read_bool(text, why, place);
    case CONFIG_DOUBLE:
        return read_double(field, text, why, place);
    case CONFIG_TEXT:
        return read_text(field, text, why, place);
    case CONFIG_CHOICE:
        return read_choice(field, text, why, place);
    case CONFIG_I32:
    case CONFIG_U32:
    case CONFIG_U64:
    case CONFIG_BYTES:
        code = read_integer(field, text, why, &number);
        if (code == OK) {
            store_integer(field, number, place);
        }
        return code;
    case CONFIG_LIST_OF:
        break;
    }
    CHECK_UNREACHABLE();
}

static void print_choice(const char *choices, int index, struct buf *out)
{
    const char *at = choices;
    while (index-- > 0 && strchr(at, '|') != NULL) {
        at = strchr(at, '|') + 1;
    }
    buf_add(out, at, strcspn(at, "|"));
}

static void print_text(const struct config_field *field, const char *text,
                       struct buf *out)
{
    if (field->is_secret) {
        buf_add_string(out, text[0] == 0 ? "\"\"" : "(set)");
    } else {
        buf_add_json_string(out, span_of_string(text));
    }
}

void config_value_print(const struct config_field *field, const void *place,
                        struct buf *out)
{
    switch (field->kind) {
    case CONFIG_BOOL:
        buf_add_string(out, *(const bool *)place ? "true" : "false");
        return;
    case CONFIG_I32:
        buf_printf(out, "%d", *(const int32_t *)place);
        return;
    case CONFIG_U32:
        buf_printf(out, "%u", *(const uint32_t *)place);
        return;
    case CONFIG_U64:
    case CONFIG_BYTES:
        buf_printf(out, "%llu", (unsigned long long)*(const uint64_t *)place);
        return;
    case CONFIG_DOUBLE:
        buf_printf(out, "%.15g", *(const double *)place);
        return;
    case CONFIG_TEXT:
        print_text(field, place, out);
        return;
    case CONFIG_CHOICE:
        print_choice(field->choices, *(const int *)place, out);
        return;
    case CONFIG_LIST_OF:
        break;
    }
    CHECK_UNREACHABLE();
}
