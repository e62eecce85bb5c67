#pragma once
/* api/openai_fields: the table of body fields and how each is read. For
 * api/openai_request.c only. */
#include "api/openai_request.h"

/* Reads one member into `request`. ERR_INVALID: unknown field, or the wrong
 * type or range; ERR_UNSUPPORTED: set to what we lack. `why` holds no name. */
MUST_USE enum err openai_field_read(const struct openai_limits *limits,
                                    struct span name, struct api_json value,
                                    struct why *why,
                                    struct openai_request *request);

/* Adds the unescaped string to request->text. */
MUST_USE enum err openai_text_read(struct openai_request *request,
                                   struct api_json value, struct why *why,
                                   struct openai_text *text_out);

/* Refuses members other than the `count` ones named. */
MUST_USE enum err openai_only_members(const struct api_object *object,
                                      const char *const *names, size_t count,
                                      struct why *why);

/* The readers of api/openai_prompt.c, openai_options.c and openai_retention.c. */
typedef enum err openai_read(const struct openai_limits *limits,
                             struct api_json value, struct why *why,
                             struct openai_request *request);
openai_read openai_read_prompt, openai_read_messages, openai_read_prompt_ids,
    openai_read_prompt_base64, openai_read_tokens;
openai_read openai_read_stop, openai_read_stop_tokens, openai_read_bias,
    openai_read_stream_options, openai_read_logprobs, openai_read_salt,
    openai_read_conversation, openai_read_handoff, openai_read_thinking,
    openai_read_template_options, openai_read_tool_choice,
    openai_read_response_format, openai_read_seed, openai_read_model,
    openai_read_string, openai_read_object, openai_read_first_logprobs,
    openai_read_retention;
