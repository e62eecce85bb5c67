#pragma once
/* cli/key_file: a secret read from a file, since everybody on the host can read
 * a command line (`ps`). */
#include <stddef.h>

#include "base/err.h"

/* One line of at most size - 1 bytes; the line's end is no part of it. A file
 * that others may read is taken with a warning in the log. `why` names `flag`
 * ("--api-key-file") and the file. */
MUST_USE enum err cli_key_file_read(const char *flag, const char *path,
                                    struct why *why, char *out, size_t size);
/* Warns of a file with a secret that others may read; `flag` has named it. */
void cli_key_file_warn(const char *flag, const char *path);
