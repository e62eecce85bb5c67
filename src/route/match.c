#include "route/match.h"

#include <stddef.h>
#include <string.h>

#include "api/scan.h"

enum { SHOWN_MARK_SIZE = 12, SHOWN_NAMES_SIZE = 120 };

/* What is compared, in the order in which it is told. */
static const struct kind {
    const char *key; /* in /server_info */
    const char *says; /* "it `says` (key, its value) than most (theirs)" */
    size_t offset, size;
    int shown; /* bytes of a value in a message */
} KINDS[ROUTE_MISFIT_COUNT] = {
    [ROUTE_MISFIT_MODEL] = {"model_mark", "it serves another model",
                            offsetof(struct route_marks, model),
                            ROUTE_MARK_SIZE, SHOWN_MARK_SIZE},
    [ROUTE_MISFIT_TOKENIZER] = {"tokenizer_mark", "it serves another tokenizer",
                                offsetof(struct route_marks, tokenizer),
                                ROUTE_MARK_SIZE, SHOWN_MARK_SIZE},
    [ROUTE_MISFIT_BACKEND] = {"transfer_backend", "it moves KV by other means",
                              offsetof(struct route_marks, backend),
                              ROUTE_MARK_SIZE, ROUTE_MARK_SIZE},
    [ROUTE_MISFIT_CHAT] = {"chat_template", "it writes chats in another form",
                           offsetof(struct route_marks, chat), ROUTE_MARK_SIZE,
                           ROUTE_MARK_SIZE},
    [ROUTE_MISFIT_NAMES] = {"served_model_names",
                            "it serves its model under other names",
                            offsetof(struct route_marks, names),
                            ROUTE_NAMES_SIZE, SHOWN_NAMES_SIZE},
};

static bool is_mark(enum route_misfit misfit)
{
    return misfit == ROUTE_MISFIT_MODEL || misfit == ROUTE_MISFIT_TOKENIZER;
}

static bool is_digits(struct span text)
{
    for (size_t i = 0; i < text.size; i++) {
        if (text.data[i] < '0' || text.data[i] > '9') {
            return false;
        }
    }
    return true;
}

static bool is_hex(struct span text)
{
    for (size_t i = 0; i < text.size; i++) {
        uint8_t byte = text.data[i];
        bool is_digit = byte >= '0' && byte <= '9';
        if (!is_digit && !(byte >= 'a' && byte <= 'f')) {
            return false;
        }
    }
    return true;
}

/* Marks without their quotes, the rest as it is spelt: a worker without a chat
 * template says null, and differs from one that has one. */
static struct span text_of(enum route_misfit misfit, struct api_json value)
{
    struct span inner = span_slice(value.text, 1, value.text.size - 1);
    bool is_string = value.kind == API_JSON_STRING;
    if (is_mark(misfit)) {
        return is_string && is_hex(inner) ? inner : span_of(NULL, 0);
    }
    bool is_right = misfit == ROUTE_MISFIT_NAMES
                        ? value.kind == API_JSON_ARRAY
                        : is_string || value.kind == API_JSON_NULL;
    return is_right ? value.text : span_of(NULL, 0);
}

static void read_one(const struct api_object *info, enum route_misfit misfit,
                     struct route_marks *marks)
{
    const struct kind *kind = &KINDS[misfit];
    const struct api_member *member = api_find(info, kind->key);
    if (member == NULL) {
        return;
    }
    struct span text = text_of(misfit, member->value);
    if (text.size > 0 && text.size < kind->size) {
        memcpy((char *)marks + kind->offset, text.data, text.size);
    }
}

static void read_incarnation(const struct api_object *info,
                             struct route_marks *marks)
{
    const struct api_member *member = api_find(info, "incarnation");
    if (member == NULL || member->value.kind != API_JSON_STRING) {
        return;
    }
    struct span text = member->value.text;
    text = span_slice(text, 1, text.size - 1); /* without its quotes */
    if (text.size < ROUTE_INCARNATION_SIZE && is_digits(text)) {
        memcpy(marks->incarnation, text.data, text.size);
    }
}

static uint32_t read_max_seq(const struct api_object *info)
{
    const struct api_member *member = api_find(info, "max_seq_len");
    int64_t count;
    return member != NULL && api_read_int(member->value, 1, UINT32_MAX, NULL,
                                          &count) == OK
               ? (uint32_t)count
               : 0;
}

void route_marks_read(struct span server_info, struct route_marks *marks_out)
{
    struct api_object info;
    *marks_out = (struct route_marks){0};
    if (api_scan(server_info, NULL, &info) != OK) {
        return;
    }
    for (int i = ROUTE_FITS + 1; i < ROUTE_MISFIT_COUNT; i++) {
        read_one(&info, (enum route_misfit)i, marks_out);
    }
    marks_out->max_seq = read_max_seq(&info);
    read_incarnation(&info, marks_out);
}

static const char *value_of(const struct route_marks *marks, int misfit)
{
    return marks == NULL ? "" : (const char *)marks + KINDS[misfit].offset;
}

static const char *find_most(const struct route_marks *const *voters,
                             uint32_t voter_count, int misfit)
{
    uint32_t most_count = 0;
    const char *most = "";
    for (uint32_t i = 0; i < voter_count; i++) {
        const char *value = value_of(voters[i], misfit);
        uint32_t count = 0;
        for (uint32_t j = 0; j < voter_count && value[0] != 0; j++) {
            count += strcmp(value_of(voters[j], misfit), value) == 0;
        }
        if (count > most_count) {
            most_count = count;
            most = value;
        }
    }
    return most;
}

struct route_marks route_match_most(const struct route_marks *const *voters,
                                    uint32_t voter_count)
{
    struct route_marks most = {.max_seq = 0};
    for (int i = ROUTE_FITS + 1; i < ROUTE_MISFIT_COUNT; i++) {
        const char *value = find_most(voters, voter_count, i);
        memcpy((char *)&most + KINDS[i].offset, value, strlen(value) + 1);
    }
    return most;
}

static bool differ(const char *value, const char *other)
{
    return value[0] != 0 && other[0] != 0 && strcmp(value, other) != 0;
}

enum route_misfit route_match_judge(const struct route_marks *marks,
                                    const struct route_marks *most)
{
    for (int i = ROUTE_FITS + 1; i < ROUTE_MISFIT_COUNT; i++) {
        if (differ(value_of(marks, i), value_of(most, i))) {
            return (enum route_misfit)i;
        }
    }
    return ROUTE_FITS;
}

/* How much of a value is shown: whole characters. */
static int shown_size(const char *value, int size_max)
{
    size_t size = strnlen(value, (size_t)size_max);
    while (size > 0 && ((uint8_t)value[size] & 0xc0) == 0x80) {
        size--;
    }
    return (int)size;
}

void route_match_describe(enum route_misfit misfit,
                          const struct route_marks *marks,
                          const struct route_marks *most, struct buf *out)
{
    const struct kind *kind = &KINDS[misfit];
    if (misfit == ROUTE_FITS) {
        return;
    }
    const char *own = value_of(marks, misfit), *theirs = value_of(most, misfit);
    buf_printf(out, "%s (%s %.*s) than most (%.*s)", kind->says, kind->key,
               shown_size(own, kind->shown), own,
               shown_size(theirs, kind->shown), theirs);
}
