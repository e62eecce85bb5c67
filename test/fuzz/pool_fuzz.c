/* What a peer says of its pool, and the first tokens it hands over: what
 * decodes encodes to the same bytes, and a pool that is taken differs from ours
 * in its segment and address only. The input is a blob; its first byte decides
 * whether it is completed to one whose key is like ours. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "transfer/aux.h"
#include "transfer/pool_key.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { OUR_SEGMENT = 11, BLOB_HEAD = 28 };
static const uint64_t our_address = 0x7f0011223344;

static void learn(struct pool_key *ours)
{
    uint8_t key[24] = "\x0b\0\0\0\0\0\0\0\0\0\x0c";
    int32_t segment = OUR_SEGMENT;
    memcpy(key + 11, &segment, 4);
    memcpy(key + 15, &our_address, 8);
    CHECK(pool_key_learn(ours, span_of(key, sizeof(key)), segment, our_address,
                         NULL) == OK);
}

static void try_blob(const struct pool_key *ours, struct span bytes)
{
    struct pool_blob blob;
    if (pool_blob_decode(bytes, ours, NULL, &blob)) {
        return;
    }
    CHECK(blob.key.size == ours->size && blob.pool_size > 0);
    struct buf out;
    buf_init(&out, 8192);
    pool_blob_encode(&blob, &out);
    CHECK(span_equals(buf_span(&out), bytes));
    buf_finish(&out);
}

/* The head is the input's, the key ours but for one byte of the input. */
static void try_like(const struct pool_key *ours, struct span bytes)
{
    if (bytes.size < BLOB_HEAD + 2) {
        return;
    }
    uint8_t whole[BLOB_HEAD + POOL_KEY_SIZE_MAX];
    memcpy(whole, bytes.data, BLOB_HEAD);
    memcpy(whole, "BNCX", 4);
    memcpy(whole + BLOB_HEAD, ours->bytes, ours->size);
    memcpy(whole + BLOB_HEAD + ours->segment_at + 4, bytes.data + 12, 8);
    whole[BLOB_HEAD + bytes.data[BLOB_HEAD] % ours->size] ^=
        bytes.data[BLOB_HEAD + 1];
    try_blob(ours, span_of(whole, BLOB_HEAD + ours->size));
}

static void try_aux(struct span bytes)
{
    struct transfer_aux *aux = NULL;
    if (transfer_aux_decode(bytes, NULL, &aux)) {
        CHECK(aux == NULL);
        return;
    }
    struct buf out;
    buf_init(&out, 1 << 20);
    transfer_aux_encode(aux, &out);
    CHECK(span_equals(buf_span(&out), bytes));
    buf_finish(&out);
    mem_free(aux);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct pool_key ours;
    learn(&ours);
    /* At its exact size, so that a read beyond it is seen. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    if (size > 0) {
        memcpy(copy, data, size);
    }
    try_blob(&ours, span_of(copy, size));
    try_like(&ours, span_of(copy, size));
    try_aux(span_of(copy, size));
    free(copy);
    return 0;
}
