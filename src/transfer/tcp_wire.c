#include "transfer/tcp_wire.h"

#include <string.h>

#include "base/check.h"
#include "wire/bytes.h"

enum {
    MAGIC = 0x54564b42, /* "BKVT" */
    BLOB_MAGIC = 0x42504354, /* "TCPB" */
    CRC_SIZE = 4
};

/* Writers of fixed size: no buffer to grow, no error to carry. */
static uint8_t *put(uint8_t *at, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        at[i] = (uint8_t)(value >> 8 * i);
    }
    return at + size;
}

static uint8_t *put_begin(uint8_t *at, enum tcp_type type)
{
    at = put(at, MAGIC, 4);
    at = put(at, TCP_VERSION, 2);
    return put(at, type, 2);
}

static void seal(uint8_t *out, uint8_t *at, size_t size)
{
    uint8_t *end = out + size - CRC_SIZE;
    CHECK(at <= end);
    memset(at, 0, (size_t)(end - at));
    put(end, digest_crc32c(0, span_of(out, size - CRC_SIZE)), CRC_SIZE);
}

static bool is_sealed(const uint8_t *bytes, size_t size)
{
    struct wire_reader reader =
        wire_reader_of(span_of(bytes + size - CRC_SIZE, CRC_SIZE));
    return wire_read_u32(&reader) ==
           digest_crc32c(0, span_of(bytes, size - CRC_SIZE));
}

/* Version before digest: another version may have other sizes. */
static enum err open_fixed(const uint8_t *bytes, size_t size, struct why *why,
                           struct wire_reader *reader_out, uint16_t *type_out)
{
    struct wire_reader reader = wire_reader_of(span_of(bytes, size - CRC_SIZE));
    uint32_t magic = wire_read_u32(&reader);
    uint16_t version = wire_read_u16(&reader);
    uint16_t type = wire_read_u16(&reader);
    if (magic != MAGIC) {
        return why_say(why, ERR_INVALID, "not a data connection of ours");
    }
    if (version != TCP_VERSION) {
        return why_say(why, ERR_UNSUPPORTED, "version %u, not %u", version,
                       TCP_VERSION);
    }
    if (!is_sealed(bytes, size)) {
        return why_say(why, ERR_CORRUPT, "a frame fails its check");
    }
    *reader_out = reader;
    *type_out = type;
    return OK;
}

/* -------- head and list -------- */

void tcp_head_encode(const struct tcp_head *head, uint8_t out[TCP_HEAD_SIZE])
{
    uint8_t *at = put_begin(out, head->type);
    at = put(at, head->write, 8);
    at = put(at, (uint64_t)head->token.rid, 8);
    at = put(at, head->token.attempt, 4);
    at = put(at, head->piece_count, 2);
    at = put(at, head->flags, 2);
    at = put(at, head->payload_size, 4);
    seal(out, at, TCP_HEAD_SIZE);
}

static bool is_within_limits(const struct tcp_head *head)
{
    bool has_pieces = head->piece_count > 0;
    switch (head->type) {
    case TCP_WRITE:
        return head->piece_count <= TCP_PIECES_MAX &&
               head->payload_size <= TCP_PAYLOAD_MAX &&
               has_pieces == (head->payload_size > 0) &&
               (head->flags & ~TCP_LAST) == 0 &&
               (has_pieces || (head->flags & TCP_LAST));
    case TCP_ACK:
        return !has_pieces && head->payload_size == 0 &&
               (head->flags & ~TCP_REFUSED) == 0;
    default:
        return false;
    }
}

enum err tcp_head_decode(const uint8_t bytes[TCP_HEAD_SIZE], struct why *why,
                         struct tcp_head *head_out)
{
    struct wire_reader reader;
    struct tcp_head head;
    enum err err = open_fixed(bytes, TCP_HEAD_SIZE, why, &reader, &head.type);
    if (err) {
        return err;
    }
    head.write = wire_read_u64(&reader);
    head.token.rid = (int64_t)wire_read_u64(&reader);
    head.token.attempt = wire_read_u32(&reader);
    head.piece_count = wire_read_u16(&reader);
    head.flags = wire_read_u16(&reader);
    head.payload_size = wire_read_u32(&reader);
    if (!is_within_limits(&head)) {
        return why_say(why, ERR_INVALID,
                       "a frame of type %u with %u pieces, %u bytes, flags %u",
                       head.type, head.piece_count, head.payload_size,
                       head.flags);
    }
    *head_out = head;
    return OK;
}

size_t tcp_list_size(uint32_t piece_count)
{
    size_t size = piece_count * TCP_PIECE_SIZE + CRC_SIZE;
    return piece_count == 0
               ? 0
               : (size + TCP_ALIGNMENT - 1) / TCP_ALIGNMENT * TCP_ALIGNMENT;
}

void tcp_list_encode(const struct tcp_piece *pieces, uint32_t count,
                     uint8_t *out)
{
    uint8_t *at = out;
    for (uint32_t i = 0; i < count; i++) {
        at = put(at, pieces[i].offset, 8);
        at = put(at, pieces[i].size, 4);
    }
    seal(out, at, tcp_list_size(count));
}

enum err tcp_list_decode(const uint8_t *bytes, const struct tcp_head *head,
                         uint64_t pool_size, struct why *why,
                         struct tcp_piece *pieces_out)
{
    size_t size = tcp_list_size(head->piece_count);
    if (!is_sealed(bytes, size)) {
        return why_say(why, ERR_CORRUPT, "a list of pieces fails its check");
    }
    struct wire_reader reader = wire_reader_of(span_of(bytes, size));
    uint64_t total = 0;
    for (uint32_t i = 0; i < head->piece_count; i++) {
        struct tcp_piece piece = {.offset = wire_read_u64(&reader)};
        piece.size = wire_read_u32(&reader);
        if (piece.size == 0 || piece.offset > pool_size ||
            piece.size > pool_size - piece.offset) {
            return why_say(why, ERR_INVALID, "a piece outside the pool");
        }
        total += piece.size;
        pieces_out[i] = piece;
    }
    return total == head->payload_size
               ? OK
               : why_say(why, ERR_INVALID, "pieces of another size than told");
}

/* -------- who is who -------- */

struct tcp_secret tcp_secret_of(struct span key,
                                const uint8_t nonce[TCP_NONCE_SIZE])
{
    struct tcp_secret secret;
    digest_hmac_sha256(key, span_of(nonce, TCP_NONCE_SIZE), secret.bytes);
    return secret;
}

static struct wire_terms terms_of(const struct tcp_terms *terms, bool is_sender)
{
    return (struct wire_terms){
        .label = is_sender ? "baton tcp sender" : "baton tcp target",
        .version = TCP_VERSION,
        .first = {terms->sender, terms->sender_nonce},
        .second = {terms->receiver, terms->receiver_nonce},
    };
}

void tcp_prove(const struct tcp_secret *secret, const struct tcp_terms *terms,
               bool is_sender, uint8_t proof_out[DIGEST_SHA256_SIZE])
{
    const struct wire_terms all = terms_of(terms, is_sender);
    wire_prove(span_of(secret->bytes, sizeof(secret->bytes)), &all, proof_out);
}

bool tcp_is_proof(const struct tcp_secret *secret,
                  const struct tcp_terms *terms, bool is_sender,
                  const uint8_t proof[DIGEST_SHA256_SIZE])
{
    const struct wire_terms all = terms_of(terms, is_sender);
    return wire_is_proof(span_of(secret->bytes, sizeof(secret->bytes)), &all,
                         proof);
}

static enum err open_as(enum tcp_type wanted, const uint8_t *bytes, size_t size,
                        struct why *why, struct wire_reader *reader_out)
{
    uint16_t type = 0;
    enum err err = open_fixed(bytes, size, why, reader_out, &type);
    return !err && type != wanted
               ? why_say(why, ERR_INVALID, "a message of type %u out of turn",
                         type)
               : err;
}

static void take(struct wire_reader *reader, uint8_t *out, size_t size)
{
    struct span bytes = wire_read_span(reader, size);
    CHECK(bytes.size == size);
    memcpy(out, bytes.data, size);
}

void tcp_hello_encode(const struct tcp_terms *terms,
                      uint8_t out[TCP_HELLO_SIZE])
{
    uint8_t *at = put_begin(out, TCP_HELLO);
    at = put(at, terms->sender, 8);
    at = put(at, terms->receiver, 8);
    memcpy(at, terms->sender_nonce, TCP_NONCE_SIZE);
    seal(out, at + TCP_NONCE_SIZE, TCP_HELLO_SIZE);
}

enum err tcp_hello_decode(const uint8_t bytes[TCP_HELLO_SIZE], struct why *why,
                          struct tcp_terms *terms_out)
{
    struct wire_reader reader;
    enum err err = open_as(TCP_HELLO, bytes, TCP_HELLO_SIZE, why, &reader);
    if (err) {
        return err;
    }
    *terms_out = (struct tcp_terms){.sender = wire_read_u64(&reader)};
    terms_out->receiver = wire_read_u64(&reader);
    take(&reader, terms_out->sender_nonce, TCP_NONCE_SIZE);
    return OK;
}

void tcp_challenge_encode(const struct tcp_terms *terms,
                          const uint8_t proof[DIGEST_SHA256_SIZE],
                          uint8_t out[TCP_CHALLENGE_SIZE])
{
    uint8_t *at = put_begin(out, TCP_CHALLENGE);
    memcpy(at, terms->receiver_nonce, TCP_NONCE_SIZE);
    at += TCP_NONCE_SIZE;
    memcpy(at, proof, DIGEST_SHA256_SIZE);
    seal(out, at + DIGEST_SHA256_SIZE, TCP_CHALLENGE_SIZE);
}

enum err tcp_challenge_decode(const uint8_t bytes[TCP_CHALLENGE_SIZE],
                              struct why *why, struct tcp_terms *terms,
                              uint8_t proof_out[DIGEST_SHA256_SIZE])
{
    struct wire_reader reader;
    enum err err =
        open_as(TCP_CHALLENGE, bytes, TCP_CHALLENGE_SIZE, why, &reader);
    if (!err) {
        take(&reader, terms->receiver_nonce, TCP_NONCE_SIZE);
        take(&reader, proof_out, DIGEST_SHA256_SIZE);
    }
    return err;
}

void tcp_proof_encode(const uint8_t proof[DIGEST_SHA256_SIZE],
                      uint8_t out[TCP_PROOF_SIZE])
{
    uint8_t *at = put_begin(out, TCP_PROOF);
    memcpy(at, proof, DIGEST_SHA256_SIZE);
    seal(out, at + DIGEST_SHA256_SIZE, TCP_PROOF_SIZE);
}

enum err tcp_proof_decode(const uint8_t bytes[TCP_PROOF_SIZE], struct why *why,
                          uint8_t proof_out[DIGEST_SHA256_SIZE])
{
    struct wire_reader reader;
    enum err err = open_as(TCP_PROOF, bytes, TCP_PROOF_SIZE, why, &reader);
    if (!err) {
        take(&reader, proof_out, DIGEST_SHA256_SIZE);
    }
    return err;
}

/* -------- where a pool is -------- */

void tcp_blob_encode(const struct tcp_blob *blob, struct buf *out)
{
    size_t begin = out->size;
    size_t host_size = strlen(blob->host);
    wire_write_u32(out, BLOB_MAGIC);
    wire_write_u16(out, TCP_VERSION);
    wire_write_u64(out, blob->incarnation);
    wire_write_u64(out, blob->pool_size);
    buf_add(out, blob->nonce, TCP_NONCE_SIZE);
    wire_write_u16(out, blob->port);
    wire_write_u16(out, (uint16_t)host_size);
    buf_add(out, blob->host, host_size);
    if (!buf_error(out)) {
        struct span body = span_of(out->data + begin, out->size - begin);
        wire_write_u32(out, digest_crc32c(0, body));
    }
}

static bool is_host(struct span host)
{
    return host.size > 0 && host.size < TCP_HOST_SIZE &&
           memchr(host.data, 0, host.size) == NULL;
}

enum err tcp_blob_decode(struct span bytes, struct why *why,
                         struct tcp_blob *blob_out)
{
    struct wire_reader reader = wire_reader_of(bytes);
    uint32_t magic = wire_read_u32(&reader);
    uint16_t version = wire_read_u16(&reader);
    struct tcp_blob blob = {.incarnation = wire_read_u64(&reader)};
    blob.pool_size = wire_read_u64(&reader);
    struct span nonce = wire_read_span(&reader, TCP_NONCE_SIZE);
    blob.port = wire_read_u16(&reader);
    struct span host = wire_read_span(&reader, wire_read_u16(&reader));
    uint32_t crc = wire_read_u32(&reader);
    if (!wire_reader_is_done(&reader) || magic != BLOB_MAGIC ||
        version != TCP_VERSION ||
        crc != digest_crc32c(0, span_slice(bytes, 0, bytes.size - CRC_SIZE))) {
        return why_say(why, ERR_INVALID, "not the address of a pool");
    }
    if (blob.incarnation == 0 || blob.pool_size == 0 || blob.port == 0 ||
        !is_host(host)) {
        return why_say(why, ERR_INVALID, "the address of a pool without %s",
                       blob.pool_size == 0 ? "size" : "host or port");
    }
    memcpy(blob.nonce, nonce.data, TCP_NONCE_SIZE);
    memcpy(blob.host, host.data, host.size);
    *blob_out = blob;
    return OK;
}
