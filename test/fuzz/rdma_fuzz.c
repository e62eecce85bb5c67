/* The decoder of transfer/rdma_blob on any bytes: no crash, and what is taken
 * lies inside them and keeps the limits. The seal is made right first, or little
 * would get past it; then the bytes as they are. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "transfer/rdma_blob.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool is_true)
{
    if (!is_true) {
        abort();
    }
}

static bool is_inside(struct span part, struct span whole)
{
    return part.data >= whole.data && part.size <= whole.size &&
           part.data - whole.data <= (ptrdiff_t)(whole.size - part.size);
}

static void decode(struct span bytes)
{
    struct why why;
    struct rdma_blob blob;
    struct span secret = span_of_string("key");
    if (rdma_blob_decode(bytes, secret, &why, &blob)) {
        return;
    }
    expect(is_inside(blob.worker, bytes) && is_inside(blob.key, bytes));
    expect(blob.worker.size <= RDMA_ADDRESS_SIZE_MAX);
    expect(blob.key.size <= RDMA_KEY_SIZE_MAX);
    expect(blob.address + blob.pool_size > blob.address);
    struct buf again;
    buf_init(&again, 16384);
    expect(rdma_blob_encode(&blob, secret, &why, &again) == OK);
    expect(again.size == bytes.size &&
           memcmp(again.data, bytes.data, bytes.size) == 0);
    buf_finish(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { SEAL = DIGEST_SHA256_SIZE };
    decode(span_of(data, size));
    if (size <= SEAL) {
        return 0;
    }
    uint8_t *sealed = malloc(size);
    memcpy(sealed, data, size);
    digest_hmac_sha256(span_of_string("key"), span_of(sealed, size - SEAL),
                       sealed + size - SEAL);
    decode(span_of(sealed, size));
    free(sealed);
    return 0;
}
