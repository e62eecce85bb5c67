/* tools/mkgguf: writes a GGUF model with random weights, so that our program
 * and a peer can run the same file. Byte-level BPE with a few merges, ChatML
 * template. The same arguments give the same bytes. */
#include <argp.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/check.h"
#include "base/mem.h"
#include "base/rng.h"
#include "gguf/gguf.h"
#include "quantise.h"

enum { ALIGNMENT = 32, TENSORS_MAX = 8192, HEAD_BYTES_MAX = 64 << 20 };
enum { KEY_U32 = 4, KEY_I32 = 5, KEY_F32 = 6, KEY_BOOL = 7, KEY_STRING = 8 };
enum { KEY_ARRAY = 9, TOKEN_NORMAL = 1, TOKEN_CONTROL = 3, TOKEN_UNUSED = 5 };

struct options {
    const char *path;
    const char *arch;
    uint32_t type;
    uint32_t dim;
    uint32_t layers;
    uint32_t heads;
    uint32_t kv;
    uint32_t ffn;
    uint32_t vocab;
    uint32_t head_dim;
    uint32_t context;
    uint32_t window; /* 0: no key */
    uint32_t pattern; /* 0: no key */
    uint32_t seed;
    float scale;
};

struct tensor {
    char name[64];
    uint32_t type;
    uint32_t rows; /* 0: one dimension */
    uint32_t columns;
    float mean;
    float deviation;
};

struct plan {
    const struct options *options;
    uint32_t tensor_count;
    struct tensor tensors[TENSORS_MAX];
};

static const char CHATML[] =
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

/* ---- keys ---- */

static void add_u32(struct buf *out, uint32_t value)
{
    buf_add(out, &value, sizeof(value));
}

static void add_u64(struct buf *out, uint64_t value)
{
    buf_add(out, &value, sizeof(value));
}

static void add_string(struct buf *out, const char *text)
{
    add_u64(out, strlen(text));
    buf_add_string(out, text);
}

struct head {
    struct buf keys;
    uint64_t key_count;
    const char *arch;
};

static bool is_arch(const struct options *o, const char *name)
{
    return strcmp(o->arch, name) == 0;
}

/* A name that starts with '.' belongs to the architecture. */
static void put_key(struct head *head, const char *name, uint32_t kind)
{
    char full[96];
    snprintf(full, sizeof(full), "%s%s", name[0] == '.' ? head->arch : "",
             name);
    add_string(&head->keys, full);
    add_u32(&head->keys, kind);
    head->key_count++;
}

static void put_u32(struct head *head, const char *name, uint32_t value)
{
    put_key(head, name, KEY_U32);
    add_u32(&head->keys, value);
}

static void put_f32(struct head *head, const char *name, float value)
{
    put_key(head, name, KEY_F32);
    buf_add(&head->keys, &value, sizeof(value));
}

static void put_string(struct head *head, const char *name, const char *text)
{
    put_key(head, name, KEY_STRING);
    add_string(&head->keys, text);
}

static void put_model_keys(struct head *head, const struct options *o)
{
    char name[64];
    snprintf(name, sizeof(name), "random-%s", o->arch);
    put_string(head, "general.architecture", o->arch);
    put_string(head, "general.name", name);
    put_u32(head, "general.alignment", ALIGNMENT);
    put_u32(head, ".context_length", o->context);
    put_u32(head, ".embedding_length", o->dim);
    put_u32(head, ".block_count", o->layers);
    put_u32(head, ".feed_forward_length", o->ffn);
    put_u32(head, ".attention.head_count", o->heads);
    put_u32(head, ".attention.head_count_kv", o->kv);
    put_f32(head, ".attention.layer_norm_rms_epsilon", 1e-5f);
    put_f32(head, ".rope.freq_base", is_arch(o, "gemma3") ? 1e6f : 10000.0f);
    if (o->window) {
        put_u32(head, ".attention.sliding_window", o->window);
    }
    if (o->pattern) {
        put_u32(head, ".attention.sliding_window_pattern", o->pattern);
    }
    put_u32(head, ".vocab_size", o->vocab);
    put_u32(head, ".rope.dimension_count", o->head_dim);
    put_u32(head, ".attention.key_length", o->head_dim);
    put_u32(head, ".attention.value_length", o->head_dim);
}

/* ---- vocabulary: 256 bytes, merges of common letters, four controls ---- */

/* The letter that stands for a byte in byte-level BPE, as UTF-8. */
static void byte_letter(int byte, char *out)
{
    bool is_plain = (byte >= 33 && byte < 127) || (byte >= 161 && byte < 173) ||
                    byte >= 174;
    int code = byte;
    if (!is_plain) {
        code = 256 + (byte < 33 ? byte : byte < 161 ? byte - 94 : 67);
    }
    if (code < 128) {
        snprintf(out, 8, "%c", code);
    } else {
        snprintf(out, 8, "%c%c", 0xc0 | code >> 6, 0x80 | (code & 63));
    }
}

struct vocabulary {
    struct buf tokens;
    struct buf types;
    struct buf merges;
    uint32_t count;
    uint32_t merge_count;
};

static void add_token(struct vocabulary *v, const char *text, uint32_t type)
{
    add_string(&v->tokens, text);
    add_u32(&v->types, type);
    v->count++;
}

static void add_merges(struct vocabulary *v, uint32_t token_count)
{
    static const char LETTERS[] = "etaoinshrdlu ";
    enum { RIGHT_COUNT = sizeof(LETTERS) - 2 };
    for (int pair = 0; LETTERS[pair / RIGHT_COUNT]; pair++) {
        if (v->count >= token_count) {
            return;
        }
        char left[8];
        char right[8];
        char text[32];
        byte_letter((uint8_t)LETTERS[pair / RIGHT_COUNT], left);
        byte_letter((uint8_t)LETTERS[pair % RIGHT_COUNT], right);
        snprintf(text, sizeof(text), "%s%s", left, right);
        add_token(v, text, TOKEN_NORMAL);
        snprintf(text, sizeof(text), "%s %s", left, right);
        add_string(&v->merges, text);
        v->merge_count++;
    }
}

static void fill_vocabulary(struct vocabulary *v, uint32_t token_count)
{
    static const char *const CONTROLS[] = {"<|bos|>", "<|eos|>", "<|im_start|>",
                                           "<|im_end|>"};
    char text[32];
    for (int byte = 0; byte < 256; byte++) {
        byte_letter(byte, text);
        add_token(v, text, TOKEN_NORMAL);
    }
    add_merges(v, token_count - 4);
    for (int i = 0; i < 4; i++) {
        add_token(v, CONTROLS[i], TOKEN_CONTROL);
    }
    while (v->count < token_count) {
        snprintf(text, sizeof(text), "[unused%u]", v->count);
        add_token(v, text, TOKEN_UNUSED);
    }
}

static void put_array(struct head *head, const char *name, uint32_t kind,
                      uint64_t count, struct buf *elements)
{
    put_key(head, name, KEY_ARRAY);
    add_u32(&head->keys, kind);
    add_u64(&head->keys, count);
    CHECK(buf_error(elements) == OK);
    buf_add_span(&head->keys, buf_span(elements));
    buf_finish(elements);
}

static void put_vocabulary(struct head *head, uint32_t token_count)
{
    struct vocabulary v = {.count = 0};
    buf_init(&v.tokens, HEAD_BYTES_MAX);
    buf_init(&v.types, HEAD_BYTES_MAX);
    buf_init(&v.merges, HEAD_BYTES_MAX);
    fill_vocabulary(&v, token_count);
    uint32_t bos = 256 + v.merge_count;
    put_string(head, "tokenizer.ggml.model", "gpt2");
    put_string(head, "tokenizer.ggml.pre", "gpt-2");
    put_array(head, "tokenizer.ggml.tokens", KEY_STRING, v.count, &v.tokens);
    put_array(head, "tokenizer.ggml.token_type", KEY_I32, v.count, &v.types);
    put_array(head, "tokenizer.ggml.merges", KEY_STRING, v.merge_count,
              &v.merges);
    put_u32(head, "tokenizer.ggml.bos_token_id", bos);
    put_u32(head, "tokenizer.ggml.eos_token_id", bos + 1);
    put_key(head, "tokenizer.ggml.add_bos_token", KEY_BOOL);
    buf_add_byte(&head->keys, 1);
    put_string(head, "tokenizer.chat_template", CHATML);
}

/* ---- tensors ---- */

static struct tensor *add_tensor(struct plan *plan, uint32_t layer,
                                 const char *name)
{
    CHECK(plan->tensor_count < TENSORS_MAX);
    struct tensor *t = &plan->tensors[plan->tensor_count++];
    if (layer == UINT32_MAX) {
        snprintf(t->name, sizeof(t->name), "%s", name);
    } else {
        snprintf(t->name, sizeof(t->name), "blk.%u.%s", layer, name);
    }
    return t;
}

/* A width that the type cannot hold falls back to Q8_0, then F16. */
static uint32_t type_for(uint32_t type, uint32_t columns)
{
    if (columns % quantise_block_elements(type) == 0) {
        return type;
    }
    return columns % 32 == 0 ? GGUF_Q8_0 : GGUF_F16;
}

static void add_matrix(struct plan *plan, uint32_t layer, const char *name,
                       uint32_t rows, uint32_t columns, float gain)
{
    struct tensor *t = add_tensor(plan, layer, name);
    t->type = type_for(plan->options->type, columns);
    t->rows = rows;
    t->columns = columns;
    t->deviation = gain * plan->options->scale / sqrtf((float)columns);
}

static void add_vector(struct plan *plan, uint32_t layer, const char *name,
                       uint32_t size, float mean)
{
    struct tensor *t = add_tensor(plan, layer, name);
    t->type = GGUF_F32;
    t->columns = size;
    t->mean = mean;
    t->deviation = 0.1f;
}

static void plan_layer(struct plan *plan, uint32_t layer)
{
    const struct options *o = plan->options;
    uint32_t q = o->heads * o->head_dim;
    uint32_t kv = o->kv * o->head_dim;
    add_vector(plan, layer, "attn_norm.weight", o->dim, 1);
    add_vector(plan, layer, "ffn_norm.weight", o->dim, 1);
    add_matrix(plan, layer, "attn_q.weight", q, o->dim, 1);
    add_matrix(plan, layer, "attn_k.weight", kv, o->dim, 1);
    add_matrix(plan, layer, "attn_v.weight", kv, o->dim, 1);
    add_matrix(plan, layer, "attn_output.weight", o->dim, q, 1);
    add_matrix(plan, layer, "ffn_gate.weight", o->ffn, o->dim, 1);
    add_matrix(plan, layer, "ffn_up.weight", o->ffn, o->dim, 1);
    add_matrix(plan, layer, "ffn_down.weight", o->dim, o->ffn, 1);
    if (is_arch(o, "gemma3")) {
        add_vector(plan, layer, "post_attention_norm.weight", o->dim, 1);
        add_vector(plan, layer, "post_ffw_norm.weight", o->dim, 1);
    }
    if (is_arch(o, "qwen3") || is_arch(o, "gemma3")) {
        add_vector(plan, layer, "attn_q_norm.weight", o->head_dim, 1);
        add_vector(plan, layer, "attn_k_norm.weight", o->head_dim, 1);
    }
    if (is_arch(o, "qwen2")) {
        add_vector(plan, layer, "attn_q.bias", q, 0);
        add_vector(plan, layer, "attn_k.bias", kv, 0);
        add_vector(plan, layer, "attn_v.bias", kv, 0);
    }
}

static void plan_model(struct plan *plan)
{
    const struct options *o = plan->options;
    /* Gemma scales what it looks up, and uses it as output too: large, a token
     * would foretell itself. */
    bool is_gemma = is_arch(o, "gemma3");
    float embedding_gain = is_gemma ? 0.5f : sqrtf((float)o->dim);
    add_matrix(plan, UINT32_MAX, "token_embd.weight", o->vocab, o->dim,
               embedding_gain);
    add_vector(plan, UINT32_MAX, "output_norm.weight", o->dim, 1);
    if (!is_gemma) {
        add_matrix(plan, UINT32_MAX, "output.weight", o->vocab, o->dim, 3);
    }
    for (uint32_t layer = 0; layer < o->layers; layer++) {
        plan_layer(plan, layer);
    }
}

static size_t tensor_row_bytes(const struct tensor *t)
{
    return (size_t)t->columns / quantise_block_elements(t->type) *
           quantise_block_bytes(t->type);
}

static uint64_t tensor_bytes(const struct tensor *t)
{
    return (uint64_t)tensor_row_bytes(t) * (t->rows ? t->rows : 1);
}

static uint64_t aligned(uint64_t size)
{
    return (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* ---- the file ---- */

/* Four uniform numbers summed: near enough to normal, and quick. */
static void draw_row(struct rng *rng, float mean, float deviation,
                     uint32_t count, float *out)
{
    const float STEP = deviation * 1.7320508f / 65536.0f;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t bits = rng_next(rng);
        int32_t sum = (int32_t)((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                (bits >> 32 & 0xffff) + (bits >> 48));
        out[i] = mean + STEP * (float)(sum - 2 * 65535);
    }
}

static void write_all(FILE *file, const void *data, size_t size)
{
    if (size > 0 && fwrite(data, size, 1, file) != 1) {
        fprintf(stderr, "mkgguf: write: %s\n", strerror(errno));
        exit(1);
    }
}

static void write_tensor(FILE *file, struct rng rng, const struct tensor *t)
{
    static const uint8_t ZEROS[ALIGNMENT];
    size_t row_bytes = tensor_row_bytes(t);
    float *x = mem_new_array(t->columns, sizeof(*x));
    uint8_t *row = mem_new(row_bytes);
    for (uint32_t i = 0; i < (t->rows ? t->rows : 1); i++) {
        draw_row(&rng, t->mean, t->deviation, t->columns, x);
        quantise_row(t->type, x, t->columns, row);
        write_all(file, row, row_bytes);
    }
    uint64_t bytes = tensor_bytes(t);
    write_all(file, ZEROS, (size_t)(aligned(bytes) - bytes));
    mem_free(row);
    mem_free(x);
}

static void add_tensor_infos(struct buf *out, const struct plan *plan)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        const struct tensor *t = &plan->tensors[i];
        add_string(out, t->name);
        add_u32(out, t->rows ? 2 : 1);
        add_u64(out, t->columns);
        if (t->rows) {
            add_u64(out, t->rows);
        }
        add_u32(out, t->type);
        add_u64(out, offset);
        offset += aligned(tensor_bytes(t));
    }
}

static void write_head(FILE *file, const struct plan *plan)
{
    const struct options *o = plan->options;
    struct head head = {.arch = o->arch};
    buf_init(&head.keys, HEAD_BYTES_MAX);
    put_model_keys(&head, o);
    put_vocabulary(&head, o->vocab);

    struct buf out;
    buf_init(&out, HEAD_BYTES_MAX);
    buf_add_string(&out, "GGUF");
    add_u32(&out, 3);
    add_u64(&out, plan->tensor_count);
    add_u64(&out, head.key_count);
    buf_add_span(&out, buf_span(&head.keys));
    add_tensor_infos(&out, plan);
    while (out.size % ALIGNMENT && buf_error(&out) == OK) {
        buf_add_byte(&out, 0);
    }
    CHECK(buf_error(&head.keys) == OK);
    CHECK(buf_error(&out) == OK);
    write_all(file, out.data, out.size);
    buf_finish(&out);
    buf_finish(&head.keys);
}

static void write_model(const struct plan *plan)
{
    FILE *file = fopen(plan->options->path, "wb");
    if (!file) {
        fprintf(stderr, "mkgguf: %s: %s\n", plan->options->path,
                strerror(errno));
        exit(1);
    }
    write_head(file, plan);
    struct rng rng = rng_from_seed(plan->options->seed);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        write_tensor(file, rng_child(&rng, i), &plan->tensors[i]);
        bytes += tensor_bytes(&plan->tensors[i]);
    }
    if (fclose(file) != 0) {
        fprintf(stderr, "mkgguf: close: %s\n", strerror(errno));
        exit(1);
    }
    printf("%s %.1f MB, vocab %u\n", plan->options->path, (double)bytes / 1e6,
           plan->options->vocab);
}

/* ---- arguments ---- */

static const struct argp_option ARGUMENTS[] = {
    {"arch", 'a', "NAME", 0, "llama, qwen2, qwen3 or gemma3", 0},
    {"type", 't', "TYPE", 0, "f32 f16 bf16 q8_0 q4_0 ... q6_k", 0},
    {"dim", 'd', "N", 0, "width", 0},
    {"layers", 'l', "N", 0, "layers", 0},
    {"heads", 'h', "N", 0, "query heads", 0},
    {"kv", 'k', "N", 0, "key/value heads", 0},
    {"ffn", 'f', "N", 0, "feed-forward width", 0},
    {"vocab", 'v', "N", 0, "tokens, at least 300", 0},
    {"headdim", 'e', "N", 0, "width of a head (dim / heads)", 0},
    {"ctx", 'c', "N", 0, "context length", 0},
    {"window", 'w', "N", 0, "tokens of a sliding window (none)", 0},
    {"pattern", 'p', "N", 0, "every so many-th layer has none", 0},
    {"seed", 's', "N", 0, "seed", 0},
    {"scale", 'x', "X", 0, "factor on all weights", 0},
    {0},
};

static uint32_t *number_for(struct options *o, int key)
{
    switch (key) {
    case 'd':
        return &o->dim;
    case 'l':
        return &o->layers;
    case 'h':
        return &o->heads;
    case 'k':
        return &o->kv;
    case 'f':
        return &o->ffn;
    case 'v':
        return &o->vocab;
    case 'e':
        return &o->head_dim;
    case 'c':
        return &o->context;
    case 'w':
        return &o->window;
    case 'p':
        return &o->pattern;
    case 's':
        return &o->seed;
    default:
        return NULL;
    }
}

static bool arch_is_known(const char *name)
{
    return !strcmp(name, "llama") || !strcmp(name, "qwen2") ||
           !strcmp(name, "qwen3") || !strcmp(name, "gemma3");
}

static error_t parse_word(struct options *o, int key, char *text,
                          struct argp_state *state)
{
    switch (key) {
    case 'a':
        if (!arch_is_known(text)) {
            argp_error(state, "--arch: %s is unknown", text);
        }
        o->arch = text;
        return 0;
    case 't':
        if (!quantise_find_type(text, &o->type)) {
            argp_error(state, "--type: %s is unknown", text);
        }
        return 0;
    case 'x':
        o->scale = strtof(text, NULL);
        return 0;
    case ARGP_KEY_ARG:
        if (o->path) {
            argp_usage(state);
        }
        o->path = text;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_usage(state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct options *o = state->input;
    uint32_t *number = number_for(o, key);
    if (!number) {
        return parse_word(o, key, text, state);
    }
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end || value > 1u << 24) {
        argp_error(state, "-%c: %s is not a number from 0 to %u", key, text,
                   1u << 24);
    }
    *number = (uint32_t)value;
    return 0;
}

static const char *options_fault(const struct options *o)
{
    if (o->dim == 0 || o->layers == 0 || o->ffn == 0 || o->context == 0) {
        return "dim, layers, ffn and ctx must be positive";
    }
    if (o->heads == 0 || o->kv == 0 || o->heads % o->kv) {
        return "heads must be a multiple of kv";
    }
    if (o->head_dim == 0 || o->head_dim % 2) {
        return "the width of a head must be even and positive";
    }
    if (o->vocab < 300) {
        return "vocab must be at least 300";
    }
    if (is_arch(o, "gemma3") && o->window == 0) {
        return "gemma3 needs a window";
    }
    if (o->layers > TENSORS_MAX / 16) {
        return "too many layers";
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct options o = {.arch = "llama",
                        .type = GGUF_F16,
                        .dim = 64,
                        .layers = 4,
                        .heads = 4,
                        .kv = 2,
                        .ffn = 176,
                        .vocab = 300,
                        .context = 4096,
                        .seed = 1,
                        .scale = 1};
    const struct argp ARGP = {
        ARGUMENTS, parse, "OUT", "Writes a GGUF model with random weights.",
        NULL,      NULL,  NULL};
    if (argp_parse(&ARGP, argc, argv, 0, NULL, &o)) {
        return 1;
    }
    o.head_dim = o.head_dim || !o.heads ? o.head_dim : o.dim / o.heads;
    const char *fault = options_fault(&o);
    if (fault) {
        fprintf(stderr, "mkgguf: %s\n", fault);
        return 1;
    }
    struct plan *plan = mem_new(sizeof(*plan));
    plan->options = &o;
    plan_model(plan);
    write_model(plan);
    mem_free(plan);
    return 0;
}
