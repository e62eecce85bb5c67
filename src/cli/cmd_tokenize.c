#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/default_model.h"
#include "cli/exit.h"
#include "cli/options.h"
#include "gguf/gguf.h"
#include "text/tokenizer.h"

struct tokenize_args {
    const char *model;
    const char *text;
    bool no_special;
};

static enum err set(void *target, const char *name, const char *value,
                    struct why *why)
{
    (void)why;
    struct tokenize_args *args = target;
    if (strcmp(name, "model") == 0) {
        args->model = value;
    } else if (strcmp(name, "text") == 0) {
        args->text = value;
    } else {
        args->no_special = true;
    }
    return OK;
}

static const struct cli_option OPTIONS[] = {
    {"model", 'm', "FILE", "GGUF model (models/demo.gguf)", set},
    {"text", 't', "TEXT", "the text (required)", set},
    {"no-special", 0, NULL, "add no BOS or EOS; read <|tokens|> as letters",
     set},
    {0},
};

const struct cli_syntax cli_tokenize_syntax = {
    .command = "baton tokenize",
    .arguments = "",
    .about = "Prints the token ids of a text as a JSON list.",
    .options = OPTIONS,
};

static void print_ids(const text_token *ids, size_t count)
{
    printf("[");
    for (size_t i = 0; i < count; i++) {
        printf("%s%d", i == 0 ? "" : ",", ids[i]);
    }
    printf("]\n");
}

static enum err encode(const struct tokenize_args *args,
                       const struct gguf *gguf, struct why *why)
{
    struct text_tokenizer *tokenizer = NULL;
    enum err code = text_tokenizer_create(gguf, why, &tokenizer);
    if (code != OK) {
        return code;
    }
    struct span text = span_of_string(args->text);
    struct text_encode_options options = {
        .add_special = !args->no_special,
        .parse_special = !args->no_special,
    };
    size_t capacity = 2 * text.size + 16;
    text_token *ids = mem_new_array(capacity, sizeof(*ids));
    size_t count = 0;
    code = text_encode(tokenizer, text, &options, ids, capacity, &count);
    if (code == OK) {
        print_ids(ids, count);
    } else {
        code =
            why_say(why, code, "the text does not encode: %s", err_name(code));
    }
    mem_free(ids);
    text_tokenizer_destroy(tokenizer);
    return code;
}

int cli_tokenize(int argc, char **argv)
{
    struct tokenize_args args = {.model = cli_default_model()};
    cli_parse(&cli_tokenize_syntax, argc, argv, &args);
    if (args.text == NULL) {
        fprintf(stderr, "baton tokenize: --text TEXT is required\n");
        return CLI_USAGE;
    }
    struct why why = {{0}};
    struct gguf *gguf = NULL;
    enum err code = gguf_open(args.model, &why, &gguf);
    if (code == OK) {
        code = encode(&args, gguf, &why);
    }
    if (code != OK) {
        fprintf(stderr, "baton tokenize: %s\n", why.text);
    }
    gguf_close(gguf);
    return cli_exit_of(code);
}
