#pragma once
/* text/tokenizer_vocab: the vocabulary behind a tokenizer; private to text. */
#include "text/tokenizer.h"
#include "text/vocab.h"

const struct text_vocab *text_tokenizer_vocab(
    const struct text_tokenizer *tokenizer);
