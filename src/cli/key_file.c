#include "cli/key_file.h"

#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "io/file.h"

void cli_key_file_warn(const char *flag, const char *path)
{
    if (io_file_is_open_to_others(path)) {
        log_warn("cli",
                 "%s %s: other users of this host can get at it; chmod 600",
                 flag, path);
    }
}

static struct span without_line_end(struct span text)
{
    if (text.size > 0 && text.data[text.size - 1] == '\n') {
        text = span_slice(text, 0, text.size - 1);
    }
    if (text.size > 0 && text.data[text.size - 1] == '\r') {
        text = span_slice(text, 0, text.size - 1);
    }
    return text;
}

/* What no header can carry, a second line above all, is a wrong file. */
static bool has_control(struct span key)
{
    for (size_t i = 0; i < key.size; i++) {
        if (key.data[i] < 0x20 || key.data[i] == 0x7f) {
            return true;
        }
    }
    return false;
}

static enum err check(struct span key, size_t size, struct why *why)
{
    if (key.size == 0) {
        return why_say(why, ERR_INVALID, "is empty");
    }
    if (has_control(key)) {
        return why_say(why, ERR_INVALID,
                       "must be one line without control characters");
    }
    if (key.size >= size) {
        return why_say(why, ERR_INVALID, "holds more than %zu bytes", size - 1);
    }
    return OK;
}

enum err cli_key_file_read(const char *flag, const char *path, struct why *why,
                           char *out, size_t size)
{
    struct buf text;
    buf_init(&text, size + 2);
    enum err code = io_file_read(path, why, &text);
    if (code != OK && code != ERR_FULL) {
        buf_finish(&text);
        return why_prefix(why, code, "%s", flag); /* it names the file */
    }
    struct span key = without_line_end(buf_span(&text));
    code = code == ERR_FULL ? why_say(why, ERR_INVALID,
                                      "holds more than %zu bytes", size - 1)
                            : check(key, size, why);
    if (code == OK) {
        memcpy(out, key.data, key.size);
        out[key.size] = 0;
        cli_key_file_warn(flag, path);
    }
    buf_finish(&text);
    return code == OK ? OK : why_prefix(why, code, "%s %s", flag, path);
}
