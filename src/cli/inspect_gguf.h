#pragma once
/* cli/inspect_gguf: what a model file says of itself, whether we can serve it or
 * not. To standard output. */
#include <stdbool.h>

#include "gguf/gguf.h"

/* Architecture, sizes, tokenizer, chat template, tensors by type; then every
 * key, and each tensor when asked for. */
void cli_inspect_gguf(const struct gguf *gguf, bool show_tensors);
