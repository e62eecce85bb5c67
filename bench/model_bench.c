/* The model's three speeds on a GGUF file: decoding one sequence, decoding
 * eight together, a prefill of 512 tokens. The same work, in the same order,
 * as tools/peers/llama_bench.mjs gives its peer. Prints one JSON object.
 *
 * usage: model_bench MODEL [--threads N] [--context N] [--rounds N]
 *                    [--steps N] [--cpu] [--ref] [--tokens 1,2,3 [--count N]]
 * --context: tokens already there when decoding starts.
 * --cpu counts seconds of CPU, not of the wall, divided by the threads: for a
 * machine that others use too.
 * --tokens prints the greedy continuation of these ids instead. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "gguf/gguf.h"
#include "io/clock.h"
#include "model/model.h"

enum {
    PROMPT = 512,
    SEQUENCES = 8,
    BLOCK = 32,
    TOKEN_KINDS = 256,
    ROUNDS_MAX = 64,
    TOKENS_MAX = 256,
};

struct options {
    const char *path;
    uint32_t threads;
    uint32_t context;
    uint32_t rounds;
    uint32_t steps;
    uint32_t count;
    bool is_ref;
    bool is_cpu;
    int32_t tokens[TOKENS_MAX];
    uint32_t token_count;
};

struct bench {
    struct options options;
    struct model *model;
    uint32_t pages_per_sequence;
    kv_page_id *pages; /* (sequence, page) */
    float *logits; /* (sequence, vocab) */
    int32_t prompt[PROMPT];
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, uint32_t count)
{
    qsort(values, count, sizeof(*values), compare);
    return values[count / 2];
}

static void stop_if(enum err err, const char *what)
{
    if (err != OK) {
        fprintf(stderr, "model_bench: %s: %s\n", what, err_name(err));
        exit(1);
    }
}

static void forward(struct bench *b, const struct model_run *runs,
                    uint32_t count)
{
    struct model_batch batch = {.runs = runs, .run_count = count};
    stop_if(b->model->ops->forward(b->model, &batch, b->logits), "forward");
}

/* Seconds since some moment. */
static double now(const struct bench *b)
{
    if (!b->options.is_cpu) {
        return (double)io_clock_now_ns() * 1e-9;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    double whole = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec);
    double rest = (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    return (whole + rest * 1e-6) / b->options.threads;
}

/* One run of `sequence`. */
static struct model_run run_of(struct bench *b, uint32_t sequence,
                               const int32_t *tokens, uint32_t count,
                               uint32_t position)
{
    return (struct model_run){
        .tokens = tokens,
        .token_count = count,
        .position = position,
        .pages = {b->pages + (size_t)sequence * b->pages_per_sequence},
        .logit_count = 1};
}

static const int32_t *tokens_from(struct bench *b, uint32_t start,
                                  uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        b->prompt[i] = (int32_t)((start + 7 * i) % TOKEN_KINDS);
    }
    return b->prompt;
}

static double decode_rate(struct bench *b, uint32_t sequences)
{
    const struct options *o = &b->options;
    for (uint32_t s = 0; s < sequences; s++) {
        struct model_run run =
            run_of(b, s, tokens_from(b, s, o->context), o->context, 0);
        forward(b, &run, 1);
    }
    double begin = now(b);
    for (uint32_t step = 0; step < o->steps; step++) {
        struct model_run runs[SEQUENCES];
        int32_t tokens[SEQUENCES];
        for (uint32_t s = 0; s < sequences; s++) {
            tokens[s] = (int32_t)((step + s) % TOKEN_KINDS);
            runs[s] = run_of(b, s, &tokens[s], 1, o->context + step);
        }
        forward(b, runs, sequences);
    }
    return sequences * o->steps / (now(b) - begin);
}

static double prefill_rate(struct bench *b)
{
    struct model_run run = run_of(b, 0, tokens_from(b, 1, PROMPT), PROMPT, 0);
    double begin = now(b);
    forward(b, &run, 1);
    return PROMPT / (now(b) - begin);
}

static void print_rates(struct bench *b)
{
    double one[ROUNDS_MAX];
    double eight[ROUNDS_MAX];
    double prefill[ROUNDS_MAX];
    prefill_rate(b); /* warm */
    for (uint32_t i = 0; i < b->options.rounds; i++) {
        one[i] = decode_rate(b, 1);
        eight[i] = decode_rate(b, SEQUENCES);
        prefill[i] = prefill_rate(b);
    }
    printf("{\"threads\":%u,\"decode_1\":%.2f,\"decode_8\":%.2f,"
           "\"prefill_512\":%.2f}\n",
           b->options.threads, median(one, b->options.rounds),
           median(eight, b->options.rounds),
           median(prefill, b->options.rounds));
}

static int32_t best_token(const struct bench *b)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < b->model->info.vocab_size; i++) {
        best = b->logits[i] > b->logits[best] ? i : best;
    }
    return (int32_t)best;
}

static void print_tokens(struct bench *b)
{
    const struct options *o = &b->options;
    struct model_run run = run_of(b, 0, o->tokens, o->token_count, 0);
    forward(b, &run, 1);
    for (uint32_t i = 0; i < o->count; i++) {
        int32_t token = best_token(b);
        printf("%s%d", i ? "," : "[", token);
        run = run_of(b, 0, &token, 1, o->token_count + i);
        forward(b, &run, 1);
    }
    printf("]\n");
}

/* Pages of all sequences, one after the other. */
static void give_pool(struct bench *b)
{
    const struct model_info *info = &b->model->info;
    uint32_t count = b->pages_per_sequence * SEQUENCES;
    size_t page_bytes = kv_layout_page_bytes(&info->shape.layouts[0]);
    b->pages = mem_new_array(count, sizeof(*b->pages));
    for (uint32_t i = 0; i < count; i++) {
        b->pages[i] = (kv_page_id)i;
    }
    struct kv_pool_view pool = {.base = mem_try_aligned(64, count * page_bytes),
                                .page_bytes = page_bytes,
                                .page_count = count,
                                .layout = info->shape.layouts[0]};
    stop_if(pool.base ? OK : ERR_NO_MEMORY, "pages");
    memset(pool.base, 0, count * page_bytes);
    b->model->ops->set_pool(b->model, &pool);
    b->logits =
        mem_new_array((size_t)SEQUENCES * info->vocab_size, sizeof(float));
}

static const struct argp_option ARGUMENTS[] = {
    {"threads", 't', "N", 0, "compute threads (1)", 0},
    {"context", 'c', "N", 0, "tokens before decoding (128)", 0},
    {"rounds", 'r', "N", 0, "repetitions, the median counts (3)", 0},
    {"steps", 's', "N", 0, "tokens decoded (24)", 0},
    {"cpu", 'u', 0, 0, "count CPU time", 0},
    {"ref", 'x', 0, 0, "the reference body", 0},
    {"tokens", 'p', "IDS", 0, "continue these", 0},
    {"count", 'n', "N", 0, "by as many (16)", 0},
    {0},
};

static uint32_t number(struct argp_state *state, const char *text,
                       uint32_t limit)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (end == text || *end || value == 0 || value > limit) {
        argp_error(state, "%s is not a number from 1 to %u", text, limit);
    }
    return (uint32_t)value;
}

static void read_tokens(struct options *o, struct argp_state *state,
                        const char *text)
{
    while (*text) {
        char *end;
        long value = strtol(text, &end, 10);
        if (end == text || o->token_count == TOKENS_MAX) {
            argp_error(state, "--tokens: up to %d ids with commas", TOKENS_MAX);
        }
        o->tokens[o->token_count++] = (int32_t)value;
        text = *end == ',' ? end + 1 : end;
    }
}

static error_t parse(int key, char *text, struct argp_state *state)
{
    struct options *o = state->input;
    switch (key) {
    case 't':
        o->threads = number(state, text, 256);
        return 0;
    case 'c':
        o->context = number(state, text, PROMPT);
        return 0;
    case 'r':
        o->rounds = number(state, text, ROUNDS_MAX);
        return 0;
    case 's':
        o->steps = number(state, text, PROMPT);
        return 0;
    case 'n':
        o->count = number(state, text, PROMPT);
        return 0;
    case 'u':
        o->is_cpu = true;
        return 0;
    case 'x':
        o->is_ref = true;
        return 0;
    case 'p':
        read_tokens(o, state, text);
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

int main(int argc, char **argv)
{
    struct bench b = {.options = {.threads = 1,
                                  .context = 128,
                                  .rounds = 3,
                                  .steps = 24,
                                  .count = 16}};
    const struct argp ARGP = {
        ARGUMENTS, parse, "MODEL", "Measures the model on a GGUF file.",
        NULL,      NULL,  NULL};
    if (argp_parse(&ARGP, argc, argv, 0, NULL, &b.options)) {
        return 1;
    }
    struct why why = {0};
    struct gguf *gguf;
    enum err err = gguf_open(b.options.path, &why, &gguf);
    stop_if(err, why.text);
    struct model_cpu_options options = {
        .gguf = gguf,
        .tokens_per_block = BLOCK,
        .thread_count = b.options.threads,
        .row_count_max = PROMPT,
        .context_max = 2 * PROMPT + BLOCK,
        .reference_ops = b.options.is_ref,
    };
    err = model_cpu_create(&options, &why, &b.model);
    stop_if(err, why.text);
    b.pages_per_sequence = options.context_max / BLOCK;
    give_pool(&b);
    if (b.options.token_count) {
        print_tokens(&b);
    } else {
        print_rates(&b);
    }
    b.model->ops->destroy(b.model);
    gguf_close(gguf);
    return 0;
}
