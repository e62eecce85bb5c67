/* api/openai_fields: one line a field. A field that we lack has its neutral
 * values instead of a reader: those mean "do nothing" and pass. */
#include "api/openai_fields.h"

#include <string.h>

#include "base/check.h"

enum kind { FIELD_BOOL, FIELD_INT, FIELD_NUMBER, FIELD_CALL, FIELD_LACK };

enum {
    CMPL = OPENAI_COMPLETIONS,
    CHAT = OPENAI_CHAT,
    BOTH = CMPL | CHAT,
    TOK = OPENAI_TOKENIZE,
    DETOK = OPENAI_DETOKENIZE,
    ALL = BOTH | TOK | DETOK
};

struct field {
    const char *name;
    int routes;
    enum kind kind;
    size_t offset;
    double min, max;
    openai_read *read;
    const char *neutral; /* JSON texts, separated by blanks */
};

#define AT(member) offsetof(struct openai_request, member)
#define BOOL(routes, member)                    \
    {                                           \
#member, routes, FIELD_BOOL, AT(member) \
    }
#define INT(routes, member, min, max)                    \
    {                                                    \
#member, routes, FIELD_INT, AT(member), min, max \
    }
#define NUMBER(routes, member, min, max)                    \
    {                                                       \
#member, routes, FIELD_NUMBER, AT(member), min, max \
    }
#define CALL(routes, name, read)                \
    {                                           \
        name, routes, FIELD_CALL, 0, 0, 0, read \
    }
#define LACK(routes, name, neutral)                      \
    {                                                    \
        name, routes, FIELD_LACK, 0, 0, 0, NULL, neutral \
    }

static const struct field fields[] = {
    CALL(ALL, "model", openai_read_model),
    CALL(CMPL | TOK, "prompt", openai_read_prompt),
    CALL(CHAT | TOK, "messages", openai_read_messages),
    CALL(DETOK, "tokens", openai_read_tokens),
    CALL(BOTH, "prompt_token_ids", openai_read_prompt_ids),
    CALL(BOTH, "prompt_token_ids_b64", openai_read_prompt_base64),
    BOOL(BOTH | TOK, add_special_tokens),
    BOOL(CHAT | TOK, add_generation_prompt),
    INT(BOTH, truncate_prompt_tokens, 1, INT32_MAX),
    CALL(BOTH, "cache_salt", openai_read_salt),
    CALL(BOTH, "kv_cache_retention_config", openai_read_retention),

    INT(BOTH, n, 1, OPENAI_CHOICE_COUNT_MAX),
    INT(BOTH, best_of, 1, OPENAI_CHOICE_COUNT_MAX),
    INT(BOTH, max_tokens, 0, INT32_MAX),
    INT(CHAT, max_completion_tokens, 1, INT32_MAX),
    INT(BOTH, min_tokens, 0, INT32_MAX),
    BOOL(BOTH, ignore_eos),
    BOOL(CMPL, echo),
    LACK(CHAT, "echo", "false"),
    CALL(BOTH, "stop", openai_read_stop),
    CALL(BOTH, "stop_token_ids", openai_read_stop_tokens),
    BOOL(BOTH, include_stop_str_in_output),
    BOOL(BOTH, skip_special_tokens),
    BOOL(BOTH, detokenize),

    NUMBER(BOTH, temperature, 0, 100),
    NUMBER(BOTH, top_p, 0, 1),
    NUMBER(BOTH, min_p, 0, 1),
    INT(BOTH, top_k, -1, INT32_MAX),
    NUMBER(BOTH, presence_penalty, -2, 2),
    NUMBER(BOTH, frequency_penalty, -2, 2),
    NUMBER(BOTH, repetition_penalty, 0, 100),
    CALL(BOTH, "seed", openai_read_seed),
    CALL(BOTH, "logit_bias", openai_read_bias),
    CALL(BOTH, "logprobs", openai_read_logprobs),
    INT(CHAT, top_logprobs, 0, OPENAI_LOGPROB_COUNT_MAX),

    BOOL(BOTH, stream),
    CALL(BOTH, "stream_options", openai_read_stream_options),
    CALL(BOTH, "disaggregated_params", openai_read_handoff),
    CALL(BOTH, "conversation_params", openai_read_conversation),
    CALL(BOTH, "response_format", openai_read_response_format),
    CALL(BOTH, "user", openai_read_string),
    CALL(BOTH, "prompt_cache_key", openai_read_string),
    CALL(BOTH, "client_metadata", openai_read_object),
    CALL(BOTH, "metadata", openai_read_object),
    CALL(BOTH, "safety_identifier", openai_read_string),
    CALL(BOTH, "service_tier", openai_read_string),
    LACK(BOTH, "store", "false"),
    LACK(CHAT, "parallel_tool_calls", "true false"),
    LACK(CHAT, "verbosity", "\"medium\""),
    LACK(CHAT, "modalities", "[\"text\"]"),

    CALL(CHAT, "thinking", openai_read_thinking),
    CALL(CHAT, "chat_template_kwargs", openai_read_template_options),
    CALL(CHAT, "tool_choice", openai_read_tool_choice),
    LACK(CHAT, "tools", "[]"),
    LACK(CHAT, "chat_template", ""),
    LACK(CHAT, "reasoning_effort", ""),
    LACK(CHAT, "documents", "[]"),
    LACK(CHAT, "media_io_kwargs", "{}"),
    LACK(CHAT, "mm_processor_kwargs", "{}"),
    LACK(CHAT, "agent_hierarchy", "[] {}"),

    LACK(CMPL, "suffix", "\"\" false 0"),
    LACK(BOTH, "lora_request", "{}"),
    LACK(BOTH, "prompt_ignore_length", "0"),
    LACK(BOTH, "use_beam_search", "false"),
    LACK(BOTH, "top_p_min", "0 0.0"),
    LACK(BOTH, "length_penalty", "1 1.0 0 0.0"),
    LACK(BOTH, "early_stopping", "false"),
    LACK(BOTH, "spaces_between_special_tokens", "true"),
    LACK(BOTH, "return_context_logits", "false"),
    LACK(BOTH, "thinking_token_budget", ""),
    LACK(BOTH, "priority", "0.5"),
};

static const struct field *find_field(enum openai_route route, struct span name)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if ((fields[i].routes & (int)route) &&
            api_key_equals(name, span_of_string(fields[i].name))) {
            return &fields[i];
        }
    }
    return NULL;
}

static bool is_neutral(const char *neutral, struct span text)
{
    while (*neutral != 0) {
        size_t size = strcspn(neutral, " ");
        if (span_equals(text, span_of(neutral, size))) {
            return true;
        }
        neutral += size;
        neutral += strspn(neutral, " ");
    }
    return false;
}

static enum err read_int(const struct field *field, struct api_json value,
                         struct why *why, struct openai_request *request)
{
    int64_t number;
    enum err err = api_read_int(value, (int64_t)field->min, (int64_t)field->max,
                                why, &number);
    if (err == OK) {
        memcpy((char *)request + field->offset, &number, sizeof(number));
    }
    return err;
}

static enum err read_number(const struct field *field, struct api_json value,
                            struct why *why, struct openai_request *request)
{
    double number;
    enum err err = api_read_number(value, field->min, field->max, why, &number);
    if (err == OK) {
        memcpy((char *)request + field->offset, &number, sizeof(number));
    }
    return err;
}

static enum err read_bool(const struct field *field, struct api_json value,
                          struct why *why, struct openai_request *request)
{
    bool flag;
    enum err err = api_read_bool(value, why, &flag);
    if (err == OK) {
        memcpy((char *)request + field->offset, &flag, sizeof(flag));
    }
    return err;
}

enum err openai_field_read(const struct openai_limits *limits, struct span name,
                           struct api_json value, struct why *why,
                           struct openai_request *request)
{
    const struct field *field = find_field(request->route, name);
    if (field == NULL) {
        return why_say(why, ERR_INVALID, "is not a known field");
    }
    if (value.kind == API_JSON_NULL) {
        return OK;
    }
    switch (field->kind) {
    case FIELD_BOOL:
        return read_bool(field, value, why, request);
    case FIELD_INT:
        return read_int(field, value, why, request);
    case FIELD_NUMBER:
        return read_number(field, value, why, request);
    case FIELD_CALL:
        return field->read(limits, value, why, request);
    case FIELD_LACK:
        if (is_neutral(field->neutral, value.text)) {
            return OK;
        }
        return why_say(why, ERR_UNSUPPORTED, "is not supported by this server");
    }
    CHECK_UNREACHABLE();
}

enum err openai_text_read(struct openai_request *request, struct api_json value,
                          struct why *why, struct openai_text *text_out)
{
    size_t at = request->text.size;
    enum err err = api_read_string(value, why, &request->text);
    if (err == OK) {
        *text_out = (struct openai_text){at, request->text.size - at};
    }
    return err;
}
