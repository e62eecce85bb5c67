#include "text/split.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "base/check.h"
#include "base/mem.h"
#include "base/utf8.h"

enum { PATTERN_COUNT_MAX = 4 };

/* Unicode White_Space spelled out: the library's own \s counts U+180E too. */
#define WS                                                            \
    "\\t-\\r\\x20\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}" \
    "\\x{2029}\\x{202f}\\x{205f}\\x{3000}"
#define TRAILING "[" WS "]+(?![^" WS "])"
#define GPT2                                              \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" WS \
    "\\p{L}\\p{N}]+|" TRAILING "|[" WS "]+"
#define CASELESS(digits)                                          \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" \
    "\\p{N}" digits "| ?[^" WS "\\p{L}\\p{N}]+[\\r\\n]*|"         \
    "[" WS "]*[\\r\\n]+|" TRAILING "|[" WS "]+"

struct recipe {
    const char *names[4]; /* the first is ours, all are in files */
    const char *patterns[PATTERN_COUNT_MAX];
};

static const struct recipe RECIPES[] = {
    {{"gpt-2", "gpt2"}, {GPT2}},
    {{"llama-bpe", "llama3", "llama-v3"}, {CASELESS("{1,3}")}},
    {{"qwen2", "deepseek-r1-qwen"}, {CASELESS("")}},
    {{"smollm"}, {"\\p{N}", GPT2}},
    {{"default"}, {"[\\p{P}$+<=>^~|]+", GPT2, "\\p{N}+", "[0-9][0-9][0-9]"}},
};

struct text_split {
    const struct recipe *recipe;
    pcre2_general_context *memory;
    pcre2_match_context *limits;
    pcre2_code *codes[PATTERN_COUNT_MAX];
    uint32_t code_count;
};

static void *foreign_new(size_t size, void *context)
{
    (void)context;
    return mem_try_array(1, size);
}

static void foreign_free(void *memory, void *context)
{
    (void)context;
    mem_free(memory);
}

static const struct recipe *find_recipe(struct span name)
{
    for (size_t i = 0; i < sizeof(RECIPES) / sizeof(RECIPES[0]); i++) {
        for (size_t k = 0; k < 4 && RECIPES[i].names[k] != NULL; k++) {
            if (span_equals_string(name, RECIPES[i].names[k])) {
                return &RECIPES[i];
            }
        }
    }
    return NULL;
}

static enum err compile(struct text_split *split)
{
    pcre2_compile_context *options =
        pcre2_compile_context_create(split->memory);
    if (options == NULL) {
        return ERR_NO_MEMORY;
    }
    for (uint32_t i = 0; i < PATTERN_COUNT_MAX; i++) {
        const char *pattern = split->recipe->patterns[i];
        if (pattern == NULL) {
            break;
        }
        int code;
        size_t offset;
        split->codes[i] =
            pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                          PCRE2_UTF | PCRE2_UCP, &code, &offset, options);
        if (split->codes[i] == NULL) {
            break;
        }
        split->code_count++;
        /* Without JIT (some processors) matching is only slower. */
        pcre2_jit_compile(split->codes[i], PCRE2_JIT_COMPLETE);
    }
    pcre2_compile_context_free(options);
    bool is_whole = split->code_count == PATTERN_COUNT_MAX ||
                    split->recipe->patterns[split->code_count] == NULL;
    return is_whole ? OK : ERR_NO_MEMORY;
}

enum err text_split_create(struct span name, struct why *why,
                           struct text_split **split_out)
{
    const struct recipe *recipe =
        find_recipe(name.size == 0 ? span_of_string("default") : name);
    if (recipe == NULL) {
        return why_say(why, ERR_UNSUPPORTED,
                       "key tokenizer.ggml.pre: \"%.*s\" is not supported; we "
                       "have gpt-2, llama-bpe, qwen2, smollm, default",
                       name.size < 64 ? (int)name.size : 64, name.data);
    }
    struct text_split *split = mem_new(sizeof(*split));
    split->recipe = recipe;
    split->memory =
        pcre2_general_context_create(foreign_new, foreign_free, NULL);
    split->limits = pcre2_match_context_create(split->memory);
    if (split->memory == NULL || split->limits == NULL ||
        compile(split) != OK) {
        text_split_destroy(split);
        return why_say(why, ERR_NO_MEMORY, "no memory for pattern \"%s\"",
                       recipe->names[0]);
    }
    /* Ours are linear, so that length is no reason to give up. */
    pcre2_set_match_limit(split->limits, UINT32_MAX);
    *split_out = split;
    return OK;
}

void text_split_destroy(struct text_split *split)
{
    if (split == NULL) {
        return;
    }
    for (uint32_t i = 0; i < PATTERN_COUNT_MAX; i++) {
        pcre2_code_free(split->codes[i]);
    }
    pcre2_match_context_free(split->limits);
    pcre2_general_context_free(split->memory);
    mem_free(split);
}

const char *text_split_name(const struct text_split *split)
{
    return split->recipe->names[0];
}

struct run {
    const struct text_split *split;
    pcre2_match_data *match;
    text_word_fn word;
    void *context;
};

/* The next match at or after `at`, else an empty one at the end. */
static enum err find_match(struct run *run, uint32_t level, struct span text,
                           size_t at, size_t *begin_out, size_t *end_out)
{
    const pcre2_code *code = run->split->codes[level];
    uint32_t options = PCRE2_NO_UTF_CHECK;
    int count = pcre2_match(code, text.data, text.size, at, options, run->match,
                            run->split->limits);
    if (count == PCRE2_ERROR_JIT_STACKLIMIT) {
        count =
            pcre2_match(code, text.data, text.size, at, options | PCRE2_NO_JIT,
                        run->match, run->split->limits);
    }
    if (count == PCRE2_ERROR_NOMATCH) {
        *begin_out = text.size;
        *end_out = text.size;
        return OK;
    }
    if (count < 0) {
        return count == PCRE2_ERROR_NOMEMORY ? ERR_NO_MEMORY : ERR_INTERNAL;
    }
    const size_t *ends = pcre2_get_ovector_pointer(run->match);
    CHECK(ends[1] > ends[0]);
    *begin_out = ends[0];
    *end_out = ends[1];
    return OK;
}

/* Cuts by pattern `level`; matches and gaps go on to the next one. */
static enum err run_level(struct run *run, uint32_t level, struct span text)
{
    if (text.size == 0) {
        return OK;
    }
    if (level == run->split->code_count) {
        return run->word(run->context, text);
    }
    for (size_t at = 0; at < text.size;) {
        size_t begin = text.size;
        size_t end = text.size;
        enum err err = find_match(run, level, text, at, &begin, &end);
        if (err == OK) {
            err = run_level(run, level + 1, span_slice(text, at, begin));
        }
        if (err == OK) {
            err = run_level(run, level + 1, span_slice(text, begin, end));
        }
        if (err != OK) {
            return err;
        }
        at = end;
    }
    return OK;
}

/* How long the text stays valid UTF-8, or invalid, from its front. */
static size_t same_run(struct span text, bool *is_valid_out)
{
    bool is_valid = utf8_size(text) > 0;
    size_t at = 0;
    while (at < text.size) {
        size_t size = utf8_size(span_slice(text, at, text.size));
        if ((size > 0) != is_valid) {
            break;
        }
        at += size > 0 ? size : 1;
    }
    *is_valid_out = is_valid;
    return at;
}

enum err text_split_run(const struct text_split *split, struct span text,
                        text_word_fn word, void *context)
{
    pcre2_match_data *match = pcre2_match_data_create(1, split->memory);
    if (match == NULL) {
        return ERR_NO_MEMORY;
    }
    struct run run = {split, match, word, context};
    enum err err = OK;
    for (size_t at = 0; at < text.size && err == OK;) {
        bool is_valid;
        struct span rest = span_slice(text, at, text.size);
        size_t size = same_run(rest, &is_valid);
        struct span part = span_slice(rest, 0, size);
        err = is_valid ? run_level(&run, 0, part) : word(context, part);
        at += size;
    }
    pcre2_match_data_free(match);
    return err;
}
