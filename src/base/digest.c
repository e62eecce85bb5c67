#include "base/digest.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdatomic.h>

#include "base/check.h"

static const uint8_t NOTHING[1];

/* libcrypto wants a pointer even where there is nothing to read. */
static const uint8_t *bytes_of(struct span span)
{
    return span.size == 0 ? NOTHING : span.data;
}

/* Looking an algorithm up by name costs libcrypto as much as a few blocks, so
 * it is done once and kept; two threads that come first keep one answer. */
static const EVP_MD *sha256(void)
{
    static _Atomic(EVP_MD *) found;
    EVP_MD *md = atomic_load_explicit(&found, memory_order_acquire);
    if (md != NULL) {
        return md;
    }
    md = EVP_MD_fetch(NULL, "SHA256", NULL);
    CHECK(md != NULL);
    EVP_MD *first = NULL;
    if (atomic_compare_exchange_strong(&found, &first, md)) {
        return md;
    }
    EVP_MD_free(md);
    return first;
}

void digest_sha256(struct span data, uint8_t out[DIGEST_SHA256_SIZE])
{
    unsigned size = 0;
    int is_done =
        EVP_Digest(bytes_of(data), data.size, out, &size, sha256(), NULL);
    CHECK(is_done == 1);
    CHECK(size == DIGEST_SHA256_SIZE);
}

void digest_hmac_sha256(struct span key, struct span data,
                        uint8_t out[DIGEST_SHA256_SIZE])
{
    CHECK(key.size <= INT32_MAX);
    unsigned size = 0;
    const uint8_t *done = HMAC(EVP_sha256(), bytes_of(key), (int)key.size,
                               bytes_of(data), data.size, out, &size);
    CHECK(done != NULL);
    CHECK(size == DIGEST_SHA256_SIZE);
}

void digest_aes_init(struct digest_aes *aes,
                     const uint8_t key[DIGEST_AES_BLOCK])
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    CHECK(context != NULL);
    int is_done =
        EVP_EncryptInit_ex(context, EVP_aes_128_ecb(), NULL, key, NULL);
    CHECK(is_done == 1);
    is_done = EVP_CIPHER_CTX_set_padding(context, 0);
    CHECK(is_done == 1);
    aes->context = context;
}

void digest_aes_finish(struct digest_aes *aes)
{
    EVP_CIPHER_CTX_free(aes->context);
    aes->context = NULL;
}

void digest_aes_encrypt(struct digest_aes *aes, uint8_t *blocks,
                        size_t block_count)
{
    CHECK(block_count <= INT32_MAX / DIGEST_AES_BLOCK);
    if (block_count == 0) {
        return;
    }
    int in_size = (int)block_count * DIGEST_AES_BLOCK;
    int out_size = 0;
    int is_done =
        EVP_EncryptUpdate(aes->context, blocks, &out_size, blocks, in_size);
    CHECK(is_done == 1);
    CHECK(out_size == in_size);
}

bool digest_equals(const uint8_t *a, const uint8_t *b, size_t size)
{
    return CRYPTO_memcmp(a, b, size) == 0;
}

void digest_add_hex(struct buf *buf, struct span data)
{
    static const char DIGITS[] = "0123456789abcdef";
    uint8_t *at = buf_reserve(buf, data.size * 2);
    if (at == NULL) {
        return;
    }
    for (size_t i = 0; i < data.size; i++) {
        at[2 * i] = (uint8_t)DIGITS[data.data[i] >> 4];
        at[2 * i + 1] = (uint8_t)DIGITS[data.data[i] & 15];
    }
    buf_commit(buf, data.size * 2);
}

static int hex_value(uint8_t byte)
{
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    uint8_t lower = byte | 0x20;
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

enum err digest_decode_hex(struct span text, struct buf *out)
{
    if (text.size % 2 != 0) {
        return ERR_INVALID;
    }
    uint8_t *at = buf_reserve(out, text.size / 2);
    if (at == NULL) {
        return buf_error(out);
    }
    for (size_t i = 0; i < text.size; i += 2) {
        int high = hex_value(text.data[i]);
        int low = hex_value(text.data[i + 1]);
        if (high < 0 || low < 0) {
            return ERR_INVALID;
        }
        at[i / 2] = (uint8_t)(high << 4 | low);
    }
    buf_commit(out, text.size / 2);
    return OK;
}

static const char BASE64[] =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* Three bytes, or the last one or two, to four characters. */
static void encode_group(const uint8_t *from, size_t size, uint8_t *to)
{
    uint32_t bits = (uint32_t)from[0] << 16;
    bits |= size > 1 ? (uint32_t)from[1] << 8 : 0;
    bits |= size > 2 ? from[2] : 0;
    to[0] = (uint8_t)BASE64[bits >> 18];
    to[1] = (uint8_t)BASE64[bits >> 12 & 63];
    to[2] = size > 1 ? (uint8_t)BASE64[bits >> 6 & 63] : '=';
    to[3] = size > 2 ? (uint8_t)BASE64[bits & 63] : '=';
}

void digest_add_base64(struct buf *buf, struct span data)
{
    size_t size = (data.size + 2) / 3 * 4;
    uint8_t *at = buf_reserve(buf, size);
    if (at == NULL) {
        return;
    }
    for (size_t i = 0; i < data.size; i += 3) {
        size_t left = data.size - i;
        encode_group(data.data + i, left < 3 ? left : 3, at + i / 3 * 4);
    }
    buf_commit(buf, size);
}

static int base64_value(uint8_t byte)
{
    if (byte >= 'A' && byte <= 'Z') {
        return byte - 'A';
    }
    if (byte >= 'a' && byte <= 'z') {
        return byte - 'a' + 26;
    }
    if (byte >= '0' && byte <= '9') {
        return byte - '0' + 52;
    }
    return byte == '+' ? 62 : byte == '/' ? 63 : -1;
}

/* Four characters to `size` bytes. False also when bits behind the last byte
 * are set: one content has one spelling. */
static bool decode_group(const uint8_t *from, size_t size, uint8_t *to)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; i++) {
        int value = i <= size ? base64_value(from[i]) : 0;
        if (value < 0 || (i > size && from[i] != '=')) {
            return false;
        }
        bits = bits << 6 | (uint32_t)value;
    }
    for (size_t i = 0; i < size; i++) {
        to[i] = (uint8_t)(bits >> (16 - 8 * i));
    }
    return size == 3 || (bits & (0xffffffu >> (8 * size))) == 0;
}

enum err digest_decode_base64(struct span text, struct buf *out)
{
    if (text.size % 4 != 0) {
        return ERR_INVALID;
    }
    if (text.size == 0) {
        return OK;
    }
    size_t padding = text.data[text.size - 1] != '='   ? 0
                     : text.data[text.size - 2] != '=' ? 1
                                                       : 2;
    size_t size = text.size / 4 * 3 - padding;
    uint8_t *at = buf_reserve(out, size);
    if (at == NULL) {
        return buf_error(out);
    }
    for (size_t i = 0; i < text.size / 4; i++) {
        size_t left = size - i * 3;
        if (!decode_group(text.data + i * 4, left < 3 ? left : 3, at + i * 3)) {
            return ERR_INVALID;
        }
    }
    buf_commit(out, size);
    return OK;
}
