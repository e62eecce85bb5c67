#pragma once
/* node/model_file: all that comes out of one model file, opened together. */
#include "base/err.h"
#include "config/worker.h"
#include "model/model.h"
#include "node/limits.h"
#include "node/marks.h"
#include "text/chat.h"
#include "text/tokenizer.h"

struct node_model_file {
    struct gguf *gguf;
    struct text_tokenizer *tokenizer;
    struct text_chat *chat; /* NULL: `chat_why` says why not */
    char chat_why[384];
    struct model *model;
    struct node_limits limits;
    struct node_marks marks;
    char name[256]; /* file stem */
    char general_name[256]; /* "" when the file has none */
};
/* `say` is told what is being loaded; may be NULL. Nothing stays open on
 * failure. */
MUST_USE enum err node_model_file_open(const struct config_worker *config,
                                       void (*say)(void *context,
                                                   const char *what),
                                       void *context, struct why *why,
                                       struct node_model_file *file_out);
/* Reads the weights into memory, so that no turn waits for them (design,
 * decision 8). */
void node_model_file_touch(const struct node_model_file *file);
void node_model_file_close(struct node_model_file *file);
