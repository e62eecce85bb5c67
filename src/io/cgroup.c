#include "io/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "io/file.h"

enum { PATH_SIZE = 1024, LIST_SIZE_MAX = 65536, VALUE_SIZE_MAX = 128 };

/* Where groups of a kind lie, and which of them is ours. */
struct place {
    char mount[PATH_SIZE]; /* a folder, without "/" at its end */
    char path[PATH_SIZE]; /* "/", "/a/b" */
};

/* A value has one line. False: there is no such file. */
static bool read_value(const char *folder, const char *name, char *text_out,
                       size_t size)
{
    char path[2 * PATH_SIZE];
    struct buf out;
    int length = snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (length < 0 || (size_t)length >= sizeof(path)) {
        return false;
    }
    buf_init(&out, VALUE_SIZE_MAX);
    bool is_read = io_file_read(path, NULL, &out) == OK;
    if (is_read) {
        snprintf(text_out, size, "%s", buf_string(&out));
    }
    buf_finish(&out);
    return is_read;
}

/* "max" is none, and so is what version 1 says instead: nearly 2^63. */
static void bound_memory(const char *folder, const char *name,
                         struct io_cgroup *limits)
{
    char text[VALUE_SIZE_MAX], *end;
    if (!read_value(folder, name, text, sizeof(text))) {
        return;
    }
    unsigned long long bytes = strtoull(text, &end, 10);
    if (end != text && bytes < UINT64_C(1) << 60 &&
        bytes < limits->memory_bytes) {
        limits->memory_bytes = bytes;
    }
}

/* So many microseconds of CPU time in each period. */
static void bound_cpus(long long quota, long long period,
                       struct io_cgroup *limits)
{
    if (quota <= 0 || period <= 0) {
        return;
    }
    long long count = (quota - 1) / period + 1;
    if (count < limits->cpu_count) {
        limits->cpu_count = (uint32_t)count;
    }
}

static void bound_by_group(const char *folder, struct io_cgroup *limits)
{
    char text[VALUE_SIZE_MAX], more[VALUE_SIZE_MAX];
    long long quota = 0, period = 0;
    bound_memory(folder, "memory.max", limits);
    bound_memory(folder, "memory.limit_in_bytes", limits);
    if (read_value(folder, "cpu.max", text, sizeof(text)) &&
        sscanf(text, "%lld %lld", &quota, &period) == 2) {
        bound_cpus(quota, period, limits);
    }
    if (read_value(folder, "cpu.cfs_quota_us", text, sizeof(text)) &&
        read_value(folder, "cpu.cfs_period_us", more, sizeof(more))) {
        bound_cpus(strtoll(text, NULL, 10), strtoll(more, NULL, 10), limits);
    }
}

/* From our group up to the mount. A container sees paths of its host that are
 * not there, but the mount is then its own group. */
static void bound_by_all(struct place *place, struct io_cgroup *limits)
{
    char folder[2 * PATH_SIZE];
    for (;;) {
        snprintf(folder, sizeof(folder), "%s%s", place->mount, place->path);
        bound_by_group(folder, limits);
        char *last = strrchr(place->path, '/');
        if (last == NULL) {
            return;
        }
        *last = 0;
    }
}

static bool has_word(const char *list, const char *word)
{
    size_t size = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += size) {
        bool begins = at == list || at[-1] == ',';
        if (begins && (at[size] == 0 || at[size] == ',')) {
            return true;
        }
    }
    return false;
}

/* A line of /proc/self/cgroup: "0::/path" of version 2, "4:cpu,cpuacct:/path"
 * of version 1, which has a mount for each list. */
static void bound_by_line(const char *root, char *line,
                          struct io_cgroup *limits)
{
    struct place place;
    char *controllers = strchr(line, ':');
    char *path = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (path == NULL) {
        return;
    }
    *controllers++ = 0;
    *path++ = 0;
    bool is_second = controllers[0] == 0;
    if (!is_second && !has_word(controllers, "memory") &&
        !has_word(controllers, "cpu")) {
        return;
    }
    snprintf(place.mount, sizeof(place.mount), "%s/sys/fs/cgroup%s%s", root,
             is_second ? "" : "/", controllers);
    snprintf(place.path, sizeof(place.path), "%s", path);
    bound_by_all(&place, limits);
}

struct io_cgroup io_cgroup_read(const char *root)
{
    struct io_cgroup limits = {UINT64_MAX, UINT32_MAX};
    char path[PATH_SIZE];
    struct buf list;
    buf_init(&list, LIST_SIZE_MAX);
    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    if (io_file_read(path, NULL, &list) == OK) {
        char *rest = (char *)buf_string(&list);
        for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
            bound_by_line(root, line, &limits);
        }
    }
    buf_finish(&list);
    return limits;
}
