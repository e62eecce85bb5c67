#include "io/file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "io/map_watch.h"

struct io_map {
    void *memory;
    size_t size;
    char *path; /* for the last word of io/map_watch */
};

static enum err open_error(const char *path, struct why *why)
{
    enum err code = errno == ENOENT || errno == ENOTDIR ? ERR_NOT_FOUND
                    : errno == EACCES || errno == EPERM ? ERR_DENIED
                                                        : ERR_IO;
    return why_say(why, code, "%s: %s", path, strerror(errno));
}

static enum err open_for_reading(const char *path, struct why *why,
                                 struct stat *info_out, int *fd_out)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return open_error(path, why);
    }
    if (fstat(fd, info_out) != 0) {
        enum err code = why_say(why, ERR_IO, "%s: %s", path, strerror(errno));
        close(fd);
        return code;
    }
    if (S_ISDIR(info_out->st_mode)) {
        close(fd);
        return why_say(why, ERR_INVALID, "%s: is a directory", path);
    }
    *fd_out = fd;
    return OK;
}

enum err io_map_open(const char *path, struct why *why, struct io_map **map_out)
{
    struct stat info;
    int fd;
    enum err e = open_for_reading(path, why, &info, &fd);
    if (e != OK) {
        return e;
    }
    if (!S_ISREG(info.st_mode) || info.st_size == 0) {
        close(fd);
        return why_say(why, ERR_INVALID, "%s: %s", path,
                       S_ISREG(info.st_mode) ? "is empty"
                                             : "is not a regular file");
    }
    size_t size = (size_t)info.st_size;
    void *memory = mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0);
    int saved = errno;
    close(fd);
    if (memory == MAP_FAILED) {
        return why_say(why, ERR_IO, "%s: cannot map %zu bytes: %s", path, size,
                       strerror(saved));
    }
    struct io_map *map = mem_new(sizeof(*map));
    *map = (struct io_map){.memory = memory,
                           .size = size,
                           .path = mem_copy(path, strlen(path) + 1)};
    io_map_watch_add(memory, size, map->path);
    *map_out = map;
    return OK;
}

void io_map_close(struct io_map *map)
{
    if (map == NULL) {
        return;
    }
    io_map_watch_remove(map->memory);
    munmap(map->memory, map->size);
    mem_free(map->path);
    mem_free(map);
}

struct span io_map_span(const struct io_map *map)
{
    return span_of(map->memory, map->size);
}

void io_map_prefetch(const struct io_map *map)
{
    /* Only a hint: without it the pages come at first touch. */
    IGNORE(madvise(map->memory, map->size, MADV_WILLNEED));
}

static enum err read_all(int fd, const char *path, struct why *why,
                         struct buf *out)
{
    for (;;) {
        uint8_t piece[16384];
        ssize_t got = read(fd, piece, sizeof(piece));
        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            return why_say(why, ERR_IO, "%s: %s", path, strerror(errno));
        }
        if (got == 0) {
            return OK;
        }
        buf_add(out, piece, (size_t)got);
        if (buf_error(out) != OK) {
            return why_say(why, buf_error(out), "%s: is longer than allowed",
                           path);
        }
    }
}

enum err io_file_read(const char *path, struct why *why, struct buf *out)
{
    struct stat info;
    int fd;
    enum err e = open_for_reading(path, why, &info, &fd);
    if (e != OK) {
        return e;
    }
    e = read_all(fd, path, why, out);
    close(fd);
    return e;
}

static bool write_all(int fd, struct span content)
{
    while (content.size > 0) {
        ssize_t put = write(fd, content.data, content.size);
        if (put < 0 && errno == EINTR) {
            continue;
        }
        if (put < 0) {
            return false;
        }
        content = span_slice(content, (size_t)put, content.size);
    }
    return fsync(fd) == 0;
}

/* The new name itself must reach the disk too. */
static void sync_folder(const char *path)
{
    char copy[PATH_MAX];
    snprintf(copy, sizeof(copy), "%s", path);
    int fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        /* Not every file system can; the content is safe either way. */
        IGNORE(fsync(fd));
        close(fd);
    }
}

enum err io_file_write(const char *path, struct span content, struct why *why)
{
    char beside[PATH_MAX];
    int length =
        snprintf(beside, sizeof(beside), "%s.%ld.tmp", path, (long)getpid());
    if (length < 0 || (size_t)length >= sizeof(beside)) {
        return why_say(why, ERR_INVALID, "%s: the path is too long", path);
    }
    int fd = open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        return open_error(path, why);
    }
    bool is_written = write_all(fd, content);
    int saved = errno;
    close(fd);
    if (is_written && rename(beside, path) == 0) {
        sync_folder(path);
        return OK;
    }
    saved = is_written ? errno : saved;
    unlink(beside);
    return why_say(why, ERR_IO, "%s: %s", path, strerror(saved));
}

bool io_file_is_open_to_others(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode) &&
           info.st_nlink > 0 && (info.st_mode & (S_IRWXG | S_IRWXO)) != 0;
}
