/* disaggregated_params field by field, the two base64 forms, and signatures
 * against the published vectors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "api/handoff.h"
#include "base/digest.h"

static enum err read_text(const char *text, struct why *why,
                          struct api_handoff *handoff)
{
    struct api_json value;
    assert_int_equal(api_scan_value(span_of_string(text), NULL, &value), OK);
    return api_handoff_read(value, why, handoff);
}

/* [serve T19] ids keep all 64 bits. */
static void every_field_is_read(void **state)
{
    struct api_handoff h;
    int64_t rid;
    (void)state;
    assert_int_equal(
        read_text("{\"request_type\":\"generation_only\","
                  "\"disagg_request_id\":4611686018427387905,"
                  "\"ctx_request_id\":77,\"first_gen_tokens\":[310,4],"
                  "\"encoded_opaque_state\":\"b3BhcXVl\",\"ctx_dp_rank\":3,"
                  "\"ctx_info_endpoint\":[\"tcp://10.0.0.1:5000\",\"x\"],"
                  "\"schedule_style\":\"generation_first\","
                  "\"return_prompt_token_ids_b64\":true,\"unknown\":[1],"
                  "\"ctx_usage\":{\"prompt_tokens\":3,\"completion_tokens\":1,"
                  "\"total_tokens\":4,\"prompt_tokens_details\":"
                  "{\"cached_tokens\":2}}}",
                  NULL, &h),
        OK);
    assert_int_equal(h.type, API_REQUEST_GENERATION);
    assert_true(h.disagg_id == (1ll << 62) + 1);
    assert_int_equal(h.first_token_count, 2);
    assert_int_equal(h.first_tokens[0], 310);
    assert_true(span_equals_string(h.opaque, "b3BhcXVl"));
    assert_true(span_equals_string(h.endpoint, "tcp://10.0.0.1:5000"));
    assert_int_equal(h.dp_rank, 3);
    assert_int_equal(h.schedule_style, 1);
    assert_true(h.wants_prompt_base64);
    assert_int_equal(h.ctx_usage.cached_tokens, 2);
    assert_int_equal(api_handoff_rid(&h, &rid), OK);
    assert_int_equal(rid, 77);
}

static int64_t rid_of(const char *text)
{
    struct api_handoff h;
    int64_t rid = -1;
    assert_int_equal(read_text(text, NULL, &h), OK);
    enum err err = api_handoff_rid(&h, &rid);
    assert_true(err == OK || (err == ERR_NOT_FOUND && rid == -1));
    return rid;
}

/* [transfer T30] The context id alone, the other alone, neither; and a retry of
 * the generation half, which brings another disagg id, still finds the KV. */
static void the_context_id_is_what_a_transfer_runs_under(void **state)
{
    (void)state;
    assert_int_equal(rid_of("{\"request_type\":\"generation_only\","
                            "\"ctx_request_id\":77}"),
                     77);
    assert_int_equal(rid_of("{\"request_type\":\"context_only\","
                            "\"disagg_request_id\":5}"),
                     5);
    assert_int_equal(rid_of("{\"request_type\":\"context_only\"}"), -1);
    assert_int_equal(rid_of("{\"request_type\":\"generation_only\","
                            "\"ctx_request_id\":77,\"disagg_request_id\":78}"),
                     77);
    assert_int_equal(rid_of("{\"request_type\":\"generation_only\","
                            "\"ctx_request_id\":77,\"disagg_request_id\":79}"),
                     77);
    /* 0 is an id. */
    assert_int_equal(rid_of("{\"request_type\":\"generation_only\","
                            "\"ctx_request_id\":0,\"disagg_request_id\":79}"),
                     0);
}

static void nulls_are_absent(void **state)
{
    struct api_handoff h;
    int64_t rid;
    (void)state;
    assert_int_equal(read_text("{\"request_type\":\"context_only\","
                               "\"ctx_request_id\":null,\"ctx_usage\":null,"
                               "\"encoded_opaque_state\":null}",
                               NULL, &h),
                     OK);
    assert_false(h.has_ctx_id || h.has_disagg_id || h.has_ctx_usage);
    assert_null(h.opaque.data);
    assert_int_equal(api_handoff_rid(&h, &rid), ERR_NOT_FOUND);
}

static void a_bad_field_is_named(void **state)
{
    static const char *const CASES[][2] = {
        {"{\"request_type\":\"other\"}", "disaggregated_params.request_type"},
        {"{\"disagg_request_id\":1.5}",
         "disaggregated_params.disagg_request_id"},
        {"{\"ctx_request_id\":9223372036854775808}",
         "disaggregated_params.ctx_request_id"},
        {"{\"first_gen_tokens\":[-1]}",
         "disaggregated_params.first_gen_tokens"},
        {"{\"encoded_opaque_state\":\"a\\/b\"}",
         "disaggregated_params.encoded_opaque_state"},
        {"{\"ctx_info_endpoint\":[]}",
         "disaggregated_params.ctx_info_endpoint"},
        {"{\"schedule_style\":2}", "disaggregated_params.schedule_style"},
        {"{\"ctx_usage\":{\"prompt_tokens\":-1}}",
         "disaggregated_params.ctx_usage: prompt_tokens"},
        {"[]", "disaggregated_params: must be an object"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct why why = {""};
        struct api_handoff h;
        assert_int_equal(read_text(CASES[i][0], &why, &h), ERR_INVALID);
        assert_non_null(strstr(why.text, CASES[i][1]));
    }
}

/* Every bit of the state is covered by its checksum or its version. */
static void the_opaque_state_survives_the_round_trip_only(void **state)
{
    struct api_opaque in = {0x123456789abcdef0u, (1ll << 62) + 1, 3, 77, 32, 0,
                            "seal of 16 byte"};
    struct api_opaque back;
    struct buf text;
    (void)state;
    buf_init(&text, 256);
    api_opaque_encode(&in, &text);
    assert_int_equal(api_opaque_decode(buf_span(&text), NULL, &back), OK);
    assert_memory_equal(&in, &back, sizeof(uint64_t) * 2);
    assert_int_equal(back.attempt, 3);
    assert_int_equal(back.prompt_tokens, 77);
    assert_int_equal(back.tokens_per_block, 32);
    assert_memory_equal(back.seal, in.seal, API_SEAL_SIZE);
    for (size_t i = 0; i + 4 < text.size; i++) {
        uint8_t old = text.data[i];
        text.data[i] = old == 'A' ? 'B' : 'A';
        assert_int_not_equal(api_opaque_decode(buf_span(&text), NULL, &back),
                             OK);
        text.data[i] = old;
    }
    assert_int_not_equal(
        api_opaque_decode(span_of_string("b3BhcXVl"), NULL, &back), OK);
    buf_finish(&text);
}

/* Proof: whatever the seal is over, or the key, is changed by one: refused. */
static void the_seal_binds_state_and_prompt(void **state)
{
    static const int32_t ids[] = {5, 6, 7, 8}, others[] = {5, 6, 8, 8};
    struct span key = span_of_string("secret");
    const struct api_sealed sealed = {ids, 3, span_of_string("salt"), ids + 1,
                                      2};
    struct api_opaque opaque = {.incarnation = 1, .rid = 2, .prompt_tokens = 3};
    (void)state;
    api_opaque_seal(key, &sealed, &opaque);
    assert_true(api_opaque_is_sealed(key, &sealed, &opaque));
    assert_false(api_opaque_is_sealed(span_of("", 0), &sealed, &opaque));
    struct api_sealed other = sealed;
    other.ids = others;
    assert_false(api_opaque_is_sealed(key, &other, &opaque));
    other = sealed;
    other.id_count = 4;
    assert_false(api_opaque_is_sealed(key, &other, &opaque));
    other = sealed;
    other.salt = span_of_string("sal");
    assert_false(api_opaque_is_sealed(key, &other, &opaque));
    other = sealed;
    other.first_tokens = others + 1;
    assert_false(api_opaque_is_sealed(key, &other, &opaque));
    struct api_opaque moved = opaque;
    moved.rid = 3;
    assert_false(api_opaque_is_sealed(key, &sealed, &moved));
    moved = opaque;
    moved.incarnation = 3;
    assert_false(api_opaque_is_sealed(key, &sealed, &moved));
    /* A prompt cannot lend its end to the salt. */
    const struct api_sealed shifted = {ids, 2, span_of_string("\7\0\0\0salt"),
                                       ids + 1, 2};
    assert_false(api_opaque_is_sealed(key, &shifted, &opaque));
}

/* Proof: the bytes of a worker that knew no seal are told as such. */
static void the_state_of_an_older_worker_is_named(void **state)
{
    struct why why;
    struct api_opaque back;
    struct buf text;
    uint8_t bytes[37] = {1};
    (void)state;
    buf_init(&text, 256);
    digest_add_base64(&text, span_of(bytes, sizeof(bytes)));
    assert_int_equal(api_opaque_decode(buf_span(&text), &why, &back),
                     ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "version 1"));
    buf_finish(&text);
}

/* [serve T25] the published string is 1, 9038, 2501. */
static void ids_travel_as_base64(void **state)
{
    const int32_t ids[] = {1, 9038, 2501};
    int32_t back[3];
    size_t count;
    struct buf text;
    (void)state;
    buf_init(&text, 256);
    api_ids_encode(ids, 3, &text);
    assert_string_equal(buf_string(&text), "AQAAAE4jAADFCQAA");
    assert_int_equal(
        api_ids_decode(buf_span(&text), 10000, NULL, back, 3, &count), OK);
    assert_int_equal(count, 3);
    assert_memory_equal(ids, back, sizeof(ids));
    assert_int_equal(
        api_ids_decode(buf_span(&text), 9037, NULL, back, 3, &count),
        ERR_INVALID);
    assert_int_equal(
        api_ids_decode(buf_span(&text), 10000, NULL, back, 2, &count),
        ERR_FULL);
    assert_int_equal(
        api_ids_decode(span_of_string("AQA="), 9, NULL, back, 3, &count),
        ERR_INVALID);
    buf_finish(&text);
}

static const char KEY[] = "secret";
static const char ENDPOINT[] = "tcp://10.0.0.1:5000";
static const char OPAQUE[] = "b3BhcXVl";

/* [serve T103] both vectors; any change is noticed. */
static void signatures_match_the_published_vectors(void **state)
{
    struct span key = span_of_string(KEY);
    struct span endpoint = span_of_string(ENDPOINT);
    struct span opaque = span_of_string(OPAQUE);
    struct span none = span_of(NULL, 0);
    char out[80];
    (void)state;
    api_sign(key, none, opaque, out);
    assert_string_equal(out, "sha256=dd0226a7360fb1d422781ed05d4db132774395583e"
                             "9f79091e0113371cae3257");
    api_sign(key, endpoint, opaque, out);
    assert_string_equal(out, "sha256=2c855337a244b082618df980f3ca112bdd1d90f766"
                             "09d813aef90813a9cf64b9");
    struct span header = span_of_string(out);
    assert_true(api_sign_verify(key, endpoint, opaque, header));
    assert_false(api_sign_verify(key, none, opaque, header));
    assert_false(
        api_sign_verify(span_of_string("other"), endpoint, opaque, header));
    assert_false(
        api_sign_verify(key, endpoint, span_of_string("b3BhcXVm"), header));
    assert_false(api_sign_verify(key, endpoint, opaque, none));
    out[20] ^= 1;
    assert_false(api_sign_verify(key, endpoint, opaque, header));
}

static struct api_handoff signed_leg(void)
{
    return (struct api_handoff){
        .type = API_REQUEST_GENERATION,
        .has_ctx_id = true,
        .has_disagg_id = true,
        .ctx_id = 77,
        .disagg_id = 42,
        .endpoint = span_of_string(ENDPOINT),
        .opaque = span_of_string(OPAQUE),
    };
}

static bool is_taken(const struct api_handoff *handoff, const char *header)
{
    return api_sign_leg_verify(span_of_string(KEY), handoff,
                               span_of_string(header));
}

/* [serve T103] our own header covers all that makes a leg what it is: the
 * signature of one is good for no other, nor for an abort. The digests were
 * made by another program over the JSON that the header says. */
static void a_leg_is_signed_whole(void **state)
{
    struct span key = span_of_string(KEY);
    struct api_handoff leg = signed_leg(), other;
    char out[80], abort[80];
    (void)state;
    api_sign_leg(key, &leg, out);
    assert_string_equal(
        out,
        "sha256="
        "a1f7fdbb757e13f91d8f4dca78be4af9110ae9da12dd801a75a9898f10c2a85f");
    assert_true(is_taken(&leg, out));
    const struct api_handoff context = {
        .type = API_REQUEST_CONTEXT,
        .has_disagg_id = true,
        .disagg_id = 42,
        .schedule_style = 1,
    };
    api_sign_leg(key, &context, abort);
    assert_string_equal(
        abort,
        "sha256="
        "94146cfed7ba4fc2db438b0d3b6dfd1526e821cfb8c670c52a4751be1dbe00f2");
    other = leg;
    other.type = API_REQUEST_CONTEXT;
    assert_false(is_taken(&other, out));
    other = leg;
    other.ctx_id = 78;
    assert_false(is_taken(&other, out));
    other = leg;
    other.has_ctx_id = false;
    assert_false(is_taken(&other, out));
    other = leg;
    other.disagg_id = 43;
    assert_false(is_taken(&other, out));
    other = leg;
    other.schedule_style = 1;
    assert_false(is_taken(&other, out));
    other = leg;
    other.endpoint = span_of_string("tcp://10.0.0.1:5001");
    assert_false(is_taken(&other, out));
    other = leg;
    other.opaque = span_of(NULL, 0);
    assert_false(is_taken(&other, out));
    api_sign_abort(key, 42, abort);
    assert_string_equal(
        abort,
        "sha256="
        "c4f5e1fedb0c28f9a8483ad4094451afa9cddc06de71165c5527773ec7dfe39d");
    assert_false(is_taken(&leg, abort));
    assert_false(api_sign_abort_verify(key, 42, span_of_string(out)));
    assert_false(api_sign_abort_verify(key, 43, span_of_string(abort)));
    assert_true(api_sign_abort_verify(key, 42, span_of_string(abort)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_field_is_read),
        cmocka_unit_test(the_context_id_is_what_a_transfer_runs_under),
        cmocka_unit_test(nulls_are_absent),
        cmocka_unit_test(a_bad_field_is_named),
        cmocka_unit_test(the_opaque_state_survives_the_round_trip_only),
        cmocka_unit_test(the_seal_binds_state_and_prompt),
        cmocka_unit_test(the_state_of_an_older_worker_is_named),
        cmocka_unit_test(ids_travel_as_base64),
        cmocka_unit_test(signatures_match_the_published_vectors),
        cmocka_unit_test(a_leg_is_signed_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
