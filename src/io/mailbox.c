#include "io/mailbox.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/loop.h"
#include "io/sim_body.h"
#include "io/thread.h"

struct io_waker {
    struct io_sim *sim; /* NULL: a real one */
    int fd;
    /* Set by the first wake after a sleep, which alone pays for a write. */
    atomic_bool is_woken;
    struct io_watch *watch;
    void (*on_wake)(void *context);
    void *context;
};

enum err io_waker_create(struct io_waker **waker_out)
{
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0) {
        return ERR_IO;
    }
    struct io_waker *waker = mem_new(sizeof(*waker));
    waker->fd = fd;
    *waker_out = waker;
    return OK;
}

enum err io_sim_waker_create(struct io_sim *sim, struct io_waker **waker_out)
{
    int fd = io_sim_waker_open(sim);
    if (fd < 0) {
        return ERR_IO;
    }
    struct io_waker *waker = mem_new(sizeof(*waker));
    waker->sim = sim;
    waker->fd = fd;
    *waker_out = waker;
    return OK;
}

void io_waker_destroy(struct io_waker *waker)
{
    if (waker == NULL) {
        return;
    }
    io_watch_destroy(waker->watch);
    if (waker->sim != NULL) {
        io_sim_waker_close(waker->sim, waker->fd);
    } else {
        close(waker->fd);
    }
    mem_free(waker);
}

void io_waker_wake(struct io_waker *waker)
{
    if (waker->sim != NULL) {
        io_sim_waker_set(waker->sim, waker->fd, true);
        return;
    }
    if (atomic_exchange(&waker->is_woken, true)) {
        return;
    }
    int saved = errno;
    uint64_t one = 1;
    /* Cannot fail: the counter is far from its end. */
    ssize_t written = write(waker->fd, &one, sizeof(one));
    (void)written;
    errno = saved;
}

/* First the descriptor, then the flag: a wake in between finds the flag set and
 * writes nothing, but what it posted is visible once the flag is taken back. */
void io_waker_clear(struct io_waker *waker)
{
    if (waker->sim != NULL) {
        io_sim_waker_set(waker->sim, waker->fd, false);
        return;
    }
    uint64_t count;
    ssize_t got = read(waker->fd, &count, sizeof(count));
    (void)got;
    atomic_exchange(&waker->is_woken, false);
}

void io_waker_wait(struct io_waker *waker, uint64_t timeout_ns)
{
    CHECK(waker->sim == NULL);
    struct pollfd item = {.fd = waker->fd, .events = POLLIN};
    struct timespec limit = {
        .tv_sec = (time_t)(timeout_ns / 1000000000u),
        .tv_nsec = (long)(timeout_ns % 1000000000u),
    };
    /* A signal ends the sleep early, which no owner may mind. */
    int ready = ppoll(&item, 1, timeout_ns == UINT64_MAX ? NULL : &limit, NULL);
    if (ready > 0) {
        io_waker_clear(waker);
    }
}

static void waker_ready(void *context, int ready)
{
    (void)ready;
    struct io_waker *waker = context;
    io_waker_clear(waker);
    waker->on_wake(waker->context);
}

enum err io_waker_attach(struct io_waker *waker, struct io_loop *loop,
                         void (*on_wake)(void *context), void *context)
{
    CHECK(waker->watch == NULL);
    waker->on_wake = on_wake;
    waker->context = context;
    waker->watch = io_watch_create(loop, waker->fd, waker_ready, waker);
    io_watch_set(waker->watch, IO_READABLE);
    return OK;
}

int io_waker_fd(const struct io_waker *waker)
{
    return waker->fd;
}

struct io_mailbox {
    size_t message_size;
    uint32_t capacity;
    struct io_waker *waker;
    struct io_lock *lock; /* held for a copy at most */
    uint32_t first;
    _Atomic uint32_t count; /* written under the lock */
    uint8_t *ring; /* (capacity, message_size) */
};

enum err io_mailbox_create(const struct io_mailbox_options *options,
                           struct io_mailbox **mailbox_out)
{
    CHECK(options->message_size > 0);
    CHECK(options->capacity > 0);
    uint8_t *ring = mem_try_array(options->capacity, options->message_size);
    if (ring == NULL) {
        return ERR_NO_MEMORY;
    }
    struct io_mailbox *mailbox = mem_new(sizeof(*mailbox));
    mailbox->message_size = options->message_size;
    mailbox->capacity = options->capacity;
    mailbox->waker = options->waker;
    mailbox->lock = io_lock_create();
    mailbox->ring = ring;
    *mailbox_out = mailbox;
    return OK;
}

void io_mailbox_destroy(struct io_mailbox *mailbox)
{
    if (mailbox == NULL) {
        return;
    }
    io_lock_destroy(mailbox->lock);
    mem_free(mailbox->ring);
    mem_free(mailbox);
}

static uint8_t *slot_at(struct io_mailbox *mailbox, uint64_t index)
{
    return mailbox->ring +
           (size_t)(index % mailbox->capacity) * mailbox->message_size;
}

enum err io_mailbox_post(struct io_mailbox *mailbox, const void *message)
{
    return io_mailbox_post_many(mailbox, message, 1);
}

enum err io_mailbox_post_many(struct io_mailbox *mailbox, const void *messages,
                              uint32_t count)
{
    const uint8_t *from = messages;
    io_lock_take(mailbox->lock);
    uint32_t held = atomic_load(&mailbox->count);
    if (count > mailbox->capacity - held) {
        io_lock_give(mailbox->lock);
        return ERR_FULL;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint64_t index = (uint64_t)mailbox->first + held + i;
        memcpy(slot_at(mailbox, index), from + i * mailbox->message_size,
               mailbox->message_size);
    }
    atomic_store(&mailbox->count, held + count);
    io_lock_give(mailbox->lock);
    if (count > 0 && mailbox->waker != NULL) {
        io_waker_wake(mailbox->waker);
    }
    return OK;
}

uint32_t io_mailbox_room(struct io_mailbox *mailbox)
{
    return mailbox->capacity - atomic_load(&mailbox->count);
}

bool io_mailbox_take(struct io_mailbox *mailbox, void *message_out)
{
    /* The usual answer costs no lock: an owner looks once a turn. */
    if (atomic_load(&mailbox->count) == 0) {
        return false;
    }
    io_lock_take(mailbox->lock);
    memcpy(message_out, slot_at(mailbox, mailbox->first),
           mailbox->message_size);
    mailbox->first = (mailbox->first + 1) % mailbox->capacity;
    atomic_fetch_sub(&mailbox->count, 1);
    io_lock_give(mailbox->lock);
    return true;
}
