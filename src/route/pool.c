#include "route/pool.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"

#define MS 1000000ull

enum { GOOD_PROBES_TO_RETURN = 2, BAD_PROBES_TO_LEAVE = 3 };

static int32_t find_server(const struct route_pool *pool,
                           const struct io_address *address)
{
    for (uint32_t i = 0; i < pool->server_count; i++) {
        const struct io_address *other = &pool->servers[i].address;
        if (other->port == address->port &&
            strcasecmp(other->host, address->host) == 0) {
            return (int32_t)i;
        }
    }
    return ROUTE_NO_SERVER;
}

static void add_server(struct route_pool *pool, enum route_role role,
                       const struct io_address *address, uint64_t now)
{
    int32_t index = find_server(pool, address);
    if (index == ROUTE_NO_SERVER) {
        CHECK(pool->server_count < ROUTE_SERVER_COUNT_MAX);
        index = (int32_t)pool->server_count++;
        struct route_server *server = &pool->servers[index];
        server->address = *address;
        server->next_probe_ns = now;
        bool is_v6 = strchr(address->host, ':') != NULL;
        snprintf(server->name, sizeof(server->name),
                 is_v6 ? "[%s]:%u" : "%s:%u", address->host, address->port);
    }
    pool->servers[index].has_role[role] = true;
    CHECK(pool->member_count[role] < CONFIG_SERVER_COUNT_MAX);
    pool->members[role][pool->member_count[role]++] = index;
}

void route_pool_init(struct route_pool *pool, const struct config_route *config,
                     uint64_t now)
{
    memset(pool, 0, sizeof(*pool));
    pool->keeps_peers = config->schedule_style == CONFIG_ROUTE_GENERATION_FIRST;
    for (uint32_t i = 0; i < config->context.count; i++) {
        add_server(pool, ROUTE_CONTEXT, &config->context.servers[i], now);
    }
    for (uint32_t i = 0; i < config->generation.count; i++) {
        add_server(pool, ROUTE_GENERATION, &config->generation.servers[i], now);
    }
}

/* Servers to pass over. */
struct without {
    const int32_t *servers;
    uint32_t count;
};

static bool is_without(struct without without, int32_t index)
{
    for (uint32_t i = 0; i < without.count; i++) {
        if (without.servers[i] == index) {
            return true;
        }
    }
    return false;
}

/* The next member in turn that is in `state` and not excluded. Members that
 * are passed over use up their turn, as in serve.md 3.1. */
static int32_t take_turn(struct route_pool *pool, enum route_role role,
                         enum route_server_state state, struct without without)
{
    uint32_t count = pool->member_count[role];
    for (uint32_t i = 0; i < count; i++) {
        int32_t index = pool->members[role][(pool->turn[role] + i) % count];
        const struct route_server *server = &pool->servers[index];
        if (!is_without(without, index) && server->state == state &&
            server->misfit == ROUTE_FITS) {
            pool->turn[role] += i + 1;
            return index;
        }
    }
    return ROUTE_NO_SERVER;
}

int32_t route_pool_place(struct route_pool *pool, enum route_role role,
                         int32_t exclude, bool must_exclude)
{
    const struct without others = {&exclude, 1}, nobody = {NULL, 0};
    int32_t index = take_turn(pool, role, ROUTE_SERVER_READY, others);
    if (index == ROUTE_NO_SERVER && !must_exclude) {
        index = take_turn(pool, role, ROUTE_SERVER_READY, nobody);
    }
    if (index == ROUTE_NO_SERVER) {
        index = take_turn(pool, role, ROUTE_SERVER_SUSPECT, others);
    }
    return index;
}

int32_t route_pool_place_any(struct route_pool *pool, const int32_t *asked,
                             uint32_t asked_count)
{
    const struct without without = {asked, asked_count};
    static const enum route_server_state STATES[] = {ROUTE_SERVER_READY,
                                                     ROUTE_SERVER_SUSPECT};
    int32_t index = ROUTE_NO_SERVER;
    for (int i = 0; i < 2 && index == ROUTE_NO_SERVER; i++) {
        for (int role = 0; role < ROUTE_ROLE_COUNT && index == ROUTE_NO_SERVER;
             role++) {
            index = take_turn(pool, (enum route_role)role, STATES[i], without);
        }
    }
    return index;
}

bool route_server_is_ready(const struct route_server *server)
{
    return server->state == ROUTE_SERVER_READY && server->misfit == ROUTE_FITS;
}

uint32_t route_pool_ready_count(const struct route_pool *pool,
                                enum route_role role)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < pool->member_count[role]; i++) {
        count += route_server_is_ready(&pool->servers[pool->members[role][i]]);
    }
    return count;
}

bool route_pool_can_serve(const struct route_pool *pool)
{
    return route_pool_ready_count(pool, ROUTE_CONTEXT) +
               route_pool_ready_count(pool, ROUTE_GENERATION) >
           0;
}

static void enter(struct route_server *server, enum route_server_state state)
{
    server->state = state;
    server->good_probes = 0;
    server->bad_probes = 0;
}

static void forget_info(struct route_server *server)
{
    server->peer.size = 0;
    server->is_stale = true;
}

static uint32_t least_max_seq(const struct route_pool *pool)
{
    uint32_t least = 0;
    for (uint32_t i = 0; i < pool->server_count; i++) {
        const struct route_server *server = &pool->servers[i];
        uint32_t own = server->marks.max_seq;
        bool counts = own != 0 && server->misfit == ROUTE_FITS &&
                      server->state != ROUTE_SERVER_DOWN;
        if (counts && (least == 0 || own < least)) {
            least = own;
        }
    }
    return least;
}

static void judge_all(struct route_pool *pool)
{
    const struct route_marks *voters[ROUTE_SERVER_COUNT_MAX];
    for (uint32_t i = 0; i < pool->server_count; i++) {
        const struct route_server *server = &pool->servers[i];
        bool is_down = server->state == ROUTE_SERVER_DOWN;
        voters[i] = is_down ? NULL : &server->marks;
    }
    pool->most = route_match_most(voters, pool->server_count);
    for (uint32_t i = 0; i < pool->server_count; i++) {
        struct route_server *server = &pool->servers[i];
        server->misfit = route_match_judge(&server->marks, &pool->most);
    }
    pool->max_seq = least_max_seq(pool);
}

void route_pool_note_marks(struct route_pool *pool, int32_t index,
                           const struct route_marks *marks)
{
    pool->servers[index].marks = *marks;
    judge_all(pool);
}

void route_pool_on_refused(struct route_pool *pool, int32_t index, uint64_t now)
{
    struct route_server *server = &pool->servers[index];
    if (server->state == ROUTE_SERVER_READY) {
        enter(server, ROUTE_SERVER_SUSPECT);
        forget_info(server);
        server->next_probe_ns = now;
    }
}

static void begin_anew(struct route_server *server)
{
    enter(server, ROUTE_SERVER_FRESH);
    server->prepare_failures = 0;
    server->marks.incarnation[0] = 0;
    forget_info(server);
}

void route_pool_on_restarted(struct route_pool *pool, int32_t index,
                             uint64_t now)
{
    struct route_server *server = &pool->servers[index];
    if (server->state != ROUTE_SERVER_FRESH) {
        begin_anew(server);
        server->next_probe_ns = now;
    }
}

void route_pool_forget_peer(struct route_pool *pool, int32_t index,
                            uint64_t now)
{
    struct route_server *server = &pool->servers[index];
    if (pool->keeps_peers && server->has_role[ROUTE_CONTEXT]) {
        forget_info(server);
        server->next_probe_ns = now;
    }
}

int32_t route_pool_next_probe(struct route_pool *pool, uint64_t now)
{
    for (uint32_t i = 0; i < pool->server_count; i++) {
        struct route_server *server = &pool->servers[i];
        if (!server->is_probing && server->next_probe_ns <= now) {
            server->is_probing = true;
            return (int32_t)i;
        }
    }
    return ROUTE_NO_SERVER;
}

static uint64_t probe_interval(const struct route_server *server)
{
    switch (server->state) {
    case ROUTE_SERVER_NEW:
        return 250 * MS;
    case ROUTE_SERVER_FRESH:
        return 1000 * MS *
               (1ull << (server->prepare_failures < 5 ? server->prepare_failures
                                                      : 5));
    case ROUTE_SERVER_READY: /* whose death is to be known within a second */
        return 500 * MS;
    default:
        return 1000 * MS;
    }
}

static void on_bad(struct route_server *server)
{
    server->good_probes = 0;
    server->bad_probes++;
    if (server->state == ROUTE_SERVER_READY ||
        server->state == ROUTE_SERVER_DRAINING) {
        enter(server, ROUTE_SERVER_SUSPECT);
        server->bad_probes = 1;
    } else if (server->state == ROUTE_SERVER_FRESH) {
        enter(server, ROUTE_SERVER_NEW);
    } else if (server->state == ROUTE_SERVER_SUSPECT &&
               server->bad_probes >= BAD_PROBES_TO_LEAVE) {
        enter(server, ROUTE_SERVER_DOWN);
    }
}

static void on_good(struct route_server *server)
{
    server->bad_probes = 0;
    server->good_probes++;
    if (server->state == ROUTE_SERVER_NEW) {
        enter(server, ROUTE_SERVER_FRESH);
        server->prepare_failures = 0;
    } else if (server->good_probes < GOOD_PROBES_TO_RETURN) {
        return;
    } else if (server->state == ROUTE_SERVER_SUSPECT ||
               server->state == ROUTE_SERVER_DRAINING) {
        enter(server, ROUTE_SERVER_READY);
    } else if (server->state == ROUTE_SERVER_DOWN) {
        /* It may be another process at the same address. */
        enter(server, ROUTE_SERVER_FRESH);
        server->prepare_failures = 0;
    }
}

bool route_pool_on_probe(struct route_pool *pool, int32_t index,
                         enum route_probe result, uint64_t now)
{
    struct route_server *server = &pool->servers[index];
    bool was_down = server->state == ROUTE_SERVER_DOWN;
    server->is_probing = false;
    if (result == ROUTE_PROBE_DRAINING) {
        enter(server, ROUTE_SERVER_DRAINING);
    } else if (result == ROUTE_PROBE_RESTARTED) {
        begin_anew(server);
    } else if (result == ROUTE_PROBE_GOOD) {
        on_good(server);
    } else {
        on_bad(server);
    }
    server->next_probe_ns = now + probe_interval(server);
    if (server->state != ROUTE_SERVER_READY) {
        forget_info(server);
    }
    if (was_down != (server->state == ROUTE_SERVER_DOWN)) {
        judge_all(pool);
    }
    bool is_stale = server->state == ROUTE_SERVER_READY && server->is_stale;
    if (server->state == ROUTE_SERVER_FRESH || is_stale) {
        server->is_probing = true;
        return true;
    }
    return false;
}

void route_pool_on_prepared(struct route_pool *pool, int32_t index,
                            bool is_good, uint64_t now)
{
    struct route_server *server = &pool->servers[index];
    server->is_probing = false;
    if (server->state == ROUTE_SERVER_READY) {
        server->is_stale &= !is_good; /* asked again */
    }
    if (server->state != ROUTE_SERVER_FRESH) {
        return;
    }
    if (is_good) {
        enter(server, ROUTE_SERVER_READY);
        server->is_stale = false;
    } else {
        server->prepare_failures++;
    }
    server->next_probe_ns = now + probe_interval(server);
}

uint64_t route_pool_wake_ns(const struct route_pool *pool)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < pool->server_count; i++) {
        const struct route_server *server = &pool->servers[i];
        if (!server->is_probing && server->next_probe_ns < least) {
            least = server->next_probe_ns;
        }
    }
    return least;
}

const char *route_server_state_name(enum route_server_state state)
{
    static const char *const NAMES[ROUTE_SERVER_STATE_COUNT] = {
        "new", "fresh", "ready", "suspect", "draining", "down"};
    return (unsigned)state < ROUTE_SERVER_STATE_COUNT ? NAMES[state] : "?";
}

const char *route_server_status(const struct route_server *server)
{
    bool is_misfit =
        server->state == ROUTE_SERVER_READY && server->misfit != ROUTE_FITS;
    return is_misfit ? "misfit" : route_server_state_name(server->state);
}

const char *route_role_name(enum route_role role)
{
    return role == ROUTE_CONTEXT ? "context" : "generation";
}

bool route_pool_is_valid(const struct route_pool *pool)
{
    for (uint32_t i = 0; i < pool->server_count; i++) {
        const struct route_server *server = &pool->servers[i];
        if (find_server(pool, &server->address) != (int32_t)i) {
            return false;
        }
        if (!server->has_role[ROUTE_CONTEXT] &&
            !server->has_role[ROUTE_GENERATION]) {
            return false;
        }
    }
    return true;
}
