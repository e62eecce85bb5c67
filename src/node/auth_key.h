#pragma once
/* node/auth_key: the key that signs hand-offs, from its file. */
#include "base/buf.h"
#include "base/err.h"

/* One line, white space around it cut; no path ("") is no key: `key_out`, which
 * the caller finishes in any case, stays empty. ERR_INVALID: the file is empty or
 * too long; else what kept it from being read. */
MUST_USE enum err node_auth_key_read(const char *path, struct why *why,
                                     struct buf *key_out);
