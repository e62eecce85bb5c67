#pragma once
/* route/pool: the workers, keyed by address; who may get work (serve.md 1.5,
 * 3.1). Pure: time comes with each call.
 *
 *            healthy             prepared
 *   NEW ---------------> FRESH -------------> READY <-------+
 *                          ^                  |   |         |
 *                          |          refused |   | says    | 2 good probes
 *                          |                  v   v draining|
 *                          |             SUSPECT  DRAINING -+
 *                          | 2 good probes    |
 *                          +----- DOWN <------+ 3 bad probes
 *
 * Another process than the one that is known makes it FRESH, from any state.
 * Only READY servers get work; when a role has none, a SUSPECT one may be
 * tried. Never one that does not serve the same as most (route/match). Server
 * order and counters fully determine a placement. */
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "config/route.h"
#include "io/tcp.h"
#include "route/match.h"
#include "route/peer.h"

enum {
    ROUTE_SERVER_COUNT_MAX = 2 * CONFIG_SERVER_COUNT_MAX,
    ROUTE_NO_SERVER = -1
};

enum route_role { ROUTE_CONTEXT, ROUTE_GENERATION, ROUTE_ROLE_COUNT };

enum route_server_state {
    ROUTE_SERVER_NEW,
    ROUTE_SERVER_FRESH,
    ROUTE_SERVER_READY,
    ROUTE_SERVER_SUSPECT,
    ROUTE_SERVER_DRAINING,
    ROUTE_SERVER_DOWN,
    ROUTE_SERVER_STATE_COUNT
};

struct route_server {
    struct io_address address;
    char name[280]; /* host:port */
    bool has_role[ROUTE_ROLE_COUNT];
    bool is_whole_only; /* it takes part in no hand-off, it says */
    enum route_server_state state;
    uint32_t good_probes; /* in a row */
    uint32_t bad_probes;
    uint32_t prepare_failures;
    uint32_t open_legs;
    uint64_t next_probe_ns;
    bool is_probing;
    bool is_stale; /* to be asked again: it may be another process */
    struct route_marks marks;
    enum route_misfit misfit; /* against pool.most */
    struct route_peer peer; /* generation-first only */
};

struct route_pool {
    uint32_t server_count;
    struct route_server servers[ROUTE_SERVER_COUNT_MAX];
    /* Members of a role, in the order of the config. */
    uint32_t member_count[ROUTE_ROLE_COUNT];
    int32_t members[ROUTE_ROLE_COUNT][CONFIG_SERVER_COUNT_MAX];
    uint64_t turn[ROUTE_ROLE_COUNT]; /* round robin */
    struct route_marks most; /* of the servers that are not DOWN */
    /* The least that one of those says which fit: whatever is asked has to fit
     * into each of them. 0: nobody says anything. */
    uint32_t max_seq;
    bool keeps_peers; /* schedule_style is generation_first */
};

void route_pool_init(struct route_pool *pool, const struct config_route *config,
                     uint64_t now);

/* A server, or ROUTE_NO_SERVER. `exclude` is given back only when nothing else
 * is there and `must_exclude` is not set. */
int32_t route_pool_place(struct route_pool *pool, enum route_role role,
                         int32_t exclude, bool must_exclude);
/* For what any worker can answer, not one of those `asked`: one that is READY,
 * of either role; a SUSPECT one when none is. */
int32_t route_pool_place_any(struct route_pool *pool, const int32_t *asked,
                             uint32_t asked_count);
/* READY, and serves the same as most. */
bool route_server_is_ready(const struct route_server *server);
/* Servers of the role that are so. */
uint32_t route_pool_ready_count(const struct route_pool *pool,
                                enum route_role role);
bool route_pool_can_serve(const struct route_pool *pool);

/* A call was refused or broke: READY becomes SUSPECT, probed at once. */
void route_pool_on_refused(struct route_pool *pool, int32_t server,
                           uint64_t now);

/* Another process than was meant answers there: FRESH, probed at once. */
void route_pool_on_restarted(struct route_pool *pool, int32_t server,
                             uint64_t now);

enum route_probe {
    ROUTE_PROBE_GOOD,
    ROUTE_PROBE_BAD,
    ROUTE_PROBE_DRAINING,
    ROUTE_PROBE_RESTARTED /* another process answers than was asked for */
};
/* The next one whose health is to be asked, marked as being asked. */
int32_t route_pool_next_probe(struct route_pool *pool, uint64_t now);
/* True: healthy, and its /server_info is wanted now (route_pool_on_prepared
 * must follow): it is new, or what is known of it may be out of date. */
bool route_pool_on_probe(struct route_pool *pool, int32_t server,
                         enum route_probe result, uint64_t now);
void route_pool_on_prepared(struct route_pool *pool, int32_t server,
                            bool is_good, uint64_t now);
/* What the server has said of itself did not hold: to be asked at once. Also
 * happens by itself when a server stops being READY. Nothing when peers are
 * not kept. */
void route_pool_forget_peer(struct route_pool *pool, int32_t server,
                            uint64_t now);
/* What the server says it serves; who does not fit is judged anew. */
void route_pool_note_marks(struct route_pool *pool, int32_t server,
                           const struct route_marks *marks);
/* When route_pool_next_probe next has one; UINT64_MAX: never. */
uint64_t route_pool_wake_ns(const struct route_pool *pool);

const char *route_server_state_name(enum route_server_state state);
/* That of its state; "misfit" for one that is READY and does not fit. */
const char *route_server_status(const struct route_server *server);
const char *route_role_name(enum route_role role);
bool route_pool_is_valid(const struct route_pool *pool);
