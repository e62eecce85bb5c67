#include "node/model_file.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "io/populate.h"
#include "io/thread.h"

/* Without --max-seq; what a longer context needs is better asked for. */
enum { CONTEXT_MAX = 1 << 24 };

static void copy_span(struct span from, char *to, size_t size)
{
    size_t length = from.size < size - 1 ? from.size : size - 1;
    if (length > 0) {
        memcpy(to, from.data, length);
    }
    to[length] = 0;
}

/* "dir/name-00001-of-00003.gguf" -> "name". */
static void set_name(const char *path, char *name, size_t size)
{
    const char *slash = strrchr(path, '/');
    const char *start = slash == NULL ? path : slash + 1;
    struct span stem = span_of_string(start);
    if (stem.size > 5 && strcmp(start + stem.size - 5, ".gguf") == 0) {
        stem.size -= 5;
    }
    if (stem.size > 15 && stem.data[stem.size - 15] == '-' &&
        memcmp(stem.data + stem.size - 9, "-of-", 4) == 0) {
        stem.size -= 15;
    }
    copy_span(stem, name, size);
}

static enum err open_text(const struct config_worker *config, struct why *why,
                          struct node_model_file *file)
{
    struct span general;
    enum err code = gguf_read_string(file->gguf, "general.name", why, &general);
    if (code != OK) {
        return code;
    }
    copy_span(general, file->general_name, sizeof(file->general_name));
    set_name(config->model, file->name, sizeof(file->name));
    code = text_tokenizer_create(file->gguf, why, &file->tokenizer);
    if (code != OK) {
        return code;
    }
    struct why chat_why = {{0}};
    const char *form =
        config->chat_template[0] == 0 ? NULL : config->chat_template;
    code = text_chat_create(file->gguf, file->tokenizer, form, &chat_why,
                            &file->chat);
    snprintf(file->chat_why, sizeof(file->chat_why), "%s", chat_why.text);
    /* A form that was asked for must be there; one that the file lacks only
     * closes the chat endpoint. */
    return code != OK && form != NULL ? why_say(why, code, "%s", chat_why.text)
                                      : OK;
}

/* What the file says, 0: nothing; a longer max_seq_len is refused by the limits. */
static enum err read_context(const struct config_worker *config,
                             const struct gguf *gguf, struct why *why,
                             uint32_t *context_out)
{
    char key[128];
    struct span architecture;
    enum err code =
        gguf_read_string(gguf, "general.architecture", why, &architecture);
    if (code != OK) {
        return code;
    }
    if (architecture.size == 0) {
        return why_say(why, ERR_INVALID, "key general.architecture is missing");
    }
    snprintf(key, sizeof(key), "%.*s.context_length",
             (int)(architecture.size < 64 ? architecture.size : 64),
             (const char *)architecture.data);
    uint32_t length = 0;
    code = gguf_read_u32(gguf, key, 0, why, &length);
    if (code == OK && length > CONTEXT_MAX && config->max_seq == 0) {
        return why_say(why, ERR_UNSUPPORTED,
                       "key %s: %u is longer than %d; choose less with "
                       "max_seq_len",
                       key, length, CONTEXT_MAX);
    }
    bool is_shorter = config->max_seq > 0 && config->max_seq < length;
    *context_out = is_shorter ? config->max_seq : length;
    return code;
}

static enum err say_no_context(const struct gguf *gguf, struct why *why)
{
    struct span architecture = {0};
    IGNORE(gguf_read_string(gguf, "general.architecture", NULL, &architecture));
    return why_say(why, ERR_INVALID, "key %.*s.context_length is missing or 0",
                   (int)(architecture.size < 64 ? architecture.size : 64),
                   (const char *)architecture.data);
}

static enum err open_model(const struct config_worker *config, struct why *why,
                           struct node_model_file *file)
{
    uint32_t context = 0;
    enum err code = read_context(config, file->gguf, why, &context);
    if (code != OK) {
        return code;
    }
    struct model_cpu_options options = {
        .gguf = file->gguf,
        .tokens_per_block = config->tokens_per_block,
        .thread_count =
            config->threads == 0 ? io_thread_cpu_count() : config->threads,
        .row_count_max = node_limits_row_count(config),
        .context_max = context == 0 ? 1 : context,
        .reference_ops = config->reference_ops,
    };
    code = model_cpu_create(&options, why, &file->model);
    /* A model of an unknown kind is refused as that, not for this key. */
    if (code == OK && context == 0) {
        code = say_no_context(file->gguf, why);
    }
    if (code == OK) {
        code = node_limits_of(config, &file->model->info, node_host_memory(),
                              why, &file->limits);
    }
    /* The pool holds less than the file's context: the model's tables need no
     * more than that. The weights stay where they are mapped. */
    if (code == OK && file->limits.max_seq < context) {
        log_warn("worker",
                 "max_seq_len is %u, not the model's %u: the KV pool holds no "
                 "more (`kv_cache_config.max_tokens`, memory)",
                 file->limits.max_seq, context);
        file->model->ops->destroy(file->model);
        file->model = NULL;
        options.context_max = file->limits.max_seq;
        code = model_cpu_create(&options, why, &file->model);
    }
    return code;
}

/* Some of what may go wrong has named the file itself. */
static void name_file(const char *path, struct why *why)
{
    if (why != NULL && strstr(why->text, path) == NULL) {
        IGNORE(why_prefix(why, ERR_INVALID, "%s", path));
    }
}

enum err node_model_file_open(const struct config_worker *config,
                              void (*say)(void *context, const char *what),
                              void *context, struct why *why,
                              struct node_model_file *file_out)
{
    struct node_model_file file = {0};
    enum err code = gguf_open(config->model, why, &file.gguf);
    if (code == OK && say != NULL) {
        say(context, "tokenizer");
    }
    if (code == OK) {
        code = open_text(config, why, &file);
    }
    if (code == OK && say != NULL) {
        say(context, "weights");
    }
    if (code == OK) {
        code = open_model(config, why, &file);
    }
    if (code == OK) {
        node_marks_take(file.gguf, &file.marks);
    }
    if (code != OK) {
        node_model_file_close(&file);
        name_file(config->model, why);
        return code;
    }
    *file_out = file;
    return OK;
}

void node_model_file_touch(const struct node_model_file *file)
{
    for (uint32_t i = 0; i < gguf_tensor_count(file->gguf); i++) {
        if (!io_populate_read(gguf_tensor_at(file->gguf, i)->data)) {
            return; /* an older kernel: use reads them */
        }
    }
}

void node_model_file_close(struct node_model_file *file)
{
    if (file->model != NULL) {
        file->model->ops->destroy(file->model);
    }
    if (file->chat != NULL) {
        text_chat_destroy(file->chat);
    }
    if (file->tokenizer != NULL) {
        text_tokenizer_destroy(file->tokenizer);
    }
    gguf_close(file->gguf);
    *file = (struct node_model_file){0};
}
