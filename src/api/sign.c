#include "api/handoff.h"

#include <string.h>

#include "base/digest.h"

enum { SIGNATURE_SIZE = 7 + 2 * DIGEST_SHA256_SIZE };

static void add_field(struct buf *buf, const char *key, struct span value)
{
    buf_add_string(buf, key);
    if (value.data == NULL) {
        buf_add_string(buf, "null");
    } else {
        buf_add_json_string(buf, value);
    }
}

void api_sign(struct span key, struct span endpoint, struct span opaque,
              char out[80])
{
    struct buf payload;
    buf_init(&payload, 6 * (endpoint.size + opaque.size) + 128);
    add_field(&payload, "{\"ctx_info_endpoint\":", endpoint);
    add_field(&payload, ",\"encoded_opaque_state\":", opaque);
    buf_add_byte(&payload, '}');
    uint8_t mac[DIGEST_SHA256_SIZE];
    digest_hmac_sha256(key, buf_span(&payload), mac);
    buf_finish(&payload);
    struct buf hex;
    buf_init(&hex, SIGNATURE_SIZE);
    buf_add_string(&hex, "sha256=");
    digest_add_hex(&hex, span_of(mac, sizeof(mac)));
    memcpy(out, buf_string(&hex), SIGNATURE_SIZE + 1);
    buf_finish(&hex);
}

bool api_sign_verify(struct span key, struct span endpoint, struct span opaque,
                     struct span header)
{
    char expected[80];
    api_sign(key, endpoint, opaque, expected);
    return header.size == SIGNATURE_SIZE &&
           digest_equals(header.data, (const uint8_t *)expected,
                         SIGNATURE_SIZE);
}
