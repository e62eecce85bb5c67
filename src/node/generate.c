#include "node/generate.h"

#include "base/mem.h"

enum { END_TOKEN_COUNT_MAX = 16, ALIGNMENT = 64 };

struct run {
    const struct node_generate_options *options;
    struct model *model;
    struct kv_pool_view pools[KV_LIFE_COUNT_MAX];
    kv_page_id *pages; /* one table for all: each pool is this sequence's */
    int32_t *tokens; /* prompt, then output */
    uint32_t count;
    uint32_t limit;
    float *logits;
    struct sampler *sampler;
    int32_t ends[END_TOKEN_COUNT_MAX];
    uint32_t end_count;
};

static enum err check_sizes(const struct node_generate_options *options,
                            struct why *why)
{
    uint32_t max_seq = options->file->limits.max_seq;
    if (options->prompt_count == 0) {
        return why_say(why, ERR_INVALID, "the prompt is empty");
    }
    if (options->prompt_count >= max_seq) {
        return why_say(why, ERR_INVALID,
                       "the prompt has %u tokens; %u with at least one of "
                       "answer is the limit",
                       options->prompt_count, max_seq);
    }
    return sampler_options_check(&options->sampling,
                                 options->file->model->info.vocab_size, why);
}

static void finish(struct run *run)
{
    if (run->sampler != NULL) {
        sampler_destroy(run->sampler);
    }
    for (uint32_t i = 0; i < KV_LIFE_COUNT_MAX; i++) {
        mem_free(run->pools[i].base);
    }
    mem_free(run->pages);
    mem_free(run->logits);
}

/* Whole tables, whatever the window: the run ends before it would pay. */
static enum err make_pages(struct run *run)
{
    const struct kv_shape *shape = &run->model->info.shape;
    uint32_t block = shape->layouts[0].tokens_per_block;
    uint32_t page_count = (run->limit + block - 1) / block;
    run->pages = mem_new_array(page_count, sizeof(*run->pages));
    for (uint32_t i = 0; i < page_count; i++) {
        run->pages[i] = (kv_page_id)i;
    }
    for (uint32_t i = 0; i < shape->life_count; i++) {
        size_t page_bytes = kv_layout_page_bytes(&shape->layouts[i]);
        run->pools[i] = (struct kv_pool_view){
            .base = mem_try_aligned(ALIGNMENT, page_bytes * page_count),
            .page_bytes = page_bytes,
            .page_count = page_count,
            .layout = shape->layouts[i],
        };
        if (run->pools[i].base == NULL) {
            return ERR_NO_MEMORY;
        }
    }
    return OK;
}

static enum err begin(struct run *run, struct why *why)
{
    const struct model_info *info = &run->model->info;
    enum err code = make_pages(run);
    run->tokens = mem_new_array(run->limit, sizeof(*run->tokens));
    run->logits = mem_try_array(info->vocab_size, sizeof(*run->logits));
    if (code != OK || run->logits == NULL) {
        return why_say(why, ERR_NO_MEMORY, "no memory for %u tokens of KV",
                       run->limit);
    }
    for (uint32_t i = 0; i < run->options->prompt_count; i++) {
        run->tokens[i] = run->options->prompt[i];
    }
    run->count = run->options->prompt_count;
    run->sampler = sampler_create(info->vocab_size);
    run->end_count = text_end_tokens(run->options->file->tokenizer, run->ends,
                                     END_TOKEN_COUNT_MAX);
    run->model->ops->set_pool(run->model, run->pools);
    return OK;
}

/* Runs tokens [begin, count); the last one's logits are left in run->logits. */
static enum err forward(struct run *run, uint32_t begin)
{
    uint32_t rows = run->options->file->limits.row_count_max;
    enum err code = OK;
    while (code == OK && begin < run->count) {
        uint32_t left = run->count - begin;
        uint32_t take = left < rows ? left : rows;
        struct model_run part = {
            .tokens = run->tokens + begin,
            .token_count = take,
            .position = begin,
            .logit_count = take == left ? 1 : 0,
        };
        for (uint32_t i = 0; i < run->model->info.shape.life_count; i++) {
            part.pages[i] = run->pages;
        }
        struct model_batch batch = {.runs = &part, .run_count = 1};
        code = run->model->ops->forward(run->model, &batch, run->logits);
        begin += take;
    }
    return code;
}

static int32_t sample(struct run *run)
{
    struct sampler_input input = {
        .logits = run->logits,
        .vocab_size = run->model->info.vocab_size,
        .history = run->tokens,
        .prompt_count = run->options->prompt_count,
        .history_count = run->count,
        .choice = run->options->choice,
        .end_tokens = run->ends,
        .end_count = run->end_count,
        .logprob_count = -1,
    };
    struct sampler_result result;
    sampler_run(run->sampler, &run->options->sampling, &input, &result);
    return result.token;
}

static bool is_end(const struct run *run, int32_t token)
{
    for (uint32_t i = 0; i < run->end_count && !run->options->ignore_end; i++) {
        if (run->ends[i] == token) {
            return true;
        }
    }
    return false;
}

static enum err generate(struct run *run, bool *stopped_out)
{
    uint32_t done = 0;
    while (run->count < run->limit) {
        enum err code = forward(run, done);
        if (code != OK) {
            return code;
        }
        done = run->count;
        int32_t token = sample(run);
        run->tokens[run->count++] = token;
        if (is_end(run, token)) {
            *stopped_out = true;
            return OK;
        }
        if (run->options->on_token != NULL) {
            run->options->on_token(run->options->context, token);
        }
    }
    return OK;
}

enum err node_generate(const struct node_generate_options *options,
                       struct why *why, struct node_generate_result *result_out)
{
    enum err code = check_sizes(options, why);
    if (code != OK) {
        return code;
    }
    uint32_t room = options->file->limits.max_seq - options->prompt_count;
    uint32_t wanted = options->max_tokens < room ? options->max_tokens : room;
    struct run run = {
        .options = options,
        .model = options->file->model,
        .limit = options->prompt_count + wanted,
    };
    bool stopped = false;
    code = begin(&run, why);
    if (code == OK) {
        code = generate(&run, &stopped);
    }
    if (code == OK) {
        uint32_t made = run.count - options->prompt_count;
        *result_out = (struct node_generate_result){
            .tokens = mem_copy(run.tokens + options->prompt_count,
                               made * sizeof(int32_t)),
            .token_count = made,
            .stopped = stopped,
        };
    } else if (why != NULL && why->text[0] == 0) {
        code = why_say(why, code, "forward: %s", err_name(code));
    }
    finish(&run);
    mem_free(run.tokens);
    return code;
}
