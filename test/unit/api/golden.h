#pragma once
/* Compares bytes with a file of test/golden; with GOLDEN_UPDATE in the
 * environment it writes the file instead, for a person to read the diff. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static inline void golden_is(const char *path, struct span found)
{
    static char wanted[1 << 16];
    if (getenv("GOLDEN_UPDATE") != NULL) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        fwrite(found.data, 1, found.size, file);
        fclose(file);
    }
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        fail_msg("%s: cannot be opened", path);
    }
    size_t size = fread(wanted, 1, sizeof(wanted), file);
    fclose(file);
    if (size != found.size || memcmp(wanted, found.data, size) != 0) {
        fail_msg("%s differs from:\n%.*s", path, (int)found.size,
                 (const char *)found.data);
    }
}
