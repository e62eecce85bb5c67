#include "api/handoff.h"

#include <inttypes.h>
#include <string.h>

#include "base/digest.h"

enum { SIGNATURE_SIZE = 7 + 2 * DIGEST_SHA256_SIZE, NUMBERS_SIZE = 256 };

static void add_text(struct buf *buf, const char *key, struct span value)
{
    buf_add_string(buf, key);
    if (value.data == NULL) {
        buf_add_string(buf, "null");
    } else {
        buf_add_json_string(buf, value);
    }
}

static void add_id(struct buf *buf, const char *key, bool is_there, int64_t id)
{
    buf_add_string(buf, key);
    if (is_there) {
        buf_printf(buf, "%" PRId64, id);
    } else {
        buf_add_string(buf, "null");
    }
}

/* Ends the payload. */
static void sign(struct span key, struct buf *payload, char out[80])
{
    uint8_t mac[DIGEST_SHA256_SIZE];
    struct buf hex;
    digest_hmac_sha256(key, buf_span(payload), mac);
    buf_finish(payload);
    buf_init(&hex, SIGNATURE_SIZE);
    buf_add_string(&hex, "sha256=");
    digest_add_hex(&hex, span_of(mac, sizeof(mac)));
    memcpy(out, buf_string(&hex), SIGNATURE_SIZE + 1);
    buf_finish(&hex);
}

static bool is_same(const char expected[80], struct span header)
{
    return header.size == SIGNATURE_SIZE &&
           digest_equals(header.data, (const uint8_t *)expected,
                         SIGNATURE_SIZE);
}

void api_sign(struct span key, struct span endpoint, struct span opaque,
              char out[80])
{
    struct buf payload;
    buf_init(&payload, 6 * (endpoint.size + opaque.size) + NUMBERS_SIZE);
    add_text(&payload, "{\"ctx_info_endpoint\":", endpoint);
    add_text(&payload, ",\"encoded_opaque_state\":", opaque);
    buf_add_byte(&payload, '}');
    sign(key, &payload, out);
}

bool api_sign_verify(struct span key, struct span endpoint, struct span opaque,
                     struct span header)
{
    char expected[80];
    api_sign(key, endpoint, opaque, expected);
    return is_same(expected, header);
}

static const char *type_name(enum api_request_type type)
{
    return type == API_REQUEST_CONTEXT      ? "context_only"
           : type == API_REQUEST_GENERATION ? "generation_only"
                                            : "context_and_generation";
}

void api_sign_leg(struct span key, const struct api_handoff *handoff,
                  char out[80])
{
    struct buf payload;
    size_t text_size = handoff->endpoint.size + handoff->opaque.size;
    buf_init(&payload, 6 * text_size + NUMBERS_SIZE);
    add_text(&payload, "{\"ctx_info_endpoint\":", handoff->endpoint);
    add_id(&payload, ",\"ctx_request_id\":", handoff->has_ctx_id,
           handoff->ctx_id);
    add_id(&payload, ",\"disagg_request_id\":", handoff->has_disagg_id,
           handoff->disagg_id);
    add_text(&payload, ",\"encoded_opaque_state\":", handoff->opaque);
    buf_printf(&payload, ",\"request_type\":\"%s\",\"schedule_style\":%d}",
               type_name(handoff->type), handoff->schedule_style);
    sign(key, &payload, out);
}

bool api_sign_leg_verify(struct span key, const struct api_handoff *handoff,
                         struct span header)
{
    char expected[80];
    api_sign_leg(key, handoff, expected);
    return is_same(expected, header);
}

void api_sign_abort(struct span key, int64_t id, char out[80])
{
    struct buf payload;
    buf_init(&payload, NUMBERS_SIZE);
    add_id(&payload, "{\"disagg_request_id\":", true, id);
    buf_add_string(&payload, ",\"request_type\":\"abort\"}");
    sign(key, &payload, out);
}

bool api_sign_abort_verify(struct span key, int64_t id, struct span header)
{
    char expected[80];
    api_sign_abort(key, id, expected);
    return is_same(expected, header);
}
