#pragma once
/* kv/ids: how pages are named. A page id is a slot index in the pool:
 * address = base + page_bytes * id. */
#include <stdint.h>

typedef int32_t kv_page_id;
enum { KV_PAGE_NONE = -1 };
