#pragma once
/* http/target: the path of a request, read. Pure. */
#include "base/buf.h"
#include "base/span.h"

/* Adds the bytes that `path` means: %2F is `/`. A percent sign that no two
 * hexadecimal digits follow stands for itself. */
void http_target_decode(struct span path, struct buf *out);
