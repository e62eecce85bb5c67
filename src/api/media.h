#pragma once
/* api/media: which bodies are taken for JSON by their Content-Type. Pure. */
#include <stdbool.h>

#include "base/err.h"
#include "base/span.h"

/* `type` is the header's value, no data: absent. `is_from_page`: the request
 * has an Origin, so that a browser sends it for a page. ERR_UNSUPPORTED: `why`
 * names the header and what it says. */
MUST_USE enum err api_media_check(struct span type, bool is_from_page,
                                  struct why *why);
