#pragma once
/* A model file with a vocabulary and nothing else: token 3 + b is byte b. */
#include <stdlib.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gguf/gguf.h"
#include "text/chat.h"
#include "text/tokenizer.h"

enum {
    MODEL_BOS = 1,
    MODEL_EOS = 2,
    MODEL_IM_START = 259,
    MODEL_IM_END = 260,
    MODEL_VOCAB = 261
};
#define TOKEN_OF(byte) (3 + (uint8_t)(byte))

static inline void model_u32(FILE *file, uint32_t value)
{
    fwrite(&value, 4, 1, file);
}

static inline void model_text(FILE *file, const char *text)
{
    uint64_t size = strlen(text);
    fwrite(&size, 8, 1, file);
    fwrite(text, 1, size, file);
}

static inline void model_array(FILE *file, const char *key, uint32_t type)
{
    uint64_t count = MODEL_VOCAB;
    model_text(file, key);
    model_u32(file, 9);
    model_u32(file, type);
    fwrite(&count, 8, 1, file);
}

static inline void model_token(uint32_t id, char text[32])
{
    static const char *const special[] = {"<unk>", "<s>", "</s>"};
    if (id < 3) {
        strcpy(text, special[id]);
    } else if (id < 259) {
        snprintf(text, 32, "<0x%02X>", id - 3);
    } else {
        strcpy(text, id == MODEL_IM_START ? "<|im_start|>" : "<|im_end|>");
    }
}

static inline void model_write_vocabulary(FILE *file)
{
    char text[32];
    float score = 0;
    model_array(file, "tokenizer.ggml.tokens", 8);
    for (uint32_t id = 0; id < MODEL_VOCAB; id++) {
        model_token(id, text);
        model_text(file, text);
    }
    model_array(file, "tokenizer.ggml.scores", 6);
    for (uint32_t id = 0; id < MODEL_VOCAB; id++) {
        fwrite(&score, 4, 1, file);
    }
    model_array(file, "tokenizer.ggml.token_type", 5);
    for (uint32_t id = 0; id < MODEL_VOCAB; id++) {
        model_u32(file, id == 0 ? 2 : id < 3 || id >= 259 ? 3 : 6);
    }
}

static inline void model_write_u32(FILE *file, const char *key, uint32_t value)
{
    model_text(file, key);
    model_u32(file, 4);
    model_u32(file, value);
}

static inline void model_write_bool(FILE *file, const char *key, uint8_t value)
{
    model_text(file, key);
    model_u32(file, 7);
    fwrite(&value, 1, 1, file);
}

/* A temporary file; its name in `path`. */
static inline void model_write(char path[64])
{
    uint64_t counts[2] = {0, 9};
    strcpy(path, "/tmp/baton-test-XXXXXX");
    FILE *file = fdopen(mkstemp(path), "w");
    fwrite("GGUF\3\0\0\0", 1, 8, file);
    fwrite(counts, 8, 2, file);
    model_text(file, "tokenizer.ggml.model");
    model_u32(file, 8);
    model_text(file, "llama");
    model_write_vocabulary(file);
    model_write_u32(file, "tokenizer.ggml.bos_token_id", MODEL_BOS);
    model_write_u32(file, "tokenizer.ggml.eos_token_id", MODEL_EOS);
    model_write_u32(file, "tokenizer.ggml.unknown_token_id", 0);
    model_write_bool(file, "tokenizer.ggml.add_bos_token", 1);
    model_write_bool(file, "tokenizer.ggml.add_space_prefix", 0);
    fclose(file);
}
