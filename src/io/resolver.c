#include "io/resolver.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "base/mem.h"
#include "io/mailbox.h"
#include "io/net.h"
#include "io/thread.h"

enum { THREAD_MAX = 8, NAME_MAX_DEFAULT = 64, NAME_SIZE = 256 };
static const uint64_t FRESH_NS = 1000000000u;

enum name_state {
    NAME_WAITING, /* in the queue */
    NAME_ASKED, /* a thread's */
    NAME_ANSWERED, /* in the list of answers */
    NAME_KNOWN,
};

/* The owner's but for what is marked: `state` up to ANSWERED and `next_shared`
 * are under the lock, the answer is the thread's while it is ASKED. */
struct io_name {
    struct io_name *next; /* of the owner's, the oldest first */
    struct io_name *next_shared; /* in the queue, or of the answers */
    char text[NAME_SIZE];
    enum name_state state;
    struct io_query *first_query; /* in the order in which they came */
    uint64_t fresh_until; /* KNOWN; 0: it is being asked for */
    enum err err;
    struct why why;
    struct io_addresses addresses;
    struct io_addresses last; /* the owner's: until they lead nowhere */
    bool has_last;
};

/* What owner and threads share, theirs until the last of them leaves. */
struct shared {
    struct io_lock *lock;
    struct io_look_up look_up;
    struct io_waker *waker; /* NULL: the owner has left */
    struct io_name *waiting, *answered; /* the oldest first */
    uint32_t thread_count;
    uint32_t user_count;
};

struct io_resolver {
    struct shared *shared;
    bool is_instant;
    uint32_t thread_max, name_max;
    struct io_name *names;
    uint32_t name_count;
    const struct io_name *told; /* in this call of on_answer */
};

/* -------- shared, under the lock -------- */

static void push(struct io_name **list, struct io_name *name)
{
    struct io_name **at = list;
    while (*at != NULL) {
        at = &(*at)->next_shared;
    }
    name->next_shared = NULL;
    *at = name;
}

static struct io_name *pop(struct io_name **list)
{
    struct io_name *name = *list;
    if (name != NULL) {
        *list = name->next_shared;
    }
    return name;
}

static void take_out(struct io_name **list, const struct io_name *name)
{
    struct io_name **at = list;
    while (*at != name) {
        at = &(*at)->next_shared;
    }
    *at = name->next_shared;
}

/* Gives the lock back. */
static void leave(struct shared *shared)
{
    bool is_last = --shared->user_count == 0;
    io_lock_give(shared->lock);
    if (is_last) {
        io_lock_destroy(shared->lock);
        mem_free(shared);
    }
}

/* -------- threads -------- */

static struct io_name *take_waiting(struct shared *shared)
{
    struct io_name *name = pop(&shared->waiting);
    if (name != NULL) {
        name->state = NAME_ASKED;
    }
    return name;
}

static void give_answer(struct shared *shared, struct io_name *name)
{
    if (shared->waker == NULL) {
        mem_free(name);
        return;
    }
    name->state = NAME_ANSWERED;
    push(&shared->answered, name);
    io_waker_wake(shared->waker);
}

/* All that wait, the lock held but while one is asked for. */
static void ask_all(struct shared *shared)
{
    struct io_name *name = take_waiting(shared);
    while (name != NULL) {
        io_lock_give(shared->lock);
        name->err = shared->look_up.ask(shared->look_up.context, name->text,
                                        &name->why, &name->addresses);
        io_lock_take(shared->lock);
        give_answer(shared, name);
        name = take_waiting(shared);
    }
}

static void run(void *context)
{
    struct shared *shared = context;
    io_lock_take(shared->lock);
    ask_all(shared);
    shared->thread_count--;
    leave(shared);
}

/* -------- names -------- */

static struct io_name *find(struct io_resolver *resolver, const char *text)
{
    struct io_name *name = resolver->names;
    while (name != NULL && strcasecmp(name->text, text) != 0) {
        name = name->next;
    }
    return name;
}

static struct io_name *add(struct io_resolver *resolver, const char *text)
{
    struct io_name *name = mem_new(sizeof(*name));
    snprintf(name->text, sizeof(name->text), "%s", text);
    struct io_name **at = &resolver->names;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    *at = name;
    resolver->name_count++;
    return name;
}

static void unlink_name(struct io_resolver *resolver,
                        const struct io_name *name)
{
    struct io_name **at = &resolver->names;
    while (*at != name) {
        at = &(*at)->next;
    }
    *at = name->next;
    resolver->name_count--;
}

static bool is_spare(const struct io_resolver *resolver,
                     const struct io_name *name)
{
    return name->first_query == NULL && name != resolver->told &&
           (name->state == NAME_KNOWN || name->state == NAME_WAITING);
}

/* A name that is known, or that nobody waits for and no thread has. */
static bool drop_spare(struct io_resolver *resolver)
{
    struct shared *shared = resolver->shared;
    struct io_name *name = resolver->names;
    io_lock_take(shared->lock);
    while (name != NULL && !is_spare(resolver, name)) {
        name = name->next;
    }
    if (name != NULL && name->state == NAME_WAITING) {
        take_out(&shared->waiting, name);
    }
    io_lock_give(shared->lock);
    if (name == NULL) {
        return false;
    }
    unlink_name(resolver, name);
    mem_free(name);
    return true;
}

/* -------- asking -------- */

/* Puts it last. False: there is no thread and none can be had. */
static bool enqueue(struct io_resolver *resolver, struct io_name *name)
{
    struct shared *shared = resolver->shared;
    io_lock_take(shared->lock);
    name->state = NAME_WAITING;
    push(&shared->waiting, name);
    if (resolver->is_instant) {
        ask_all(shared);
    } else if (shared->thread_count < resolver->thread_max &&
               io_thread_start_alone("names", run, shared) == OK) {
        shared->thread_count++;
        shared->user_count++;
    } else if (shared->thread_count == 0) {
        take_out(&shared->waiting, name);
        name->state = NAME_KNOWN;
        io_lock_give(shared->lock);
        return false;
    }
    io_lock_give(shared->lock);
    return true;
}

static enum err start(struct io_resolver *resolver, const char *text,
                      struct why *why, struct io_name **name_out)
{
    struct io_name *name = find(resolver, text);
    if (name == NULL && resolver->name_count == resolver->name_max &&
        !drop_spare(resolver)) {
        return why_say(why, ERR_FULL,
                       "host \"%s\": the name service does not answer, %u "
                       "names wait",
                       text, resolver->name_max);
    }
    name = name == NULL ? add(resolver, text) : name;
    if (!enqueue(resolver, name)) {
        unlink_name(resolver, name);
        mem_free(name);
        return why_say(why, ERR_IO, "host \"%s\": no thread to look it up",
                       text);
    }
    *name_out = name;
    return OK;
}

static bool is_known(const struct io_name *name)
{
    return name->fresh_until > 0; /* the owner's sign of KNOWN */
}

bool io_resolver_find(struct io_resolver *resolver, const char *name,
                      uint64_t now, struct io_addresses *addresses_out)
{
    struct io_name *found = find(resolver, name);
    if (found == NULL || !found->has_last) {
        return false;
    }
    /* Asked anew beside it: nobody waits who has something to try. */
    bool is_old = is_known(found) && now >= found->fresh_until;
    if (is_old && found != resolver->told && enqueue(resolver, found)) {
        found->fresh_until = 0;
    }
    *addresses_out = found->last;
    return true;
}

enum err io_resolver_ask(struct io_resolver *resolver, const char *name,
                         struct why *why, struct io_query *query)
{
    CHECK(query->name == NULL);
    CHECK(strlen(name) < NAME_SIZE);
    struct io_name *asked = find(resolver, name);
    /* Who asks for the one that is being told hears of it in the same call. */
    if (asked == NULL || (is_known(asked) && asked != resolver->told)) {
        enum err err = start(resolver, name, why, &asked);
        if (err) {
            return err;
        }
        asked->fresh_until = 0;
    }
    struct io_query **at = &asked->first_query;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    query->name = asked;
    query->next = NULL;
    *at = query;
    return OK;
}

void io_resolver_cancel(struct io_query *query)
{
    if (query->name == NULL) {
        return;
    }
    struct io_query **at = &query->name->first_query;
    while (*at != query) {
        at = &(*at)->next;
    }
    *at = query->next;
    query->name = NULL;
}

void io_resolver_forget(struct io_resolver *resolver, const char *name)
{
    struct io_name *found = find(resolver, name);
    if (found == NULL) {
        return;
    }
    found->has_last = false;
    if (is_known(found)) {
        found->fresh_until = 1; /* long ago */
    }
}

/* -------- answers -------- */

static void tell_all(struct io_name *name)
{
    while (name->first_query != NULL) {
        struct io_query *query = name->first_query;
        name->first_query = query->next;
        query->name = NULL;
        query->on_answer(query->context, name->err ? NULL : &name->addresses,
                         name->why.text);
    }
}

/* A name that failed is none of ours before anybody hears of it, so that who
 * asks again in on_answer asks anew; but for one whose addresses still lead
 * somewhere, as a name service that is ill knows nobody. */
static void tell(struct io_resolver *resolver, struct io_name *name,
                 uint64_t now)
{
    if (name->err && !name->has_last) {
        unlink_name(resolver, name);
        tell_all(name);
        mem_free(name);
        return;
    }
    if (!name->err) {
        name->last = name->addresses;
        name->has_last = true;
    }
    name->state = NAME_KNOWN;
    name->fresh_until = now + FRESH_NS;
    resolver->told = name;
    tell_all(name);
    resolver->told = NULL;
}

void io_resolver_step(struct io_resolver *resolver, uint64_t now)
{
    struct shared *shared = resolver->shared;
    CHECK(resolver->told == NULL);
    for (;;) {
        io_lock_take(shared->lock);
        struct io_name *name = pop(&shared->answered);
        io_lock_give(shared->lock);
        if (name == NULL) {
            return;
        }
        tell(resolver, name, now);
    }
}

/* -------- life -------- */

static uint32_t or_default(uint32_t value, uint32_t usual)
{
    return value == 0 ? usual : value;
}

struct io_resolver *io_resolver_create(
    const struct io_resolver_options *options)
{
    CHECK(options->waker != NULL);
    struct io_resolver *resolver = mem_new(sizeof(*resolver));
    struct shared *shared = mem_new(sizeof(*shared));
    shared->lock = io_lock_create();
    shared->look_up = options->look_up;
    if (shared->look_up.ask == NULL) {
        shared->look_up.ask = io_net_socket.look_up;
    }
    shared->waker = options->waker;
    shared->user_count = 1;
    resolver->shared = shared;
    resolver->is_instant = options->is_instant;
    resolver->thread_max = or_default(options->thread_max, THREAD_MAX);
    resolver->name_max = or_default(options->name_max, NAME_MAX_DEFAULT);
    return resolver;
}

void io_resolver_destroy(struct io_resolver *resolver)
{
    if (resolver == NULL) {
        return;
    }
    struct shared *shared = resolver->shared;
    CHECK(resolver->told == NULL);
    io_lock_take(shared->lock);
    shared->waker = NULL;
    shared->waiting = NULL;
    while (resolver->names != NULL) {
        struct io_name *name = resolver->names;
        resolver->names = name->next;
        CHECK(name->first_query == NULL);
        if (name->state != NAME_ASKED) { /* that one its thread frees */
            mem_free(name);
        }
    }
    leave(shared);
    mem_free(resolver);
}
