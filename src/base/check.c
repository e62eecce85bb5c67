#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

void check_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "baton: broken promise: %s (%s:%d)\n", condition, file,
            line);
    abort();
}
