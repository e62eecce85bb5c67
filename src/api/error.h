#pragma once
/* api/error: one table from our errors to HTTP status and OpenAI error type,
 * and the envelope `{"error": {"message","type","param","code"}, "detail"}`
 * (serve.md 2.7). */
#include "base/buf.h"
#include "base/err.h"

struct api_error_kind {
    int status;
    const char
        *type; /* "invalid_request_error", "ServiceUnavailableError" ... */
};
struct api_error_kind api_error_of(enum err code);
const char *api_error_type_of_status(int status);
/* `param` may be NULL; control characters in `message` are escaped. `code`
 * is a string such as "starting", or NULL for the status itself. */
void api_error_body(int status, const char *type, const char *message,
                    const char *param, const char *code, struct buf *out);
/* What went wrong in a worker's error body, unwrapped (message, else detail,
 * else error, else raw), at most 2,048 characters, without URLs and hosts. */
void api_error_unwrap(struct span body, struct buf *message_out);
