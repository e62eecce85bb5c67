#include "node/auth_key.h"

#include "base/log.h"
#include "io/file.h"

enum { KEY_SIZE_MAX = 4096 };

enum err node_auth_key_read(const char *path, struct why *why,
                            struct buf *key_out)
{
    buf_init(key_out, KEY_SIZE_MAX);
    if (path[0] == 0) {
        return OK;
    }
    enum err code = io_file_read(path, why, key_out);
    if (code == ERR_FULL) {
        return why_say(why, ERR_INVALID,
                       "auth_key_file %s holds more than %d bytes", path,
                       KEY_SIZE_MAX);
    }
    if (code != OK) {
        return why_prefix(why, code, "auth_key_file");
    }
    if (io_file_is_open_to_others(path)) {
        log_warn("worker",
                 "auth_key_file %s: other users of this host can get at it; "
                 "chmod 600",
                 path);
    }
    while (key_out->size > 0 && key_out->data[key_out->size - 1] <= ' ') {
        key_out->size--;
    }
    if (key_out->size == 0) {
        return why_say(why, ERR_INVALID, "auth_key_file %s is empty", path);
    }
    return OK;
}
