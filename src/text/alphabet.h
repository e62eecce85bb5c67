#pragma once
/* text/alphabet: the byte alphabet of byte-level BPE; private to text.
 *
 * It gives each byte a printable character: itself where it is printable
 * Latin-1, else one from U+0100 up, in byte order. Pure. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TEXT_POINT_NONE = -1 };

/* The character of a byte: writes 1 or 2 bytes, returns how many. */
size_t text_alphabet_encode(uint8_t byte, uint8_t out[2]);
/* The byte of a character, or TEXT_POINT_NONE. */
int32_t text_alphabet_decode(int32_t point);
