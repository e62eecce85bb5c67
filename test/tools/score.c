/* score MODEL [--ref] [--chunk N] [--threads N] [--block N]: teacher forcing.
 *
 * Reads token ids, separated by white space, from stdin; runs them through the
 * CPU body in chunks of N; prints a line for each token but the first, about
 * the logits of the position before it:
 *
 *   position  best token  best logit  given token's logit  standard deviation
 *
 * For test/e2e/teacher.test.mjs, which compares with a peer. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gguf/gguf.h"
#include "model/model.h"

struct settings {
    const char *path;
    bool reference;
    uint32_t chunk;
    uint32_t threads;
    uint32_t block;
};

static void fail(const char *what)
{
    fprintf(stderr, "score: %s\n", what);
    exit(1);
}

static struct settings parse(int argc, char **argv)
{
    struct settings s = {.chunk = 64, .threads = 2, .block = 32};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--ref") == 0) {
            s.reference = true;
        } else if (argv[i][0] != '-') {
            s.path = argv[i];
        } else if (i + 1 < argc) {
            uint32_t value = (uint32_t)strtoul(argv[i + 1], NULL, 10);
            uint32_t *field = strcmp(argv[i], "--chunk") == 0     ? &s.chunk
                              : strcmp(argv[i], "--threads") == 0 ? &s.threads
                              : strcmp(argv[i], "--block") == 0   ? &s.block
                                                                  : NULL;
            if (!field || value == 0) {
                fail("unknown option or zero");
            }
            *field = value;
            i++;
        }
    }
    if (!s.path) {
        fail(
            "usage: score MODEL [--ref] [--chunk N] [--threads N] [--block N]");
    }
    return s;
}

static int32_t *read_tokens(uint32_t *count_out)
{
    uint32_t count = 0;
    uint32_t room = 1024;
    int32_t *tokens = malloc(room * sizeof(*tokens));
    int value;
    while (tokens && scanf("%d", &value) == 1) {
        if (count == room) {
            room *= 2;
            tokens = realloc(tokens, room * sizeof(*tokens));
        }
        if (tokens) {
            tokens[count++] = value;
        }
    }
    if (!tokens || count == 0) {
        fail("no tokens on stdin");
    }
    *count_out = count;
    return tokens;
}

static void print_row(uint32_t position, const float *logits, uint32_t size,
                      int32_t target)
{
    uint32_t best = 0;
    double sum = 0.0;
    double squares = 0.0;
    for (uint32_t i = 0; i < size; i++) {
        best = logits[i] > logits[best] ? i : best;
        sum += (double)logits[i];
        squares += (double)logits[i] * (double)logits[i];
    }
    double mean = sum / size;
    double variance = squares / size - mean * mean;
    printf("%u %u %.6f %.6f %.6f\n", position, best, (double)logits[best],
           (double)logits[target], sqrt(variance > 0.0 ? variance : 0.0));
}

static struct model *open_model(const struct settings *s,
                                const struct gguf *gguf, uint32_t context)
{
    struct why why = {0};
    struct model *model;
    struct model_cpu_options options = {.gguf = gguf,
                                        .tokens_per_block = s->block,
                                        .thread_count = s->threads,
                                        .row_count_max = s->chunk,
                                        .context_max = context,
                                        .reference_ops = s->reference};
    if (model_cpu_create(&options, &why, &model)) {
        fail(why.text);
    }
    return model;
}

/* Pages in reverse order, so that a block table that is not used shows; one
 * table for all life cycles, each with a pool of its own. */
static kv_page_id *make_pools(struct model *model, uint32_t page_count,
                              struct kv_pool_view *pools)
{
    const struct kv_shape *shape = &model->info.shape;
    kv_page_id *pages = malloc(page_count * sizeof(*pages));
    bool is_short = !pages;
    for (uint32_t i = 0; i < shape->life_count; i++) {
        size_t page_bytes = kv_layout_page_bytes(&shape->layouts[i]);
        size_t bytes = (page_bytes * page_count + 63) / 64 * 64;
        pools[i] = (struct kv_pool_view){.base = aligned_alloc(64, bytes),
                                         .page_bytes = page_bytes,
                                         .page_count = page_count,
                                         .layout = shape->layouts[i]};
        is_short |= !pools[i].base;
    }
    if (is_short) {
        fail("no memory for pages");
    }
    for (uint32_t i = 0; i < page_count; i++) {
        pages[i] = (kv_page_id)(page_count - 1 - i);
    }
    model->ops->set_pool(model, pools);
    return pages;
}

static void score(const struct settings *s, struct model *model,
                  const int32_t *tokens, uint32_t count,
                  const kv_page_id *pages)
{
    uint32_t vocab = model->info.vocab_size;
    float *logits = malloc((size_t)s->chunk * vocab * sizeof(*logits));
    for (uint32_t at = 0; logits && at < count; at += s->chunk) {
        uint32_t left = count - at;
        uint32_t size = left < s->chunk ? left : s->chunk;
        struct model_run run = {.tokens = tokens + at,
                                .token_count = size,
                                .position = at,
                                .logit_count = size};
        for (uint32_t i = 0; i < model->info.shape.life_count; i++) {
            run.pages[i] = pages;
        }
        struct model_batch batch = {.runs = &run, .run_count = 1};
        if (model->ops->forward(model, &batch, logits)) {
            fail("forward failed: a token outside the vocabulary?");
        }
        for (uint32_t i = 0; i < size && at + i + 1 < count; i++) {
            print_row(at + i, logits + (size_t)i * vocab, vocab,
                      tokens[at + i + 1]);
        }
    }
    free(logits);
}

int main(int argc, char **argv)
{
    struct settings s = parse(argc, argv);
    struct why why = {0};
    struct gguf *gguf;
    if (gguf_open(s.path, &why, &gguf)) {
        fail(why.text);
    }
    uint32_t count;
    int32_t *tokens = read_tokens(&count);
    struct model *model = open_model(&s, gguf, count);
    struct kv_pool_view pools[KV_LIFE_COUNT_MAX] = {{0}};
    kv_page_id *pages =
        make_pools(model, (count + s.block - 1) / s.block, pools);
    score(&s, model, tokens, count, pages);
    model->ops->destroy(model);
    gguf_close(gguf);
    for (uint32_t i = 0; i < KV_LIFE_COUNT_MAX; i++) {
        free(pools[i].base);
    }
    free(pages);
    free(tokens);
    return 0;
}
