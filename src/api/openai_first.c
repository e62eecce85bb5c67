/* api/openai_first: `first_gen_log_probs`, what the context server knows about
 * the first tokens and the generation server cannot compute again. */
#include "api/openai_fields.h"
#include "base/mem.h"

static enum err read_first_top(struct api_json value, struct why *why,
                               struct openai_first_logprob *first)
{
    size_t cursor = 0;
    struct api_json pair;
    while (api_array_next(value, &cursor, &pair)) {
        size_t inner = 0;
        int64_t token;
        struct api_json id, logprob;
        uint32_t i = first->top_count;
        if (i == OPENAI_LOGPROB_COUNT_MAX || pair.kind != API_JSON_ARRAY ||
            !api_array_next(pair, &inner, &id) ||
            !api_array_next(pair, &inner, &logprob)) {
            return why_say(why, ERR_INVALID, "top: has a wrong shape");
        }
        enum err err = api_read_int(id, 0, INT32_MAX, why, &token);
        if (err == OK) {
            err = api_read_number(logprob, -1e30, 0.1, why,
                                  &first->top_logprobs[i]);
        }
        if (err != OK) {
            return why_prefix(why, err, "top");
        }
        first->top_tokens[i] = (int32_t)token;
        first->top_count++;
    }
    return OK;
}

/* [{"logprob": x, "top": [[id, x], ...]}, ...]: one a choice. */
enum err openai_read_first_logprobs(const struct openai_limits *limits,
                                    struct api_json value, struct why *why,
                                    struct openai_request *request)
{
    (void)limits;
    size_t cursor = 0;
    uint32_t count = 0;
    struct api_json element;
    if (value.kind != API_JSON_ARRAY) {
        return why_say(why, ERR_INVALID, "must be a list");
    }
    request->first_logprobs = mem_new_array(OPENAI_CHOICE_COUNT_MAX,
                                            sizeof(*request->first_logprobs));
    while (api_array_next(value, &cursor, &element)) {
        struct api_object object;
        if (count == OPENAI_CHOICE_COUNT_MAX) {
            return why_say(why, ERR_INVALID, "has too many elements");
        }
        struct openai_first_logprob *first = &request->first_logprobs[count++];
        if (element.kind == API_JSON_NULL) {
            continue;
        }
        enum err err = api_scan_object(element, why, &object);
        const struct api_member *logprob =
            err == OK ? api_find(&object, "logprob") : NULL;
        const struct api_member *top =
            err == OK ? api_find(&object, "top") : NULL;
        if (logprob == NULL) {
            return why_say(why, ERR_INVALID, "has a wrong shape");
        }
        err = api_read_number(logprob->value, -1e30, 0.1, why, &first->logprob);
        if (err == OK && top != NULL && top->value.kind == API_JSON_ARRAY) {
            err = read_first_top(top->value, why, first);
        }
        if (err != OK) {
            return err;
        }
        first->is_known = true;
    }
    return OK;
}
