#include "transfer/rdma_blob.h"

#include "base/digest.h"
#include "wire/bytes.h"

enum {
    MAGIC = 0x414d4452,
    VERSION = 1,
    SEAL_SIZE = DIGEST_SHA256_SIZE,
    HOST_MEMORY = 0
};

bool rdma_key_is_whole(struct span key)
{
    struct wire_reader reader = wire_reader_of(key);
    uint64_t domains = wire_read_u64(&reader);
    uint8_t kind = wire_read_u8(&reader);
    for (uint64_t left = domains; left != 0; left &= left - 1) {
        wire_read_span(&reader, wire_read_u8(&reader));
    }
    return domains != 0 && kind == HOST_MEMORY && wire_reader_is_done(&reader);
}

static bool is_sealed(struct span body, struct span seal, struct span secret)
{
    uint8_t wanted[SEAL_SIZE];
    digest_hmac_sha256(secret, body, wanted);
    return digest_equals(wanted, seal.data, SEAL_SIZE);
}

/* Both ends of the range are addresses. */
static bool is_place(uint64_t address, uint64_t size)
{
    return address != 0 && size != 0 && size <= RDMA_POOL_SIZE_MAX &&
           address <= UINT64_MAX - size;
}

enum err rdma_blob_encode(const struct rdma_blob *blob, struct span secret,
                          struct why *why, struct buf *out)
{
    if (blob->worker.size > RDMA_ADDRESS_SIZE_MAX ||
        blob->key.size > RDMA_KEY_SIZE_MAX) {
        return why_say(why, ERR_UNSUPPORTED,
                       "an address of %zu and a key of %zu bytes",
                       blob->worker.size, blob->key.size);
    }
    if (!rdma_key_is_whole(blob->key)) {
        return why_say(why, ERR_UNSUPPORTED, "a memory key of another form");
    }
    size_t begin = out->size;
    wire_write_u32(out, MAGIC);
    wire_write_u16(out, VERSION);
    wire_write_u64(out, blob->incarnation);
    wire_write_u64(out, blob->address);
    wire_write_u64(out, blob->pool_size);
    wire_write_u16(out, (uint16_t)blob->worker.size);
    buf_add_span(out, blob->worker);
    wire_write_u16(out, (uint16_t)blob->key.size);
    buf_add_span(out, blob->key);
    if (buf_error(out)) {
        return buf_error(out);
    }
    uint8_t seal[SEAL_SIZE];
    struct span body = span_of(out->data + begin, out->size - begin);
    digest_hmac_sha256(secret, body, seal);
    buf_add(out, seal, SEAL_SIZE);
    return buf_error(out);
}

static enum err check(const struct rdma_blob *blob, struct why *why)
{
    if (blob->incarnation == 0 || !is_place(blob->address, blob->pool_size)) {
        return why_say(why, ERR_INVALID, "the address of no pool");
    }
    if (blob->worker.size == 0 || blob->worker.size > RDMA_ADDRESS_SIZE_MAX) {
        return why_say(why, ERR_INVALID, "a worker's address of %zu bytes",
                       blob->worker.size);
    }
    if (blob->key.size > RDMA_KEY_SIZE_MAX || !rdma_key_is_whole(blob->key)) {
        return why_say(why, ERR_INVALID, "a memory key of another form");
    }
    return OK;
}

enum err rdma_blob_decode(struct span bytes, struct span secret,
                          struct why *why, struct rdma_blob *blob_out)
{
    struct wire_reader reader = wire_reader_of(bytes);
    uint32_t magic = wire_read_u32(&reader);
    uint16_t version = wire_read_u16(&reader);
    struct rdma_blob blob = {.incarnation = wire_read_u64(&reader)};
    blob.address = wire_read_u64(&reader);
    blob.pool_size = wire_read_u64(&reader);
    blob.worker = wire_read_span(&reader, wire_read_u16(&reader));
    blob.key = wire_read_span(&reader, wire_read_u16(&reader));
    struct span seal = wire_read_span(&reader, SEAL_SIZE);
    if (!wire_reader_is_done(&reader) || magic != MAGIC || version != VERSION) {
        return why_say(why, ERR_INVALID, "not the address of a pool");
    }
    if (!is_sealed(span_slice(bytes, 0, bytes.size - SEAL_SIZE), seal,
                   secret)) {
        return why_say(why, ERR_DENIED,
                       "the address of a pool, sealed with another key");
    }
    enum err err = check(&blob, why);
    if (!err) {
        *blob_out = blob;
    }
    return err;
}
