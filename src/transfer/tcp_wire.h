#pragma once
/* transfer/tcp_wire: what goes over a data connection of backend_tcp. Pure.
 *
 *   sender                                   receiver
 *   HELLO    both incarnations, nonce  --->
 *            <---  CHALLENGE  nonce, proof that it knows the secret
 *   PROOF    the same of ours          --->
 *   WRITE    head | list | payload     --->  straight into the pool
 *            <---  ACK  of a write's last frame: all there, or refused
 *
 *   head  u32 magic, u16 version, u16 type, u64 write, i64 rid, u32 attempt,
 *         u16 piece_count, u16 flags, u32 payload size
 *   list  (piece_count) u64 target offset, u32 size
 *
 * Little-endian. Zeros fill each message, head and list up to a multiple of 64
 * bytes, the last four of which are the CRC32C of the others: so pages keep
 * their place within a cache line in the kernel's buffers, whose copies are
 * cheaper then. An ACK is a head alone. A frame has at most TCP_PIECES_MAX
 * pieces and TCP_PAYLOAD_MAX bytes; long pieces are cut. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/span.h"
#include "transfer/backend.h"
#include "wire/greeting.h"

enum {
    TCP_VERSION = 1,
    TCP_NONCE_SIZE = WIRE_NONCE_SIZE,
    TCP_HEAD_SIZE = 64,
    TCP_PIECES_MAX = 256,
    TCP_PIECE_SIZE = 12,
    TCP_ALIGNMENT = 64,
    TCP_LIST_SIZE_MAX = TCP_PIECES_MAX * TCP_PIECE_SIZE + TCP_ALIGNMENT,
    TCP_PAYLOAD_MAX = 256 * 1024,
    TCP_HELLO_SIZE = 64,
    TCP_CHALLENGE_SIZE = 128,
    TCP_PROOF_SIZE = 64,
    TCP_HOST_SIZE = 256,
};

enum tcp_type { TCP_WRITE = 1, TCP_ACK, TCP_HELLO, TCP_CHALLENGE, TCP_PROOF };
enum {
    TCP_LAST = 1, /* WRITE: no more frames of this write */
    TCP_REFUSED = 2 /* ACK: some of its bytes were thrown away */
};

struct tcp_head {
    uint16_t type;
    uint64_t write;
    struct transfer_token token;
    uint16_t piece_count;
    uint16_t flags;
    uint32_t payload_size;
};
struct tcp_piece {
    uint64_t offset;
    uint32_t size;
};

void tcp_head_encode(const struct tcp_head *head, uint8_t out[TCP_HEAD_SIZE]);
/* ERR_CORRUPT, ERR_UNSUPPORTED (version), ERR_INVALID (its own limits). */
MUST_USE enum err tcp_head_decode(const uint8_t bytes[TCP_HEAD_SIZE],
                                  struct why *why, struct tcp_head *head_out);

size_t tcp_list_size(uint32_t piece_count);
void tcp_list_encode(const struct tcp_piece *pieces, uint32_t count,
                     uint8_t *out);
/* Pieces lie inside `pool_size`, none is empty, and together they are the
 * head's payload; else ERR_INVALID or ERR_CORRUPT. */
MUST_USE enum err tcp_list_decode(const uint8_t *bytes,
                                  const struct tcp_head *head,
                                  uint64_t pool_size, struct why *why,
                                  struct tcp_piece *pieces_out);

/* -------- who is who -------- */

/* All that a proof covers. */
struct tcp_terms {
    uint64_t sender, receiver; /* incarnations */
    uint8_t sender_nonce[TCP_NONCE_SIZE];
    uint8_t receiver_nonce[TCP_NONCE_SIZE];
};
struct tcp_secret {
    uint8_t bytes[DIGEST_SHA256_SIZE];
};

/* From the key that all instances share, or an empty one, and the nonce in the
 * receiver's address, which only its control connections carry. */
struct tcp_secret tcp_secret_of(struct span key,
                                const uint8_t nonce[TCP_NONCE_SIZE]);
/* The two ends prove different things: nobody's proof serves as his own
 * answer. */
void tcp_prove(const struct tcp_secret *secret, const struct tcp_terms *terms,
               bool is_sender, uint8_t proof_out[DIGEST_SHA256_SIZE]);
bool tcp_is_proof(const struct tcp_secret *secret,
                  const struct tcp_terms *terms, bool is_sender,
                  const uint8_t proof[DIGEST_SHA256_SIZE]);

void tcp_hello_encode(const struct tcp_terms *terms,
                      uint8_t out[TCP_HELLO_SIZE]);
MUST_USE enum err tcp_hello_decode(const uint8_t bytes[TCP_HELLO_SIZE],
                                   struct why *why,
                                   struct tcp_terms *terms_out);
void tcp_challenge_encode(const struct tcp_terms *terms,
                          const uint8_t proof[DIGEST_SHA256_SIZE],
                          uint8_t out[TCP_CHALLENGE_SIZE]);
/* Fills the receiver's nonce of the terms. */
MUST_USE enum err tcp_challenge_decode(const uint8_t bytes[TCP_CHALLENGE_SIZE],
                                       struct why *why, struct tcp_terms *terms,
                                       uint8_t proof_out[DIGEST_SHA256_SIZE]);
void tcp_proof_encode(const uint8_t proof[DIGEST_SHA256_SIZE],
                      uint8_t out[TCP_PROOF_SIZE]);
MUST_USE enum err tcp_proof_decode(const uint8_t bytes[TCP_PROOF_SIZE],
                                   struct why *why,
                                   uint8_t proof_out[DIGEST_SHA256_SIZE]);

/* -------- where a pool is -------- */

struct tcp_blob {
    uint64_t incarnation, pool_size;
    uint16_t port;
    char host[TCP_HOST_SIZE];
    uint8_t nonce[TCP_NONCE_SIZE];
};
void tcp_blob_encode(const struct tcp_blob *blob, struct buf *out);
/* ERR_INVALID: no such thing. */
MUST_USE enum err tcp_blob_decode(struct span bytes, struct why *why,
                                  struct tcp_blob *blob_out);
