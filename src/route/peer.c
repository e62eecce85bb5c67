#include "route/peer.h"

#include <string.h>

#include "api/handoff.h"
#include "api/scan.h"
#include "base/buf.h"
#include "base/check.h"

/* None, null, or an empty list. */
static bool is_silent(const struct api_object *params)
{
    const struct api_member *member = api_find(params, "ctx_info_endpoint");
    return member == NULL || member->value.kind == API_JSON_NULL ||
           (member->value.kind == API_JSON_ARRAY &&
            api_array_count(member->value) == 0);
}

static enum err read_params(struct api_json value, struct why *why,
                            struct route_peer *peer)
{
    struct api_object params;
    struct api_handoff handoff;
    if (api_scan_object(value, why, &params) != OK) {
        return why_prefix(why, ERR_INVALID, "disaggregated_params");
    }
    if (is_silent(&params)) {
        return why_say(why, ERR_NOT_FOUND, "no ctx_info_endpoint");
    }
    if (api_handoff_read(value, why, &handoff) != OK) {
        return ERR_INVALID;
    }
    if (handoff.endpoint.size == 0) {
        return why_say(why, ERR_INVALID,
                       "disaggregated_params.ctx_info_endpoint: is empty");
    }
    struct buf endpoint, text;
    buf_init(&endpoint, ROUTE_PEER_SIZE_MAX);
    buf_init(&text, ROUTE_PEER_SIZE_MAX);
    buf_add_json_string(&endpoint, handoff.endpoint);
    struct api_edit edit = {"ctx_info_endpoint", buf_string(&endpoint),
                            endpoint.size};
    api_splice(&params, &edit, 1, &text);
    enum err code = buf_error(&text);
    if (code == OK) {
        peer->size = (uint32_t)text.size;
        memcpy(peer->params, text.data, text.size);
    } else {
        code = why_say(why, ERR_INVALID,
                       "disaggregated_params: is longer than %d bytes",
                       ROUTE_PEER_SIZE_MAX);
    }
    buf_finish(&text);
    buf_finish(&endpoint);
    return code;
}

enum err route_peer_read(struct span server_info, struct why *why,
                         struct route_peer *peer_out)
{
    struct api_object object;
    struct route_peer peer = {0};
    if (api_scan(server_info, why, &object) != OK) {
        return ERR_INVALID;
    }
    const struct api_member *member = api_find(&object, "disaggregated_params");
    if (member == NULL || member->value.kind == API_JSON_NULL) {
        return why_say(why, ERR_NOT_FOUND, "no disaggregated_params");
    }
    enum err code = read_params(member->value, why, &peer);
    if (code == OK) {
        *peer_out = peer;
    }
    return code;
}

bool route_peer_is_known(const struct route_peer *peer)
{
    return peer->size > 0;
}

struct span route_peer_endpoint(const struct route_peer *peer)
{
    struct api_json value;
    struct api_object params;
    struct span text = span_of(peer->params, peer->size);
    CHECK(api_scan_value(text, NULL, &value) == OK);
    CHECK(api_scan_object(value, NULL, &params) == OK);
    const struct api_member *member = api_find(&params, "ctx_info_endpoint");
    CHECK(member != NULL);
    return span_slice(member->value.text, 1, member->value.text.size - 1);
}
