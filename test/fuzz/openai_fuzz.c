/* [engine F7] Any bytes as a body: parsed or refused with a reason, on every
 * route; retention rules that are accepted are in range. */
#include <stdint.h>
#include <stddef.h>
#include <stdlib.h>

#include "api/openai_request.h"

/* Whatever was accepted can be handed on as it is. */
static void check_retention(const struct openai_retention *retention)
{
    for (uint32_t i = 0; i < retention->rule_count; i++) {
        const struct openai_retention_rule *rule = &retention->rules[i];
        if (rule->first_token < 0 || rule->first_token > INT32_MAX ||
            rule->priority < 0 || rule->priority > 100 ||
            rule->duration_ms < -1 || rule->end_token > INT32_MAX ||
            (rule->end_token != -1 && rule->end_token <= rule->first_token)) {
            abort();
        }
    }
    if (retention->rule_count > OPENAI_RETENTION_COUNT_MAX ||
        (retention->has_decode && (retention->decode.priority < 0 ||
                                   retention->decode.priority > 100))) {
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum openai_route routes[] = {
        OPENAI_COMPLETIONS, OPENAI_CHAT, OPENAI_TOKENIZE, OPENAI_DETOKENIZE};
    const struct openai_limits limits = {.id_count_max = 256};
    for (int i = 0; i < 4; i++) {
        struct openai_request request;
        struct openai_fault fault;
        enum err err = openai_request_parse(routes[i], span_of(data, size),
                                            &limits, &fault, &request);
        if (err != OK && fault.why.text[0] == 0) {
            abort();
        }
        if (err == OK) {
            if (request.id_count > limits.id_count_max || request.n < 1 ||
                request.n > OPENAI_CHOICE_COUNT_MAX) {
                abort();
            }
            check_retention(&request.retention);
            openai_request_finish(&request);
        }
    }
    return 0;
}
