#include "transfer/segment.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>

#include "base/buf.h"
#include "io/file.h"
#include "io/populate.h"
#include "io/thread.h"

enum {
    PAGE = 4096,
    POPULATE_SIZE = 1024 * 1024,
    DROP_SIZE = 4 * 1024 * 1024 /* 0.2 ms */
};
#define MAGIC UINT64_C(0x6c6f6f702d6b7662)

static size_t seal_offset(size_t pool_size)
{
    return (pool_size + PAGE - 1) / PAGE * PAGE;
}

struct segment_seal segment_seal_of(uint64_t incarnation, uint64_t pool_size)
{
    return (struct segment_seal){MAGIC, incarnation, pool_size};
}

size_t segment_size(size_t pool_size)
{
    return seal_offset(pool_size) + PAGE;
}

void segment_write_seal(uint8_t *pool, const struct segment_seal *seal)
{
    memcpy(pool + seal_offset(seal->pool_size), seal, sizeof(*seal));
}

bool segment_has_seal(const uint8_t *pool, const struct segment_seal *seal)
{
    return !memcmp(pool + seal_offset(seal->pool_size), seal, sizeof(*seal));
}

/* The line of /proc/self/maps: range, rights, offset, device, inode, name. For
 * these segments the kernel shows their number as the inode. */
enum err segment_find(const uint8_t *pool, struct why *why,
                      int32_t *segment_out)
{
    struct buf maps;
    buf_init(&maps, (size_t)4 << 20);
    char start[32];
    snprintf(start, sizeof(start), "%lx-", (unsigned long)(uintptr_t)pool);
    enum err err = io_file_read("/proc/self/maps", why, &maps);
    const char *line = err ? NULL : strstr(buf_string(&maps), start);
    unsigned long inode = 0;
    char name[16] = "";
    if (!err && (line == NULL ||
                 sscanf(line, "%*s %*s %*s %*s %lu %15s", &inode, name) != 2 ||
                 strncmp(name, "/SYSV", 5) != 0)) {
        err = why_say(why, ERR_UNSUPPORTED, "not System V shared memory");
    }
    buf_finish(&maps);
    if (!err) {
        *segment_out = (int32_t)inode;
    }
    return err;
}

void *segment_hold(int32_t segment, const struct segment_seal *seal)
{
    void *held = shmat(segment, NULL, 0);
    if (held == (void *)-1) {
        return NULL;
    }
    struct shmid_ds about;
    if (shmctl(segment, IPC_STAT, &about) == 0 &&
        about.shm_segsz >= segment_size(seal->pool_size) &&
        segment_has_seal(held, seal)) {
        return held;
    }
    segment_release(held);
    return NULL;
}

void segment_release(void *held)
{
    if (held != NULL) {
        shmdt(held);
    }
}

static void release(void *held)
{
    segment_release(held);
}

void segment_release_aside(void *held)
{
    if (held != NULL && io_thread_start_alone("unmap", release, held) != OK) {
        segment_release(held);
    }
}

size_t segment_populate(uint8_t *pool, size_t pool_size, size_t done)
{
    size_t left = pool_size - done;
    size_t size = left < POPULATE_SIZE ? left : POPULATE_SIZE;
    /* A kernel that refuses: then the writes pay, once a page. */
    bool is_refused = !io_populate_range(pool + done, size);
    return is_refused ? pool_size : done + size;
}

size_t segment_drop(uint8_t *pool, size_t pool_size, size_t done)
{
    size_t left = pool_size - done;
    size_t size = left < DROP_SIZE ? left : DROP_SIZE;
    /* A kernel that refuses: then the mapping's end pays. */
    bool is_refused = madvise(pool + done, size, MADV_DONTNEED) != 0;
    return is_refused ? pool_size : done + size;
}
