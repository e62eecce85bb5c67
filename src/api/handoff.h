#pragma once
/* api/handoff: `disaggregated_params` (serve.md 2.10), the opaque state our
 * workers put into it, prompt ids as base64, and the internal signature
 * (serve.md 6.2). Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "api/scan.h"
#include "base/buf.h"
#include "base/err.h"

enum { API_FIRST_TOKEN_COUNT_MAX = 16, API_ENDPOINT_SIZE = 280 };

enum api_request_type {
    API_REQUEST_WHOLE, /* no params, or context_and_generation */
    API_REQUEST_CONTEXT, /* context_only */
    API_REQUEST_GENERATION, /* generation_only */
};

struct api_usage {
    int64_t prompt_tokens, completion_tokens, total_tokens, cached_tokens;
};

/* `{"prompt_tokens", "completion_tokens", "total_tokens",
 * "prompt_tokens_details": {"cached_tokens"}}`; absent counts are 0. */
MUST_USE enum err api_usage_read(struct api_json value, struct why *why,
                                 struct api_usage *usage_out);

struct api_handoff {
    enum api_request_type type;
    bool has_disagg_id, has_ctx_id, has_ctx_usage, has_dp_rank;
    int64_t disagg_id;
    int64_t ctx_id;
    uint32_t first_token_count;
    int32_t first_tokens[API_FIRST_TOKEN_COUNT_MAX];
    struct span opaque; /* raw base64 text, into the body; data NULL: absent */
    struct span endpoint; /* raw text, first of a list */
    int64_t dp_rank;
    int schedule_style; /* 0 context first, 1 generation first */
    struct api_usage ctx_usage;
    bool wants_prompt_base64;
};
/* ERR_INVALID names the field ("disaggregated_params.ctx_request_id ..."). */
MUST_USE enum err api_handoff_read(struct api_json value, struct why *why,
                                   struct api_handoff *handoff_out);
/* The key both sides transfer under (transfer.md 1.1): ctx id, else disagg id;
 * ERR_NOT_FOUND when there is neither. */
MUST_USE enum err api_handoff_rid(const struct api_handoff *handoff,
                                  int64_t *rid_out);

enum { API_SEAL_SIZE = 16 };

/* What `encoded_opaque_state` holds. */
struct api_opaque {
    uint64_t incarnation;
    int64_t rid;
    uint32_t attempt;
    uint32_t prompt_tokens;
    uint32_t tokens_per_block;
    uint32_t kv_type; /* 0: F16 */
    uint8_t seal[API_SEAL_SIZE]; /* see api_opaque_seal */
};
void api_opaque_encode(const struct api_opaque *opaque, struct buf *base64_out);
/* ERR_UNSUPPORTED: of another version, or of a worker of another kind. */
MUST_USE enum err api_opaque_decode(struct span base64, struct why *why,
                                    struct api_opaque *opaque_out);

/* What the KV was computed from and what came first out of it. */
struct api_sealed {
    const int32_t *ids;
    uint32_t id_count;
    struct span salt; /* of the cache; empty: none */
    const int32_t *first_tokens;
    uint32_t first_token_count;
};
/* Binds the state to the prompt, so that a receiver can tell KV of another one
 * from the right KV, whatever was put beside the state on its way. HMAC-SHA256
 * under the internal auth key, cut to 16 bytes; without a key it tells a mix-up
 * only, not a forger. */
void api_opaque_seal(struct span key, const struct api_sealed *sealed,
                     struct api_opaque *opaque);
bool api_opaque_is_sealed(struct span key, const struct api_sealed *sealed,
                          const struct api_opaque *opaque);

/* Little-endian int32 ids as base64, and back. */
void api_ids_encode(const int32_t *ids, size_t count, struct buf *base64_out);
MUST_USE enum err api_ids_decode(struct span base64, int64_t max,
                                 struct why *why, int32_t *ids,
                                 size_t count_max, size_t *count_out);

/* "sha256=<hex>" over the two fields, as foreign front ends and workers know it
 * (`x-trtllm-disagg-auth`); a span with data NULL stands for null. */
void api_sign(struct span key, struct span endpoint, struct span opaque,
              char out[80]);
bool api_sign_verify(struct span key, struct span endpoint, struct span opaque,
                     struct span header);

/* `x-baton-disagg-auth`: the same over all that makes a leg what it is, so that
 * the signature of one is good for no other: type, both ids, style, endpoint
 * and state, as JSON with sorted keys. */
void api_sign_leg(struct span key, const struct api_handoff *handoff,
                  char out[80]);
bool api_sign_leg_verify(struct span key, const struct api_handoff *handoff,
                         struct span header);
/* ... and over the id that an abort names. */
void api_sign_abort(struct span key, int64_t id, char out[80]);
bool api_sign_abort_verify(struct span key, int64_t id, struct span header);
