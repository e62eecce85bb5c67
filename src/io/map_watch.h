#pragma once
/* io/map_watch: a last word for a process whose mapped file goes away under it.
 *
 * A mapping cannot be kept from a file that somebody cuts short: the next touch
 * of what is gone is a SIGBUS. The handler finds the mapping the address lies
 * in, names its file on the standard error and ends the process with a code of
 * its own. Any other SIGBUS stays what it was. Written for the handler: fixed
 * places, atomic, nothing allocated. Any thread. */
#include <stddef.h>

/* Installs the handler; `exit_code` is what a cut file ends the process with. */
void io_map_watch(int exit_code);

/* For io/file only. `path` must live until the mapping is taken off. Mappings
 * beyond the places there are stay without their name. */
void io_map_watch_add(const void *begin, size_t size, const char *path);
void io_map_watch_remove(const void *begin);
