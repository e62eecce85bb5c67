/* Lists of hosts, and a host to look up in them: refused, or the same answer
 * twice. Lists with names are only checked, the resolver is not ours. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/allow.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool may_be_name(const uint8_t *data, size_t size)
{
    bool has_mark = false;
    for (size_t i = 0; i <= size; i++) {
        bool is_end = i == size || data[i] == ',';
        if (is_end && !has_mark) {
            return true;
        }
        has_mark = !is_end && (has_mark || strchr(":/[]", data[i]) != NULL);
    }
    return false;
}

/* The text after the last comma is the host. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *last = size == 0 ? NULL : memrchr(data, ',', size);
    size_t list = last == NULL ? size : (size_t)(last - data);
    struct why why;
    struct io_allow *allow = NULL;
    enum err check = io_allow_check(span_of(data, list), &why);
    if (may_be_name(data, list)) {
        return 0;
    }
    enum err err = io_allow_create(span_of(data, list), &why, &allow);
    if (err != check) {
        abort();
    }
    if (err != OK) {
        if (why.text[0] == 0) {
            abort();
        }
        return 0;
    }
    char host[64] = "";
    if (last != NULL) {
        snprintf(host, sizeof(host), "%.*s", (int)(size - list - 1),
                 (const char *)last + 1);
    }
    if (io_allow_has(allow, host) != io_allow_has(allow, host)) {
        abort();
    }
    io_allow_destroy(allow);
    return 0;
}
