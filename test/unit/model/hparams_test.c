/* One key changed at a time: what passes, and what is refused by its name. */
#include "unit/base/test.h"

#include "model/weights.h"
#include "unit/model/fixture.h"

static enum err read(const struct fixture *fixture, uint32_t context_max,
                     struct why *why, struct model_hparams *out)
{
    struct buf file;
    struct gguf *gguf;
    fixture_make(fixture, &file);
    assert_int_equal(gguf_open_bytes(buf_span(&file), why, &gguf), OK);
    enum err error = model_hparams_read(gguf, context_max, why, out);
    gguf_close(gguf);
    buf_finish(&file);
    return error;
}

static struct fixture changed(const char *key, uint32_t count)
{
    struct fixture f = fixture_small("llama", GGUF_F16);
    f.layers = 1;
    f.key = key;
    f.count = count;
    return f;
}

static void expect(const struct fixture *f, enum err error, const char *name)
{
    struct why why = {0};
    struct model_hparams h;
    assert_int_equal(read(f, 512, &why, &h), error);
    if (!strstr(why.text, name)) {
        fail_msg("\"%s\" does not name %s", why.text, name);
    }
}

/* Defaults of what the file leaves out, and what it says. */
static void a_plain_file_reads(void **state)
{
    (void)state;
    struct fixture f = changed(NULL, 0);
    struct why why = {0};
    struct model_hparams h;
    assert_int_equal(read(&f, 512, &why, &h), OK);
    assert_int_equal(h.head_count, 4);
    assert_int_equal(h.kv_head_count, 2);
    assert_int_equal(h.head_dim, 64);
    assert_int_equal(h.rope_dims, 64);
    assert_true(h.rope_scale == 1.0f);
    assert_true(h.attention_scale == 0.125f);
    assert_true(h.epsilon == 1e-5f);
}

static void unknown_architectures_are_refused(void **state)
{
    (void)state;
    struct fixture f = changed(NULL, 0);
    f.architecture = "mamba";
    expect(&f, ERR_UNSUPPORTED, "general.architecture");
    expect(&f, ERR_UNSUPPORTED, "mamba");
}

/* Sizes that are zero, do not divide, are odd or differ. */
static void bad_sizes_are_named(void **state)
{
    (void)state;
    const struct {
        const char *key;
        uint32_t value;
        enum err error;
    } CASES[] = {
        {"llama.block_count", 0, ERR_INVALID},
        {"llama.embedding_length", 0, ERR_INVALID},
        {"llama.feed_forward_length", 1u << 30, ERR_INVALID},
        {"llama.context_length", 0, ERR_INVALID},
        {"llama.attention.head_count", 0, ERR_INVALID},
        {"llama.attention.head_count_kv", 3, ERR_INVALID},
        {"llama.attention.key_length", 63, ERR_UNSUPPORTED},
        {"llama.attention.value_length", 32, ERR_UNSUPPORTED},
        {"llama.rope.dimension_count", 66, ERR_INVALID},
        {"llama.rope.dimension_count", 31, ERR_INVALID},
    };
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct fixture f = changed(CASES[i].key, CASES[i].value);
        expect(&f, CASES[i].error, CASES[i].key);
    }
}

/* Keys that ask for arithmetic we lack. */
static void foreign_arithmetic_is_refused(void **state)
{
    (void)state;
    struct fixture experts = changed("llama.expert_count", 8);
    expect(&experts, ERR_UNSUPPORTED, "llama.expert_count");
    struct fixture softcap = changed("llama.attn_logit_softcapping", 0);
    softcap.number = 50.0f;
    expect(&softcap, ERR_UNSUPPORTED, "llama.attn_logit_softcapping");
    struct fixture scale = changed("llama.logit_scale", 0);
    scale.number = 0.5f;
    expect(&scale, ERR_UNSUPPORTED, "llama.logit_scale");
}

/* Linear divides positions by the factor (4 in the fixture); others are named. */
static void rope_scaling_is_linear_or_refused(void **state)
{
    (void)state;
    struct fixture f = changed("llama.rope.scaling.type", 0);
    f.text = "linear";
    struct why why = {0};
    struct model_hparams h;
    assert_int_equal(read(&f, 512, &why, &h), OK);
    assert_true(h.rope_scale == 0.25f);
    f.text = "none";
    assert_int_equal(read(&f, 512, &why, &h), OK);
    assert_true(h.rope_scale == 1.0f);
    f.text = "yarn";
    expect(&f, ERR_UNSUPPORTED, "llama.rope.scaling.type");
}

/* Of an architecture without windows: one matters only below the longest
 * sequence asked for. */
static void a_window_that_we_lack_is_accepted_while_the_context_fits(
    void **state)
{
    (void)state;
    struct fixture f = fixture_small("qwen2", GGUF_F16);
    f.window = 256;
    struct why why = {0};
    struct model_hparams h;
    assert_int_equal(read(&f, 256, &why, &h), OK);
    assert_int_equal(h.window, 0);
    assert_int_equal(read(&f, 257, &why, &h), ERR_UNSUPPORTED);
    assert_non_null(strstr(why.text, "qwen2.attention.sliding_window"));
}

/* All layers of a Llama file have its window, unless it hides nothing. */
static void llama_has_its_window_everywhere(void **state)
{
    (void)state;
    struct fixture f = changed(NULL, 0);
    struct why why = {0};
    struct model_hparams h;
    f.window = 511;
    assert_int_equal(read(&f, 100, &why, &h), OK);
    assert_int_equal(h.window, 511);
    assert_int_equal(h.window_pattern, 0);
    assert_true(h.local_rope_base == 0.0f);
    f.window = 512;
    assert_int_equal(read(&f, 512, &why, &h), OK);
    assert_int_equal(h.window, 0);
}

/* Without it every logit would be slightly off. */
static void a_missing_epsilon_is_named(void **state)
{
    (void)state;
    struct fixture f = changed(NULL, 0);
    f.skipped = "epsilon";
    expect(&f, ERR_INVALID, "llama.attention.layer_norm_rms_epsilon");
}

/* Gemma 3: what the file leaves out, what it says, and its largest size, whose
 * scale comes from the width. A file without a window is another model. */
static void gemma3_reads(void **state)
{
    (void)state;
    struct fixture f = fixture_small("gemma3", GGUF_F16);
    struct why why = {0};
    struct model_hparams h;
    f.window_pattern = 0;
    assert_int_equal(read(&f, 512, &why, &h), OK);
    assert_int_equal(h.window, 7);
    assert_int_equal(h.window_pattern, 6);
    assert_true(h.rope_base == 160000.0f);
    assert_true(h.local_rope_base == 10000.0f);
    assert_true(h.embedding_scale == 16.0f);
    assert_true(h.attention_scale == 0.125f);
    f.key = "gemma3.rope.freq_base_swa";
    f.number = 500.0f;
    assert_int_equal(read(&f, 512, &why, &h), OK);
    assert_true(h.local_rope_base == 500.0f);
    f = fixture_small("gemma3", GGUF_Q4_0);
    f.layers = 62;
    f.head_dim = 32;
    f.dim = 64;
    f.vocab = 32;
    f.ffn = 32;
    assert_int_equal(read(&f, 512, &why, &h), OK);
    assert_true(h.attention_scale == 0.25f); /* dim / heads = 16 */
    f = fixture_small("gemma3", GGUF_F16);
    f.window = 0;
    expect(&f, ERR_UNSUPPORTED, "gemma3.attention.sliding_window");
    f = fixture_small("gemma3", GGUF_F16);
    f.key = "gemma3.final_logit_softcapping";
    f.number = 30.0f;
    expect(&f, ERR_UNSUPPORTED, "gemma3.final_logit_softcapping");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_file_reads),
        cmocka_unit_test(unknown_architectures_are_refused),
        cmocka_unit_test(bad_sizes_are_named),
        cmocka_unit_test(foreign_arithmetic_is_refused),
        cmocka_unit_test(rope_scaling_is_linear_or_refused),
        cmocka_unit_test(
            a_window_that_we_lack_is_accepted_while_the_context_fits),
        cmocka_unit_test(llama_has_its_window_everywhere),
        cmocka_unit_test(a_missing_epsilon_is_named),
        cmocka_unit_test(gemma3_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
