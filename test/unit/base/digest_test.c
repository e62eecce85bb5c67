#include "unit/base/test.h"

#include "base/digest.h"

static char text[4096];

static const char *hex(const uint8_t *bytes, size_t size)
{
    struct buf buf;
    buf_init(&buf, sizeof(text) - 1);
    digest_add_hex(&buf, span_of(bytes, size));
    assert_int_equal(buf_error(&buf), OK);
    strcpy(text, buf_string(&buf));
    buf_finish(&buf);
    return text;
}

/* The FIPS 180 examples "" and "abc". */
static void sha256_meets_published_vectors(void **state)
{
    (void)state;
    uint8_t out[DIGEST_SHA256_SIZE];
    digest_sha256(span_of(NULL, 0), out);
    assert_string_equal(
        hex(out, sizeof(out)),
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    digest_sha256(span_of_string("abc"), out);
    assert_string_equal(
        hex(out, sizeof(out)),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

/* The two payloads of the header for internal requests. [serve T103] */
static void hmac_meets_the_vectors_of_the_auth_header(void **state)
{
    (void)state;
    uint8_t out[DIGEST_SHA256_SIZE];
    struct span key = span_of_string("secret");
    digest_hmac_sha256(
        key,
        span_of_string("{\"ctx_info_endpoint\":\"tcp://10.0.0.1:5000\","
                       "\"encoded_opaque_state\":\"b3BhcXVl\"}"),
        out);
    assert_string_equal(
        hex(out, sizeof(out)),
        "2c855337a244b082618df980f3ca112bdd1d90f76609d813aef90813a9cf64b9");
    digest_hmac_sha256(key,
                       span_of_string("{\"ctx_info_endpoint\":null,"
                                      "\"encoded_opaque_state\":\"b3BhcXVl\"}"),
                       out);
    assert_string_equal(
        hex(out, sizeof(out)),
        "dd0226a7360fb1d422781ed05d4db132774395583e9f79091e0113371cae3257");
}

/* An empty key and empty data are lengths like others. */
static void hmac_takes_nothing(void **state)
{
    (void)state;
    uint8_t out[DIGEST_SHA256_SIZE];
    digest_hmac_sha256(span_of(NULL, 0), span_of(NULL, 0), out);
    assert_string_equal(
        hex(out, sizeof(out)),
        "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void equals_looks_at_every_byte(void **state)
{
    (void)state;
    uint8_t a[32] = {0};
    uint8_t b[32] = {0};
    assert_true(digest_equals(a, b, sizeof(a)));
    b[31] = 1;
    assert_false(digest_equals(a, b, sizeof(a)));
}

static void expect_base64(const char *plain, const char *coded)
{
    struct buf buf;
    buf_init(&buf, 100);
    digest_add_base64(&buf, span_of_string(plain));
    assert_string_equal(buf_string(&buf), coded);
    buf_reset(&buf);
    assert_int_equal(digest_decode_base64(span_of_string(coded), &buf), OK);
    assert_string_equal(buf_string(&buf), plain);
    buf_finish(&buf);
}

/* The examples of RFC 4648, both ways. */
static void base64_meets_the_rfc(void **state)
{
    (void)state;
    expect_base64("", "");
    expect_base64("f", "Zg==");
    expect_base64("fo", "Zm8=");
    expect_base64("foo", "Zm9v");
    expect_base64("foob", "Zm9vYg==");
    expect_base64("fooba", "Zm9vYmE=");
    expect_base64("foobar", "Zm9vYmFy");
    expect_base64("\xfb\xff\xbf", "+/+/");
}

/* Each line is one way to spell it wrongly. */
static void base64_is_strict(void **state)
{
    (void)state;
    static const char *const WRONG[] = {
        "Zg",   "Zg=",  "Z===", "====", "Zg==Zg==", "Zm9v\n", "Zm 9",
        "Zm9-", "Zh==", "Zm9=", "=Zm9", "Zm=v",     "Z",      "Zm9vZ=8=",
    };
    for (size_t i = 0; i < sizeof(WRONG) / sizeof(WRONG[0]); i++) {
        struct buf buf;
        buf_init(&buf, 100);
        assert_int_equal(digest_decode_base64(span_of_string(WRONG[i]), &buf),
                         ERR_INVALID);
        buf_finish(&buf);
    }
}

/* More than the buffer may hold is an answer, not growth. */
static void decoding_respects_the_cap(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 2);
    assert_int_equal(digest_decode_base64(span_of_string("Zm9v"), &buf),
                     ERR_FULL);
    buf_reset(&buf);
    assert_int_equal(digest_decode_hex(span_of_string("010203"), &buf),
                     ERR_FULL);
    buf_finish(&buf);
}

static void hex_goes_both_ways_and_refuses_the_rest(void **state)
{
    (void)state;
    struct buf buf;
    buf_init(&buf, 100);
    assert_int_equal(digest_decode_hex(span_of_string("00fFa5"), &buf), OK);
    assert_string_equal(hex(buf.data, buf.size), "00ffa5");
    assert_int_equal(digest_decode_hex(span_of_string("0"), &buf), ERR_INVALID);
    assert_int_equal(digest_decode_hex(span_of_string("0g"), &buf),
                     ERR_INVALID);
    assert_int_equal(digest_decode_hex(span_of_string("@0"), &buf),
                     ERR_INVALID);
    buf_finish(&buf);
}

/* FIPS 197, appendix C.1, between two other blocks: each is encrypted by itself,
 * in place, over two calls. */
static void aes_meets_the_standard(void **state)
{
    (void)state;
    uint8_t key[DIGEST_AES_BLOCK];
    uint8_t blocks[3 * DIGEST_AES_BLOCK] = {0};
    for (int i = 0; i < DIGEST_AES_BLOCK; i++) {
        key[i] = (uint8_t)i;
        blocks[DIGEST_AES_BLOCK + i] = (uint8_t)(i << 4 | i);
    }
    struct digest_aes aes;
    digest_aes_init(&aes, key);
    digest_aes_encrypt(&aes, blocks, 2);
    digest_aes_encrypt(&aes, blocks, 0);
    digest_aes_encrypt(&aes, blocks + 2 * DIGEST_AES_BLOCK, 1);
    digest_aes_finish(&aes);
    assert_string_equal(hex(blocks + DIGEST_AES_BLOCK, DIGEST_AES_BLOCK),
                        "69c4e0d86a7b0430d8cdb78070b4c55a");
    assert_memory_equal(blocks, blocks + 2 * DIGEST_AES_BLOCK,
                        DIGEST_AES_BLOCK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sha256_meets_published_vectors),
        cmocka_unit_test(hmac_meets_the_vectors_of_the_auth_header),
        cmocka_unit_test(hmac_takes_nothing),
        cmocka_unit_test(aes_meets_the_standard),
        cmocka_unit_test(equals_looks_at_every_byte),
        cmocka_unit_test(base64_meets_the_rfc),
        cmocka_unit_test(base64_is_strict),
        cmocka_unit_test(decoding_respects_the_cap),
        cmocka_unit_test(hex_goes_both_ways_and_refuses_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
