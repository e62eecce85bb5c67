#include <stdio.h>
#include <string.h>

#include "api/scan.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/rng.h"
#include "cli/commands.h"
#include "cli/default_model.h"
#include "cli/exit.h"
#include "cli/options.h"
#include "node/generate.h"
#include "text/detokenizer.h"

struct generate_args {
    struct config_worker config;
    const char *prompt;
    const char *prompt_ids;
    bool as_json, ignore_end;
    uint32_t max_tokens;
    struct sampler_options sampling;
    bool has_seed;
};

static enum err set_text(void *target, const char *name, const char *value,
                         struct why *why)
{
    struct generate_args *args = target;
    if (strcmp(name, "prompt") == 0) {
        args->prompt = value;
    } else if (strcmp(name, "prompt-ids") == 0) {
        args->prompt_ids = value;
    } else if (strcmp(name, "json") == 0) {
        args->as_json = true;
    } else if (strcmp(name, "ignore-eos") == 0) {
        args->ignore_end = true;
    } else if (strcmp(name, "ops") == 0) {
        args->config.reference_ops = strcmp(value, "ref") == 0;
        bool is_known = args->config.reference_ops || !strcmp(value, "fast");
        return is_known ? OK
                        : why_say(why, ERR_INVALID,
                                  "'%s' is neither fast nor "
                                  "ref",
                                  value);
    } else {
        return cli_copy(value, args->config.model, sizeof(args->config.model),
                        why);
    }
    return OK;
}

static enum err set_number(void *target, const char *name, const char *value,
                           struct why *why)
{
    struct generate_args *args = target;
    struct sampler_options *sampling = &args->sampling;
    double number = 0;
    uint32_t whole = 0;
    enum err code = OK;
    if (strcmp(name, "max-tokens") == 0) {
        return cli_read_u32(value, 1, 1u << 20, why, &args->max_tokens);
    }
    if (strcmp(name, "threads") == 0) {
        return cli_read_u32(value, 1, 1024, why, &args->config.threads);
    }
    if (strcmp(name, "chunk-tokens") == 0) {
        return cli_read_u32(value, 1, 65536, why, &args->config.chunk_tokens);
    }
    if (strcmp(name, "seed") == 0) {
        args->has_seed = true;
        return cli_read_u64(value, why, &sampling->seed);
    }
    if (strcmp(name, "top-k") == 0) {
        code = cli_read_u32(value, 0, INT32_MAX, why, &whole);
        sampling->top_k = code == OK ? (int32_t)whole : sampling->top_k;
        return code;
    }
    code = cli_read_number(value, 0, 1000, why, &number);
    if (code != OK) {
        return code;
    }
    if (strcmp(name, "top-p") == 0) {
        sampling->top_p = (float)number;
    } else {
        sampling->temperature = (float)number;
    }
    return OK;
}

static const struct cli_option OPTIONS[] = {
    {"model", 'm', "FILE", "GGUF model (models/demo.gguf)", set_text},
    {"prompt", 'p', "TEXT", "the prompt, as it is", set_text},
    {"prompt-ids", 0, "JSON", "the prompt as a list of token ids", set_text},
    {"max-tokens", 'n', "N", "longest answer (64)", set_number},
    {"temperature", 0, "X", "0 is greedy (0)", set_number},
    {"top-k", 0, "N", "draw among the best N; 0: all", set_number},
    {"top-p", 0, "X", "draw among the likeliest of this mass (1)", set_number},
    {"seed", 0, "N", "of the draw; random when left out", set_number},
    {"ignore-eos", 0, NULL, "go on after an end token", set_text},
    {"threads", 't', "N", "compute threads (all CPUs)", set_number},
    {"chunk-tokens", 0, "N", "tokens of one forward pass (512)", set_number},
    {"ops", 0, "BODY", "fast or ref", set_text},
    {"json", 0, NULL, "print ids, text and finish reason as one JSON object",
     set_text},
    CLI_LOG_OPTIONS,
    {0},
};

const struct cli_syntax cli_generate_syntax = {
    .command = "baton generate",
    .arguments = "",
    .about = "Completes a prompt in this process. The cluster's answers equal "
             "it, token for token.",
    .options = OPTIONS,
};

struct printer {
    struct text_detokenizer detokenizer;
    struct buf text;
    bool is_live;
};

static void on_token(void *context, int32_t token)
{
    struct printer *printer = context;
    size_t before = printer->text.size;
    text_detokenizer_add(&printer->detokenizer, token, &printer->text);
    if (printer->is_live) {
        fwrite(printer->text.data + before, 1, printer->text.size - before,
               stdout);
        fflush(stdout);
    }
}

static enum err read_ids(const struct generate_args *args,
                         const struct node_model_file *file, struct why *why,
                         int32_t *ids, size_t count_max, size_t *count_out)
{
    if (args->prompt_ids != NULL) {
        struct api_json value;
        struct span text = span_of_string(args->prompt_ids);
        enum err code = api_scan_value(text, why, &value);
        if (code == OK) {
            code = api_read_ids(value, file->model->info.vocab_size - 1, why,
                                ids, count_max, count_out);
        }
        return code == OK ? OK : why_prefix(why, code, "--prompt-ids");
    }
    struct text_encode_options options = {true, true};
    enum err code = text_encode(file->tokenizer, span_of_string(args->prompt),
                                &options, ids, count_max, count_out);
    return code == OK ? OK
                      : why_say(why, ERR_INVALID,
                                "--prompt has more than %zu tokens", count_max);
}

static void add_ids(struct buf *out, const char *key, const int32_t *ids,
                    size_t count)
{
    buf_printf(out, "\"%s\":[", key);
    for (size_t i = 0; i < count; i++) {
        buf_printf(out, "%s%d", i == 0 ? "" : ",", ids[i]);
    }
    buf_add_string(out, "]");
}

static void print_json(const int32_t *prompt, size_t prompt_count,
                       const struct node_generate_result *result,
                       const struct buf *text)
{
    struct buf out;
    buf_init(&out, SIZE_MAX / 4);
    buf_add_byte(&out, '{');
    add_ids(&out, "prompt_token_ids", prompt, prompt_count);
    buf_add_byte(&out, ',');
    add_ids(&out, "token_ids", result->tokens, result->token_count);
    buf_add_string(&out, ",\"text\":");
    buf_add_json_string(&out, buf_span(text));
    buf_printf(&out, ",\"finish_reason\":\"%s\"}\n",
               result->stopped ? "stop" : "length");
    fwrite(out.data, 1, out.size, stdout);
    buf_finish(&out);
}

static enum err run(const struct generate_args *args,
                    const struct node_model_file *file, int32_t *ids,
                    size_t id_count, struct why *why)
{
    struct printer printer = {.is_live = !args->as_json};
    buf_init(&printer.text, SIZE_MAX / 4);
    text_detokenizer_init(&printer.detokenizer, file->tokenizer, false);
    text_detokenizer_prime(&printer.detokenizer, ids, id_count);
    struct node_generate_options options = {
        .file = file,
        .prompt = ids,
        .prompt_count = (uint32_t)id_count,
        .max_tokens = args->max_tokens,
        .sampling = args->sampling,
        .ignore_end = args->ignore_end,
        .on_token = on_token,
        .context = &printer,
    };
    struct node_generate_result result = {0};
    enum err code = node_generate(&options, why, &result);
    if (code == OK && args->as_json) {
        text_detokenizer_flush(&printer.detokenizer, &printer.text);
        print_json(ids, id_count, &result, &printer.text);
    } else if (code == OK) {
        printf("\n");
    }
    mem_free(result.tokens);
    buf_finish(&printer.text);
    return code;
}

static enum err open_and_run(const struct generate_args *args, struct why *why)
{
    struct node_model_file file = {0};
    enum err code = node_model_file_open(&args->config, NULL, NULL, why, &file);
    if (code != OK) {
        return code;
    }
    size_t count_max = file.limits.max_seq;
    int32_t *ids = mem_new_array(count_max, sizeof(*ids));
    size_t count = 0;
    code = read_ids(args, &file, why, ids, count_max, &count);
    if (code == OK) {
        code = run(args, &file, ids, count, why);
    }
    mem_free(ids);
    node_model_file_close(&file);
    return code;
}

int cli_generate(int argc, char **argv)
{
    struct generate_args *args = mem_new(sizeof(*args));
    config_worker_init(&args->config);
    snprintf(args->config.model, sizeof(args->config.model), "%s",
             cli_default_model());
    args->max_tokens = 64;
    args->sampling = sampler_defaults();
    args->sampling.temperature = 0;
    cli_parse(&cli_generate_syntax, argc, argv, args);
    cli_start_log("generate");
    if ((args->prompt == NULL) == (args->prompt_ids == NULL)) {
        fprintf(stderr, "baton generate: give either --prompt or "
                        "--prompt-ids\n");
        mem_free(args);
        return CLI_USAGE;
    }
    if (!args->has_seed) {
        args->sampling.seed = rng_system();
    }
    struct why why = {{0}};
    enum err code = open_and_run(args, &why);
    if (code != OK) {
        fprintf(stderr, "baton generate: %s\n", why.text);
    }
    mem_free(args);
    return cli_exit_of(code);
}
