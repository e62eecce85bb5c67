#pragma once
/* text/utf8: characters in bytes, and the byte alphabet of byte-level BPE;
 * private to text.
 *
 * The alphabet gives each byte a printable character: itself where it is
 * printable Latin-1, else one from U+0100 up, in byte order. Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"

enum { TEXT_UTF8_SIZE_MAX = 4, TEXT_POINT_NONE = -1 };

/* Bytes of the valid character at the front (no surrogates, shortest form),
 * else 0; 0 for an empty text. */
size_t text_utf8_size(struct span text);
/* The code point at the front, which must be valid. */
int32_t text_utf8_point(struct span text);
/* How many bytes a character with this first byte has; 0: none starts so. */
size_t text_utf8_expected(uint8_t first);
/* Whether `byte` may be byte number `at` (1 to 3) after `first`. */
bool text_utf8_continues(uint8_t first, size_t at, uint8_t byte);

/* The character of a byte: writes 1 or 2 bytes, returns how many. */
size_t text_alphabet_encode(uint8_t byte, uint8_t out[2]);
/* The byte of a character, or TEXT_POINT_NONE. */
int32_t text_alphabet_decode(int32_t point);
