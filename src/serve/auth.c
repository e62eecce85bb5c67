/* serve/auth: legs of hand-offs, and aborts, are taken from who knows the key
 * (serve.md 6.2): a leg pins pages or tells us whom to contact, an abort ends
 * what somebody else has begun. */
#include "serve/internal.h"

#include "base/log.h"

#define HEADER "x-baton-disagg-auth"
#define FOREIGN_HEADER "x-trtllm-disagg-auth"

int serve_refuse(struct why *why, int status, const char *text)
{
    IGNORE(why_say(why, ERR_INVALID, "%s", text));
    return status;
}

static void warn(struct serve *serve)
{
    if (!serve->has_warned_auth) {
        serve->has_warned_auth = true;
        log_warn("serve", "hand-offs are accepted without a signature "
                          "(strict_internal_auth is off)");
    }
}

static bool is_strict(const struct serve *serve)
{
    return serve->options.config->strict_internal_auth;
}

static bool has_key(const struct serve *serve)
{
    return serve->parts.auth_key.size > 0;
}

static bool has_secret(const struct api_handoff *handoff)
{
    return handoff->opaque.data != NULL || handoff->endpoint.data != NULL;
}

bool serve_auth_takes_hand_offs(const struct serve *serve)
{
    return has_key(serve) || !is_strict(serve);
}

/* Without a key nobody can be told from anybody: a strict worker takes part in
 * no hand-off then. */
static int check_without_key(struct serve *serve, struct why *why)
{
    if (is_strict(serve)) {
        return serve_refuse(
            why, 403,
            "hand-offs need an auth key on this worker "
            "(--auth-key-file, or strict_internal_auth: false)");
    }
    warn(serve);
    return 0;
}

/* A front end of another kind signs what it knows to sign, and that only where
 * an endpoint or a state is told; it is heard when strictness is off. */
static int check_foreign(const struct serve_request *request, struct why *why)
{
    struct serve *serve = request->serve;
    const struct api_handoff *handoff = &request->body.handoff;
    struct span header;
    bool is_signed =
        has_secret(handoff) &&
        http_exchange_header(request->exchange, FOREIGN_HEADER, &header);
    if (!is_signed) {
        warn(serve);
        return 0;
    }
    return api_sign_verify(serve->parts.auth_key, handoff->endpoint,
                           handoff->opaque, header)
               ? 0
               : serve_refuse(why, 403, FOREIGN_HEADER ": does not match");
}

int serve_auth_leg(struct serve_request *request, struct why *why)
{
    struct serve *serve = request->serve;
    const struct api_handoff *handoff = &request->body.handoff;
    struct span header;
    if (handoff->type == API_REQUEST_WHOLE && !has_secret(handoff)) {
        return 0;
    }
    if (!has_key(serve)) {
        return check_without_key(serve, why);
    }
    if (http_exchange_header(request->exchange, HEADER, &header)) {
        return api_sign_leg_verify(serve->parts.auth_key, handoff, header)
                   ? 0
                   : serve_refuse(why, 403, HEADER ": does not match");
    }
    return is_strict(serve) ? serve_refuse(why, 401, HEADER ": is required")
                            : check_foreign(request, why);
}

int serve_auth_abort_head(struct serve *serve,
                          const struct http_exchange *exchange, struct why *why)
{
    struct span header;
    if (!has_key(serve)) {
        return check_without_key(serve, why);
    }
    bool is_refused =
        is_strict(serve) && !http_exchange_header(exchange, HEADER, &header);
    return is_refused ? serve_refuse(why, 401, HEADER ": is required") : 0;
}

int serve_auth_abort(struct serve *serve, struct http_exchange *exchange,
                     int64_t id, struct why *why)
{
    struct span header;
    if (!has_key(serve) || !http_exchange_header(exchange, HEADER, &header)) {
        return 0; /* the head has decided */
    }
    return api_sign_abort_verify(serve->parts.auth_key, id, header)
               ? 0
               : serve_refuse(why, 403, HEADER ": does not match");
}
