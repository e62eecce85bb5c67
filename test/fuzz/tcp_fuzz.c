/* The decoders of transfer/tcp_wire on any bytes: no crash, and a list that is
 * taken lies inside the pool. The last four bytes of each message are made
 * right first, or little would get past them. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "transfer/tcp_wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { POOL = 1 << 20 };

static void expect(bool is_true)
{
    if (!is_true) {
        abort();
    }
}

static uint8_t bytes[TCP_HEAD_SIZE + TCP_LIST_SIZE_MAX];

/* `want` bytes of the input, sealed; zeros where there are none. */
static void take(const uint8_t **data, size_t *size, uint8_t *out, size_t want)
{
    size_t have = *size < want ? *size : want;
    memset(out, 0, want);
    memcpy(out, *data, have);
    *data += have;
    *size -= have;
    uint32_t crc = digest_crc32c(0, span_of(out, want - 4));
    memcpy(out + want - 4, &crc, 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct why why;
    struct tcp_blob blob;
    struct tcp_terms terms = {0};
    uint8_t proof[DIGEST_SHA256_SIZE];
    IGNORE(tcp_blob_decode(span_of(data, size), &why, &blob));
    const uint8_t *at = data;
    size_t left = size;
    take(&at, &left, bytes, TCP_HEAD_SIZE);
    IGNORE(tcp_hello_decode(bytes, &why, &terms));
    IGNORE(tcp_proof_decode(bytes, &why, proof));
    struct tcp_head head;
    if (tcp_head_decode(bytes, &why, &head) == OK && head.piece_count > 0) {
        static struct tcp_piece pieces[TCP_PIECES_MAX];
        take(&at, &left, bytes + TCP_HEAD_SIZE,
             tcp_list_size(head.piece_count));
        if (tcp_list_decode(bytes + TCP_HEAD_SIZE, &head, POOL, &why, pieces) ==
            OK) {
            uint64_t total = 0;
            for (int i = 0; i < head.piece_count; i++) {
                expect(pieces[i].offset + pieces[i].size <= POOL);
                total += pieces[i].size;
            }
            expect(total == head.payload_size);
        }
    }
    at = data;
    left = size;
    take(&at, &left, bytes, TCP_CHALLENGE_SIZE);
    IGNORE(tcp_challenge_decode(bytes, &why, &terms, proof));
    return 0;
}
