#include "route/front_session.h"

/* serve.md 6.2: our workers take a leg only from who knows the key. */

static struct span key_of(const struct route_front *front)
{
    return span_of_string(front->config->internal_auth_key);
}

/* The context worker of a pair. */
static const struct route_peer *peer_of(const struct front_session *session)
{
    const struct route_pool *pool = &session->front->pool;
    return &pool->servers[session->request.ctx_server].peer;
}

/* What the leg's `disaggregated_params` say, as its worker reads them. */
static struct api_handoff handoff_of(const struct front_session *session,
                                     enum route_leg_kind kind, int64_t id)
{
    struct api_handoff handoff = {
        .type = API_REQUEST_CONTEXT,
        .has_disagg_id = true,
        .disagg_id = id,
        .schedule_style = session->request.is_pair ? 1 : 0,
    };
    if (kind == ROUTE_LEG_CONTEXT) {
        return handoff;
    }
    handoff.type = API_REQUEST_GENERATION;
    handoff.has_ctx_id = true;
    handoff.ctx_id = id;
    if (session->request.is_pair) {
        handoff.endpoint = route_peer_endpoint(peer_of(session));
        return handoff;
    }
    const struct route_answer *answer = &session->context_answer;
    handoff.disagg_id = answer->id;
    handoff.has_ctx_id = answer->handoff.has_ctx_id;
    handoff.ctx_id = answer->handoff.ctx_id;
    handoff.endpoint = answer->handoff.endpoint;
    handoff.opaque = answer->handoff.opaque;
    return handoff;
}

void front_sign(const struct front_session *session, enum route_leg_kind kind,
                int64_t id, struct front_signature *out)
{
    struct span key = key_of(session->front);
    *out = (struct front_signature){0};
    if (kind == ROUTE_LEG_WHOLE || key.size == 0) {
        return;
    }
    struct api_handoff handoff = handoff_of(session, kind, id);
    api_sign_leg(key, &handoff, out->own);
    if (handoff.endpoint.data != NULL || handoff.opaque.data != NULL) {
        api_sign(key, handoff.endpoint, handoff.opaque, out->foreign);
    }
}

bool front_sign_abort(const struct route_front *front, int64_t id, char out[80])
{
    struct span key = key_of(front);
    if (key.size > 0) {
        api_sign_abort(key, id, out);
    }
    return key.size > 0;
}
