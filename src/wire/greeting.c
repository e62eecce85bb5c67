#include "wire/greeting.h"

#include <string.h>

#include "base/check.h"
#include "wire/bytes.h"
#include "wire/frame.h"

enum { LABEL_SIZE_MAX = 32, TEXT_SIZE_MAX = LABEL_SIZE_MAX + 2 + 16 + 64 };

/* -------- proofs -------- */

void wire_prove(struct span key, const struct wire_terms *terms,
                uint8_t proof_out[WIRE_PROOF_SIZE])
{
    struct buf text;
    CHECK(strlen(terms->label) <= LABEL_SIZE_MAX);
    buf_init(&text, TEXT_SIZE_MAX);
    buf_add_string(&text, terms->label);
    wire_write_u16(&text, terms->version);
    wire_write_u64(&text, terms->first.incarnation);
    wire_write_u64(&text, terms->second.incarnation);
    buf_add(&text, terms->first.nonce, WIRE_NONCE_SIZE);
    buf_add(&text, terms->second.nonce, WIRE_NONCE_SIZE);
    CHECK(!buf_error(&text));
    digest_hmac_sha256(key, buf_span(&text), proof_out);
    buf_finish(&text);
}

bool wire_is_proof(struct span key, const struct wire_terms *terms,
                   const uint8_t proof[WIRE_PROOF_SIZE])
{
    uint8_t expected[WIRE_PROOF_SIZE];
    wire_prove(key, terms, expected);
    return digest_equals(expected, proof, sizeof(expected));
}

static struct wire_terms terms_of(const struct wire_greeting *greeting,
                                  bool is_opener)
{
    return (struct wire_terms){
        .label = is_opener ? "baton link opener" : "baton link server",
        .version = WIRE_VERSION,
        .first = {greeting->opener, greeting->opener_nonce},
        .second = {greeting->server, greeting->server_nonce},
    };
}

void wire_greeting_prove(struct span key, const struct wire_greeting *greeting,
                         bool is_opener, uint8_t proof_out[WIRE_PROOF_SIZE])
{
    const struct wire_terms terms = terms_of(greeting, is_opener);
    wire_prove(key, &terms, proof_out);
}

bool wire_greeting_is_proof(struct span key,
                            const struct wire_greeting *greeting,
                            bool is_opener,
                            const uint8_t proof[WIRE_PROOF_SIZE])
{
    const struct wire_terms terms = terms_of(greeting, is_opener);
    return wire_is_proof(key, &terms, proof);
}

enum err wire_greeting_deny(bool has_opener_key, bool has_server_key,
                            struct why *why)
{
    const char *how = "the sender's is not the receiver's";
    if (has_opener_key != has_server_key) {
        how = has_server_key ? "the sender has one, the receiver has none"
                             : "the receiver has one, the sender has none";
    } else if (!has_server_key) {
        how = "none at both ends, yet the proof is wrong";
    }
    return why_say(why, ERR_DENIED, "internal auth key differs: %s", how);
}

/* -------- bodies -------- */

static void take(struct wire_reader *reader, uint8_t *out, size_t size)
{
    struct span bytes = wire_read_span(reader, size);
    if (bytes.size == size) {
        memcpy(out, bytes.data, size);
    }
}

static bool take_flag(struct wire_reader *reader)
{
    uint8_t value = wire_read_u8(reader);
    reader->is_short |= value > 1;
    return value == 1;
}

static enum err check_end(const struct wire_reader *reader, const char *name,
                          size_t size, struct why *why)
{
    return wire_reader_is_done(reader)
               ? OK
               : why_say(why, ERR_CORRUPT, "%s: %zu bytes, or not a flag", name,
                         size);
}

void wire_greet_encode(const struct wire_greet *greet, struct buf *out)
{
    wire_write_u8(out, greet->has_key);
    buf_add(out, greet->nonce, WIRE_NONCE_SIZE);
}

enum err wire_greet_decode(struct span body, struct why *why,
                           struct wire_greet *greet_out)
{
    struct wire_reader reader = wire_reader_of(body);
    struct wire_greet greet = {.has_key = take_flag(&reader)};
    take(&reader, greet.nonce, WIRE_NONCE_SIZE);
    enum err err = check_end(&reader, "greet", body.size, why);
    if (!err) {
        *greet_out = greet;
    }
    return err;
}

void wire_greeted_encode(const struct wire_greeted *greeted, struct buf *out)
{
    wire_write_u8(out, greeted->has_key);
    buf_add(out, greeted->nonce, WIRE_NONCE_SIZE);
    buf_add(out, greeted->proof, WIRE_PROOF_SIZE);
}

enum err wire_greeted_decode(struct span body, struct why *why,
                             struct wire_greeted *greeted_out)
{
    struct wire_reader reader = wire_reader_of(body);
    struct wire_greeted greeted = {.has_key = take_flag(&reader)};
    take(&reader, greeted.nonce, WIRE_NONCE_SIZE);
    take(&reader, greeted.proof, WIRE_PROOF_SIZE);
    enum err err = check_end(&reader, "greeted", body.size, why);
    if (!err) {
        *greeted_out = greeted;
    }
    return err;
}

void wire_proof_encode(const uint8_t proof[WIRE_PROOF_SIZE], struct buf *out)
{
    buf_add(out, proof, WIRE_PROOF_SIZE);
}

enum err wire_proof_decode(struct span body, struct why *why,
                           uint8_t proof_out[WIRE_PROOF_SIZE])
{
    if (body.size != WIRE_PROOF_SIZE) {
        return why_say(why, ERR_CORRUPT, "proof: %zu bytes", body.size);
    }
    memcpy(proof_out, body.data, WIRE_PROOF_SIZE);
    return OK;
}
