#include "io/dial.h"

#include <stdio.h>

#include "base/mem.h"
#include "io/resolver.h"

struct io_dial {
    struct io_resolver *resolver;
    struct io_query query;
    char host[256];
    uint16_t port;
    bool is_found; /* or it never will be: `why` */
    struct why why;
    struct io_addresses addresses;
    uint32_t next;
    uint64_t until_ns, limit_ns;
    void (*on_found)(void *context);
    void *context;
};

/* A host that is there answers sooner; a probe has a second for all of them. */
static const uint64_t ADDRESS_NS = 400000000u;

static void on_answer(void *context, const struct io_addresses *addresses,
                      const char *text)
{
    struct io_dial *dial = context;
    dial->is_found = true;
    if (addresses != NULL) {
        dial->addresses = *addresses;
    } else {
        IGNORE(why_say(&dial->why, ERR_IO, "%s", text)); /* for io_dial_next */
    }
    dial->on_found(dial->context);
}

static void look_up(struct io_dial *dial, uint64_t now)
{
    dial->is_found =
        io_resolver_find(dial->resolver, dial->host, now, &dial->addresses);
    if (dial->is_found) {
        return;
    }
    dial->query.on_answer = on_answer;
    dial->query.context = dial;
    /* Told by io_dial_next, as the name service's own answer is. */
    dial->is_found = io_resolver_ask(dial->resolver, dial->host, &dial->why,
                                     &dial->query) != OK;
}

enum err io_dial_create(const struct io_dial_options *options, struct why *why,
                        struct io_dial **dial_out)
{
    struct io_endpoint digits;
    enum err err = io_resolve_check(options->host, why);
    if (err) {
        return err;
    }
    bool is_digits = io_resolve_digits(options->host, 0, &digits);
    if (!is_digits && options->resolver == NULL) {
        return why_say(why, ERR_INVALID, "host \"%s\": is no address in digits",
                       options->host);
    }
    struct io_dial *dial = mem_new(sizeof(*dial));
    snprintf(dial->host, sizeof(dial->host), "%s", options->host);
    dial->resolver = options->resolver;
    dial->port = options->port;
    dial->until_ns = dial->limit_ns = options->limit_ns;
    dial->on_found = options->on_found;
    dial->context = options->context;
    if (is_digits) {
        dial->is_found = true;
        dial->addresses.count = 1;
        dial->addresses.list[0] = digits;
    } else {
        look_up(dial, options->now);
    }
    *dial_out = dial;
    return OK;
}

bool io_dial_has_next(const struct io_dial *dial)
{
    return dial->is_found && dial->next < dial->addresses.count;
}

static enum err none_is_left(struct io_dial *dial, struct why *why)
{
    if (!dial->is_found) {
        return why_say(why, ERR_BUSY,
                       "the name service does not answer: host \"%s\"",
                       dial->host);
    }
    if (dial->addresses.count == 0) {
        return why_say(why, ERR_IO, "%s", dial->why.text);
    }
    if (dial->resolver != NULL) {
        io_resolver_forget(dial->resolver, dial->host);
    }
    return ERR_NOT_FOUND;
}

enum err io_dial_next(struct io_dial *dial, uint64_t now, struct why *why,
                      struct io_endpoint *endpoint_out)
{
    if (!io_dial_has_next(dial)) {
        return none_is_left(dial, why);
    }
    uint64_t share_ns = dial->limit_ns > now ? dial->limit_ns - now : 0;
    share_ns /= dial->addresses.count - dial->next;
    bool is_last = dial->next + 1 == dial->addresses.count;
    dial->until_ns =
        now + (is_last || share_ns < ADDRESS_NS ? share_ns : ADDRESS_NS);
    *endpoint_out = dial->addresses.list[dial->next++];
    io_endpoint_set_port(endpoint_out, dial->port);
    return OK;
}

uint64_t io_dial_until_ns(const struct io_dial *dial)
{
    return dial->until_ns;
}

void io_dial_destroy(struct io_dial *dial)
{
    if (dial != NULL) {
        io_resolver_cancel(&dial->query);
        mem_free(dial);
    }
}
