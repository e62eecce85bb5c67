#pragma once
/* wire/greeting: how the two ends of a connection prove to each other that they
 * hold the internal key, before either believes a word.
 *
 *   opener                                        server
 *   GREET   has a key?, nonce             --->
 *           <---   GREETED  has a key?, nonce, proof
 *   PROOF   proof                         --->
 *
 * A proof is the HMAC-SHA256 under the key, or under an empty one, of a label of
 * who proves it, and of the incarnations and nonces of both. Nonces are fresh on
 * each side, so no proof serves twice; the labels differ, so nobody's proof
 * serves as his own answer. Pure, any thread. */
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/span.h"

enum { WIRE_NONCE_SIZE = 32, WIRE_PROOF_SIZE = DIGEST_SHA256_SIZE };

/* -------- proofs -------- */

struct wire_party {
    uint64_t incarnation;
    const uint8_t *nonce; /* (WIRE_NONCE_SIZE) */
};
/* All that a proof is made of. */
struct wire_terms {
    const char *label; /* who proves; all labels of one protocol are of one
                          length */
    uint16_t version; /* of the protocol */
    struct wire_party first, second; /* the same for both proofs */
};

void wire_prove(struct span key, const struct wire_terms *terms,
                uint8_t proof_out[WIRE_PROOF_SIZE]);
/* Takes the same time whatever the bytes. */
bool wire_is_proof(struct span key, const struct wire_terms *terms,
                   const uint8_t proof[WIRE_PROOF_SIZE]);

/* -------- the control connection's -------- */

struct wire_greeting {
    uint64_t opener, server; /* incarnations */
    uint8_t opener_nonce[WIRE_NONCE_SIZE];
    uint8_t server_nonce[WIRE_NONCE_SIZE];
};
void wire_greeting_prove(struct span key, const struct wire_greeting *greeting,
                         bool is_opener, uint8_t proof_out[WIRE_PROOF_SIZE]);
bool wire_greeting_is_proof(struct span key,
                            const struct wire_greeting *greeting,
                            bool is_opener,
                            const uint8_t proof[WIRE_PROOF_SIZE]);
/* ERR_DENIED: "internal auth key differs", and which of the two has none. The
 * opener is a receiver of pages, the server a sender. */
MUST_USE enum err wire_greeting_deny(bool has_opener_key, bool has_server_key,
                                     struct why *why);

/* Bodies; ERR_CORRUPT when one is of another length or not of these values. */
struct wire_greet {
    bool has_key;
    uint8_t nonce[WIRE_NONCE_SIZE];
};
struct wire_greeted {
    bool has_key;
    uint8_t nonce[WIRE_NONCE_SIZE];
    uint8_t proof[WIRE_PROOF_SIZE];
};
void wire_greet_encode(const struct wire_greet *greet, struct buf *out);
MUST_USE enum err wire_greet_decode(struct span body, struct why *why,
                                    struct wire_greet *greet_out);
void wire_greeted_encode(const struct wire_greeted *greeted, struct buf *out);
MUST_USE enum err wire_greeted_decode(struct span body, struct why *why,
                                      struct wire_greeted *greeted_out);
void wire_proof_encode(const uint8_t proof[WIRE_PROOF_SIZE], struct buf *out);
MUST_USE enum err wire_proof_decode(struct span body, struct why *why,
                                    uint8_t proof_out[WIRE_PROOF_SIZE]);
