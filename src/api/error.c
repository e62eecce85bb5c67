#include "api/error.h"

#include <string.h>

struct api_error_kind api_error_of(enum err code)
{
    static const struct api_error_kind KINDS[ERR_COUNT] = {
        [OK] = {200, ""},
        [ERR_INVALID] = {400, "invalid_request_error"},
        [ERR_UNSUPPORTED] = {400, "invalid_request_error"},
        [ERR_NOT_FOUND] = {404, "not_found_error"},
        [ERR_EXISTS] = {409, "conflict_error"},
        [ERR_FULL] = {429, "rate_limit_error"},
        [ERR_NO_MEMORY] = {503, "ServiceUnavailableError"},
        [ERR_BUSY] = {503, "ServiceUnavailableError"},
        [ERR_TIMEOUT] = {504, "timeout_error"},
        [ERR_CANCELLED] = {499, "cancelled_error"},
        [ERR_CLOSED] = {502, "upstream_error"},
        [ERR_CORRUPT] = {502, "upstream_error"},
        [ERR_DENIED] = {401, "authentication_error"},
        [ERR_IO] = {500, "server_error"},
        [ERR_INTERNAL] = {500, "server_error"},
    };
    return (unsigned)code < ERR_COUNT ? KINDS[code] : KINDS[ERR_INTERNAL];
}

const char *api_error_type_of_status(int status)
{
    static const struct api_error_kind KINDS[] = {
        {401, "authentication_error"},    {403, "permission_error"},
        {404, "not_found_error"},         {405, "method_not_allowed"},
        {409, "conflict_error"},          {429, "rate_limit_error"},
        {499, "cancelled_error"},         {502, "upstream_error"},
        {503, "ServiceUnavailableError"}, {504, "timeout_error"},
    };
    for (size_t i = 0; i < sizeof(KINDS) / sizeof(KINDS[0]); i++) {
        if (KINDS[i].status == status) {
            return KINDS[i].type;
        }
    }
    return status >= 400 && status < 500 ? "invalid_request_error"
                                         : "server_error";
}

static void add_string_or_null(struct buf *out, const char *text)
{
    if (text == NULL) {
        buf_add_string(out, "null");
    } else {
        buf_add_json_string(out, span_of_string(text));
    }
}

void api_error_body(int status, const char *type, const char *message,
                    const char *param, const char *code, struct buf *out)
{
    buf_add_string(out, "{\"error\":{\"message\":");
    buf_add_json_string(out, span_of_string(message));
    buf_add_string(out, ",\"type\":");
    buf_add_json_string(out, span_of_string(type));
    buf_add_string(out, ",\"param\":");
    add_string_or_null(out, param);
    buf_add_string(out, ",\"code\":");
    if (code == NULL) {
        buf_printf(out, "%d", status);
    } else {
        add_string_or_null(out, code);
    }
    buf_add_string(out, "},\"detail\":");
    buf_add_json_string(out, span_of_string(message));
    buf_add_byte(out, '}');
}
