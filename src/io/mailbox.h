#pragma once
/* io/mailbox: plain structs from any thread to one owner, in order, bounded.
 *
 *   poster ---- post ----> [ ring of `capacity` messages ] ---- take ----> owner
 *                                      |
 *                                   waker: an eventfd; several mailboxes of one
 *                                   owner share it, so it can sleep on all
 *
 * A message is copied in and out; what its pointers point to changes hands with
 * it. Whoever posts a report that frees something reserved its place when the
 * thing was ordered: the owner sizes the mailbox so that this cannot fail. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct io_loop;

/* Wakes one sleeping owner. Wakes between two sleeps count once. */
struct io_waker;
MUST_USE enum err io_waker_create(struct io_waker **waker_out);
void io_waker_destroy(struct io_waker *waker);
void io_waker_wake(struct io_waker *waker); /* any thread, signal safe */
/* For an owner without a loop: sleeps until woken or the time is over. */
void io_waker_wait(struct io_waker *waker, uint64_t timeout_ns);
/* For an owner with a loop: `on_wake` runs in it after each wake. */
MUST_USE enum err io_waker_attach(struct io_waker *waker, struct io_loop *loop,
                                  void (*on_wake)(void *context),
                                  void *context);
int io_waker_fd(const struct io_waker *waker);
/* Forgets the wakes so far, for an owner that watches the descriptor. */
void io_waker_clear(struct io_waker *waker);

struct io_mailbox;
struct io_mailbox_options {
    size_t message_size;
    uint32_t capacity;
    struct io_waker *waker; /* the owner's; outlives the mailbox */
};
MUST_USE enum err io_mailbox_create(const struct io_mailbox_options *options,
                                    struct io_mailbox **mailbox_out);
void io_mailbox_destroy(struct io_mailbox *mailbox);
/* Any thread. ERR_FULL: nothing was posted. Wakes the owner. */
MUST_USE enum err io_mailbox_post(struct io_mailbox *mailbox,
                                  const void *message);
/* All or none, in order, one wake. */
MUST_USE enum err io_mailbox_post_many(struct io_mailbox *mailbox,
                                       const void *messages, uint32_t count);
/* Places left now; only grows between two posts of a single poster. */
uint32_t io_mailbox_room(struct io_mailbox *mailbox);
/* Owner only. False: empty. */
bool io_mailbox_take(struct io_mailbox *mailbox, void *message_out);
