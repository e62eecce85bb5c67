/* Files made in memory, each with one fault; and what a sound one gives. */
#include "unit/base/test.h"

#include "model/weights.h"
#include "unit/model/fixture.h"

enum { CONTEXT = 512 };

struct outcome {
    enum err error;
    struct why why;
    struct model_weights weights;
    struct buf file;
    struct gguf *gguf;
};

static struct outcome load(const struct fixture *fixture)
{
    struct outcome o = {0};
    fixture_make(fixture, &o.file);
    assert_int_equal(gguf_open_bytes(buf_span(&o.file), &o.why, &o.gguf), OK);
    o.error = model_weights_load(o.gguf, CONTEXT, &o.why, &o.weights);
    return o;
}

static void end(struct outcome *o)
{
    if (!o->error) {
        model_weights_finish(&o->weights);
    }
    gguf_close(o->gguf);
    buf_finish(&o->file);
}

static void expect_refusal(const struct fixture *fixture, enum err error,
                           const char *name)
{
    struct outcome o = load(fixture);
    assert_int_equal(o.error, error);
    if (!strstr(o.why.text, name)) {
        fail_msg("\"%s\" does not name %s", o.why.text, name);
    }
    end(&o);
}

static bool is_inside(const struct outcome *o, const void *at)
{
    const uint8_t *byte = at;
    return byte >= o->file.data && byte < o->file.data + o->file.size;
}

/* Every pointer lies within the bytes of the file: nothing was copied. */
static void tensors_stay_where_the_file_is(void **state)
{
    (void)state;
    struct fixture f = fixture_small("qwen3", GGUF_Q4_K);
    struct outcome o = load(&f);
    assert_int_equal(o.error, OK);
    const struct model_layer *l = &o.weights.layers[1];
    assert_true(is_inside(&o, o.weights.embedding.data));
    assert_true(is_inside(&o, o.weights.output.data));
    assert_true(is_inside(&o, o.weights.output_norm));
    assert_true(is_inside(&o, l->down.data));
    assert_true(is_inside(&o, l->k_norm));
    assert_int_equal(l->down.type, GGUF_Q4_K);
    assert_int_equal(l->k.rows, 128);
    assert_int_equal(l->k.columns, 256);
    assert_null(l->q_bias);
    end(&o);
}

/* Without output.weight the embedding is used. */
static void a_tied_output_is_the_embedding(void **state)
{
    (void)state;
    struct fixture f = fixture_small("llama", GGUF_F16);
    f.is_tied = true;
    struct outcome o = load(&f);
    assert_int_equal(o.error, OK);
    assert_ptr_equal(o.weights.output.data, o.weights.embedding.data);
    assert_int_equal(o.weights.hparams.vocab_size, f.vocab);
    end(&o);
}

/* Biases are found where the file has them, whatever the architecture. */
static void biases_are_found(void **state)
{
    (void)state;
    struct fixture f = fixture_small("llama", GGUF_F16);
    f.has_biases = true;
    struct outcome o = load(&f);
    assert_int_equal(o.error, OK);
    assert_true(is_inside(&o, o.weights.layers[0].q_bias));
    assert_true(is_inside(&o, o.weights.layers[1].v_bias));
    assert_null(o.weights.layers[0].o_bias);
    end(&o);
}

/* Each tensor that must be there is missed by name. */
static void missing_tensors_are_named(void **state)
{
    (void)state;
    const char *const NAMES[] = {
        "token_embd.weight",        "output_norm.weight",
        "blk.0.attn_norm.weight",   "blk.1.attn_q.weight",
        "blk.1.attn_k.weight",      "blk.0.attn_v.weight",
        "blk.0.attn_output.weight", "blk.1.ffn_norm.weight",
        "blk.1.ffn_gate.weight",    "blk.0.ffn_up.weight",
        "blk.1.ffn_down.weight",    "blk.1.attn_q_norm.weight",
        "blk.0.attn_k_norm.weight"};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        struct fixture f = fixture_small("qwen3", GGUF_Q8_0);
        f.skipped = NAMES[i];
        expect_refusal(&f, ERR_INVALID, NAMES[i]);
    }
}

/* A column too many is refused, matrix or vector, by name. */
static void wrong_shapes_are_named(void **state)
{
    (void)state;
    const char *const NAMES[] = {"token_embd.weight",  "output.weight",
                                 "output_norm.weight", "blk.1.attn_k.weight",
                                 "blk.0.attn_q.bias",  "blk.1.ffn_norm.weight"};
    for (size_t i = 0; i < sizeof(NAMES) / sizeof(NAMES[0]); i++) {
        struct fixture f = fixture_small("qwen2", GGUF_Q8_0);
        f.bent = NAMES[i];
        expect_refusal(&f, ERR_INVALID, NAMES[i]);
    }
}

/* A tensor we would leave out: post-norms, experts, head norms in llama. */
static void tensors_we_would_not_use_are_refused(void **state)
{
    (void)state;
    struct fixture f = fixture_small("llama", GGUF_F16);
    f.extra = "blk.0.post_attention_norm.weight";
    expect_refusal(&f, ERR_UNSUPPORTED, "blk.0.post_attention_norm.weight");
    struct fixture g = fixture_small("llama", GGUF_F16);
    g.has_head_norms = true;
    expect_refusal(&g, ERR_UNSUPPORTED, "attn_q_norm.weight");
}

/* A factor of zero or below would divide by zero. */
static void factors_must_be_positive(void **state)
{
    (void)state;
    struct fixture f = fixture_small("llama", GGUF_F16);
    f.has_factors = true;
    struct outcome o = load(&f);
    assert_int_equal(o.error, OK);
    float *factors = (float *)(uintptr_t)o.weights.rope_factors;
    factors[3] = 0.0f;
    model_weights_finish(&o.weights);
    o.error = model_weights_load(o.gguf, CONTEXT, &o.why, &o.weights);
    assert_int_equal(o.error, ERR_INVALID);
    assert_non_null(strstr(o.why.text, "rope_freqs.weight"));
    end(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tensors_stay_where_the_file_is),
        cmocka_unit_test(a_tied_output_is_the_embedding),
        cmocka_unit_test(biases_are_found),
        cmocka_unit_test(missing_tensors_are_named),
        cmocka_unit_test(wrong_shapes_are_named),
        cmocka_unit_test(tensors_we_would_not_use_are_refused),
        cmocka_unit_test(factors_must_be_positive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
