#pragma once
/* sim/page: looks at the tokens of a page, all layers of its life cycle, K and
 * V (kv/view.h). Pure. */
#include <stdbool.h>
#include <stdint.h>

#include "kv/view.h"

/* Makes tokens [first, end) garbage that nobody takes for KV. */
void sim_page_spoil(const struct kv_layout *layout, uint8_t *page,
                    uint32_t first, uint32_t end);
/* Tokens [0, count) of two pages. */
bool sim_page_is_same(const struct kv_layout *layout, const uint8_t *a,
                      const uint8_t *b, uint32_t count);
