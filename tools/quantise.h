#pragma once
/* tools/quantise: floats to the block formats of GGUF files, for test models
 * and tests of the kernels. Round to nearest after a small search for each
 * scale: the format is what matters here, not the last percent of quality.
 * Pure, any thread. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "q4_k" to enum gguf_type; false: no such name. */
bool quantise_find_type(const char *name, uint32_t *type_out);
uint32_t quantise_block_elements(uint32_t type);
uint32_t quantise_block_bytes(uint32_t type);
/* `count` is a multiple of the type's block elements. */
void quantise_row(uint32_t type, const float *x, size_t count, uint8_t *out);

uint16_t quantise_f16_from(float value); /* round to nearest even */
float quantise_f16_to(uint16_t bits);
