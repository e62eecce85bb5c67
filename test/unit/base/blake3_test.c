#include "unit/base/test.h"

#include "base/digest.h"

/* From the official test vectors: input bytes count 0 to 250 and again, the key
 * is the sentence below. */
struct vector {
    size_t size;
    const char *plain;
    const char *keyed;
};

static const uint8_t KEY[] = "whats the Elvish word for friend";

static const struct vector VECTORS[] = {
    {0, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262",
     "92b2b75604ed3c761f9d6f62392c8a9227ad0ea3f09573e783f1498a4ed60d26"},
    {1, "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213",
     "6d7878dfff2f485635d39013278ae14f1454b8c0a3a2d34bc1ab38228a80c95b"},
    {1023, "10108970eeda3eb932baac1428c7a2163b0e924c9a9e25b35bba72b28f70bd11",
     "c951ecdf03288d0fcc96ee3413563d8a6d3589547f2c2fb36d9786470f1b9d6e"},
    {1024, "42214739f095a406f3fc83deb889744ac00df831c10daa55189b5d121c855af7",
     "75c46f6f3d9eb4f55ecaaee480db732e6c2105546f1e675003687c31719c7ba4"},
    {1025, "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444",
     "357dc55de0c7e382c900fd6e320acc04146be01db6a8ce7210b7189bd664ea69"},
    {2048, "e776b6028c7cd22a4d0ba182a8bf62205d2ef576467e838ed6f2529b85fba24a",
     "879cf1fa2ea0e79126cb1063617a05b6ad9d0b696d0d757cf053439f60a99dd1"},
    {2049, "5f4d72f40d7a5f82b15ca2b2e44b1de3c2ef86c426c95c1af0b6879522563030",
     "9f29700902f7c86e514ddc4df1e3049f258b2472b6dd5267f61bf13983b78dd5"},
    {3073, "7124b49501012f81cc7f11ca069ec9226cecb8a2c850cfe644e327d22d3e1cd3",
     "68dede9bef00ba89e43f31a6825f4cf433389fedae75c04ee9f0cf16a427c95a"},
    {4097, "9b4052b38f1c5fc8b1f9ff7ac7b27cd242487b3d890d15c96a1c25b8aa0fb995",
     "00df940cd36bb9fa7cbbc3556744e0dbc8191401afe70520ba292ee3ca80abbc"},
    {7169, "a003fc7a51754a9b3c7fae0367ab3d782dccf28855a03d435f8cfe74605e7817",
     "ed9b1a922c046fdb3d423ae34e143b05ca1bf28b710432857bf738bcedbfa511"},
};

static uint8_t input[8192];

static void expect_digest(const uint8_t *key, size_t size, const char *hex)
{
    uint8_t out[256];
    size_t out_size = strlen(hex) / 2;
    digest_blake3(key, span_of(input, size), out, out_size);
    struct buf buf;
    buf_init(&buf, 1024);
    digest_add_hex(&buf, span_of(out, out_size));
    assert_string_equal(buf_string(&buf), hex);
    buf_finish(&buf);
}

static int fill_input(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(input); i++) {
        input[i] = (uint8_t)(i % 251);
    }
    return 0;
}

/* One chunk, its borders, and trees that are not full. */
static void digest_meets_official_vectors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(VECTORS) / sizeof(VECTORS[0]); i++) {
        expect_digest(NULL, VECTORS[i].size, VECTORS[i].plain);
        expect_digest(KEY, VECTORS[i].size, VECTORS[i].keyed);
    }
}

/* 131 bytes: two whole blocks of output and a piece. */
static void output_may_have_any_size(void **state)
{
    (void)state;
    static const char LONG[] =
        "d00278ae47eb27b34faecf67b4fe263f82d5412916c1ffd97c8cb7fb814b8444f4c4a2"
        "2b4b399155358a994e52bf255de60035742ec71bd08ac275a1b51cc6bfe332b0ef84b4"
        "09108cda080e6269ed4b3e2c3f7d722aa4cdc98d16deb554e5627be8f955c98e1d5f95"
        "65a9194cad0c4285f93700062d9595adb992ae68ff12800ab67a";
    expect_digest(NULL, 1025, LONG);
    expect_digest(NULL, 1025, "d002");
    expect_digest(NULL, 1025, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digest_meets_official_vectors),
        cmocka_unit_test(output_may_have_any_size),
    };
    return cmocka_run_group_tests(tests, fill_input, NULL);
}
