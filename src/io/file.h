#pragma once
/* io/file: files read whole or mapped read only, and where temporary ones go. */
#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

struct io_map;
/* Shared, read only: pages are the page cache's, one copy for all processes.
 * ERR_NOT_FOUND, ERR_INVALID (a directory, empty), ERR_IO; `why` names path. */
MUST_USE enum err io_map_open(const char *path, struct why *why,
                              struct io_map **map_out);
void io_map_close(struct io_map *map); /* NULL is fine */
struct span io_map_span(const struct io_map *map);
/* Asks the kernel to read it in; a hint. */
void io_map_prefetch(const struct io_map *map);

/* ERR_FULL when longer than the cap of `out`. */
MUST_USE enum err io_file_read(const char *path, struct why *why,
                               struct buf *out);
/* Written beside, synced and renamed: whole or not at all. */
MUST_USE enum err io_file_write(const char *path, struct span content,
                                struct why *why);
/* A file in some folder that its group or everybody may read or write: not for
 * secrets. False for what has no name any more, as memory files. */
bool io_file_is_open_to_others(const char *path);
