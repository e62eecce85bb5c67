#include "wire/refusal.h"

void wire_refusal_encode(const struct why *why, struct buf *out)
{
    buf_add_string(out, why->text);
}

void wire_refusal_decode(struct span body, struct why *why_out)
{
    struct span text = span_slice(body, 0, sizeof(why_out->text) - 1);
    for (size_t i = 0; i < text.size; i++) {
        bool is_plain = text.data[i] >= ' ' && text.data[i] < 127;
        why_out->text[i] = is_plain ? (char)text.data[i] : '?';
    }
    why_out->text[text.size] = 0;
}
