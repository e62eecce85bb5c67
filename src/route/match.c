#include "route/match.h"

#include <string.h>

#include "api/scan.h"

enum { SHOWN_SIZE = 12 };

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

static void read_mark(const struct api_object *info, const char *key,
                      char mark_out[ROUTE_MARK_SIZE])
{
    const struct api_member *member = api_find(info, key);
    mark_out[0] = 0;
    if (member == NULL || member->value.kind != API_JSON_STRING) {
        return;
    }
    struct span text = member->value.text;
    text = span_slice(text, 1, text.size - 1); /* without its quotes */
    if (text.size > 0 && text.size < ROUTE_MARK_SIZE && is_hex(text)) {
        memcpy(mark_out, text.data, text.size);
        mark_out[text.size] = 0;
    }
}

void route_marks_read(struct span server_info, struct route_marks *marks_out)
{
    struct api_object info;
    *marks_out = (struct route_marks){0};
    if (api_scan(server_info, NULL, &info) == OK) {
        read_mark(&info, "model_mark", marks_out->model);
        read_mark(&info, "tokenizer_mark", marks_out->tokenizer);
    }
}

static const char *mark_of(const struct route_marks *marks, bool is_tokenizer)
{
    return marks == NULL ? "" : is_tokenizer ? marks->tokenizer : marks->model;
}

static void find_most(const struct route_marks *const *voters,
                      uint32_t voter_count, bool is_tokenizer,
                      char mark_out[ROUTE_MARK_SIZE])
{
    uint32_t most = 0;
    mark_out[0] = 0;
    for (uint32_t i = 0; i < voter_count; i++) {
        const char *mark = mark_of(voters[i], is_tokenizer);
        uint32_t count = 0;
        for (uint32_t j = 0; j < voter_count && mark[0] != 0; j++) {
            count += strcmp(mark_of(voters[j], is_tokenizer), mark) == 0;
        }
        if (count > most) {
            most = count;
            memcpy(mark_out, mark, strlen(mark) + 1);
        }
    }
}

struct route_marks route_match_most(const struct route_marks *const *voters,
                                    uint32_t voter_count)
{
    struct route_marks most;
    find_most(voters, voter_count, false, most.model);
    find_most(voters, voter_count, true, most.tokenizer);
    return most;
}

static bool differ(const char *mark, const char *other)
{
    return mark[0] != 0 && other[0] != 0 && strcmp(mark, other) != 0;
}

enum route_misfit route_match_judge(const struct route_marks *marks,
                                    const struct route_marks *most)
{
    return differ(marks->model, most->model)           ? ROUTE_MISFIT_MODEL
           : differ(marks->tokenizer, most->tokenizer) ? ROUTE_MISFIT_TOKENIZER
                                                       : ROUTE_FITS;
}

void route_match_describe(enum route_misfit misfit,
                          const struct route_marks *marks,
                          const struct route_marks *most, struct buf *out)
{
    bool is_tokenizer = misfit == ROUTE_MISFIT_TOKENIZER;
    if (misfit == ROUTE_FITS) {
        return;
    }
    buf_printf(out, "it serves another %s (%s %.*s) than most (%.*s)",
               is_tokenizer ? "tokenizer" : "model",
               is_tokenizer ? "tokenizer_mark" : "model_mark", SHOWN_SIZE,
               mark_of(marks, is_tokenizer), SHOWN_SIZE,
               mark_of(most, is_tokenizer));
}
