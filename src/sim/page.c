#include "sim/page.h"

#include <string.h>

#include "device/copy_sim.h"

void sim_page_spoil(const struct kv_layout *layout, uint8_t *page,
                    uint32_t first, uint32_t end)
{
    size_t token_bytes = (size_t)layout->head_dim * layout->element_bytes;
    size_t half = kv_layout_layer_bytes(layout) / 2;
    for (size_t i = 0; i < 2 * (size_t)layout->layer_count; i++) {
        memset(page + i * half + first * token_bytes, DEVICE_COPIER_SIM_POISON,
               (end - first) * token_bytes);
    }
}

bool sim_page_is_same(const struct kv_layout *layout, const uint8_t *a,
                      const uint8_t *b, uint32_t count)
{
    size_t bytes = (size_t)count * layout->head_dim * layout->element_bytes;
    size_t half = kv_layout_layer_bytes(layout) / 2;
    for (size_t i = 0; i < 2 * (size_t)layout->layer_count; i++) {
        if (memcmp(a + i * half, b + i * half, bytes) != 0) {
            return false;
        }
    }
    return true;
}
