/* What the engine orders of the transfer, and what it may order: pages nobody
 * else touches, slices in order and without a gap, of KV that is there. */
#include "agree/word.h"
#include "base/check.h"
#include "sim/cluster_world.h"

struct cluster_session *cluster_session_find(struct cluster_worker *worker,
                                             uint64_t ticket)
{
    for (uint32_t i = 0; i < CLUSTER_SESSION_MAX; i++) {
        if (worker->sessions[i].ticket == ticket) {
            return &worker->sessions[i];
        }
    }
    return NULL;
}

struct cluster_request *cluster_owner_of(struct cluster *world, int64_t rid)
{
    CHECK(rid > 0);
    CHECK((uint64_t)rid <= world->rid_number);
    return &world->requests[world->rid_owner[rid]];
}

/* A receive holds all; a send what it has posted and what has not drained. A
 * life cycle that does not stream is named by the last slice. */
void cluster_session_leased(const struct cluster_session *session,
                            uint32_t life, uint32_t *first_out,
                            uint32_t *end_out)
{
    bool streams = session->is_receive || session->streaming & 1u << life;
    uint32_t posted = session->is_receive ? session->block_count
                      : session->slice_count > 0
                          ? session->ends[session->slice_count - 1]
                          : 0;
    *first_out = streams && session->drained > 0
                     ? session->ends[session->drained - 1]
                     : 0;
    *end_out = streams || session->has_last ? posted : 0;
}

/* ---- pages (I1) ---- */

static bool is_leased(const struct cluster_worker *worker, uint64_t page,
                      bool by_receives_only)
{
    for (uint32_t i = 0; i < CLUSTER_SESSION_MAX; i++) {
        const struct cluster_session *session = &worker->sessions[i];
        bool counts =
            session->ticket != 0 && (!by_receives_only || session->is_receive);
        for (uint32_t life = 0;
             counts && life < worker->world->core_options.life_count; life++) {
            uint32_t first, end;
            cluster_session_leased(session, life, &first, &end);
            for (uint32_t k = first; k < end; k++) {
                kv_page_id one = session->posted[life][k];
                if (one != KV_PAGE_NONE &&
                    cluster_page_of(worker, life, one) == page) {
                    return true;
                }
            }
        }
    }
    return false;
}

/* A page that comes in is nobody else's; one that goes out may go to several,
 * but nobody writes it. */
static void check_page(struct cluster_worker *worker,
                       const struct cluster_session *session, uint32_t life,
                       kv_page_id page)
{
    uint64_t at = cluster_page_of(worker, life, page);
    bool is_receive = session->is_receive;
    if (is_leased(worker, at, !is_receive) ||
        cluster_page_is_target(worker, at) ||
        (is_receive && cluster_page_is_source(worker, at))) {
        cluster_fail(worker->world,
                     "worker %u hands page %d of life %u to rid %lld, and it "
                     "is under a transfer",
                     worker->index, page, life, (long long)session->rid);
    }
}

/* ---- opening ---- */

/* Late words of an old session must not be a new one's, and a send that has
 * ended is never begun again (I14, I26). */
static void check_ticket(struct cluster_worker *worker,
                         const struct transfer_command *command)
{
    int64_t sent = command->kind == TRANSFER_RECEIVE ? 0 : command->rid;
    for (uint32_t i = 0; i < worker->ticket_count; i++) {
        if (worker->tickets[i] == command->request) {
            cluster_fail(worker->world, "worker %u gives a ticket twice",
                         worker->index);
        }
        if (sent != 0 && worker->sent_rids[i] == sent) {
            cluster_fail(worker->world, "worker %u sends rid %lld once more",
                         worker->index, (long long)sent);
        }
    }
    CHECK(worker->ticket_count < CLUSTER_TICKET_MAX);
    worker->sent_rids[worker->ticket_count] = sent;
    worker->tickets[worker->ticket_count++] = command->request;
}

/* It was withdrawn: what comes next under this rid is the first again. */
void cluster_session_forget(struct cluster_worker *worker, uint64_t ticket)
{
    for (uint32_t i = 0; i < worker->ticket_count; i++) {
        if (worker->tickets[i] == ticket) {
            worker->ticket_count--;
            worker->tickets[i] = worker->tickets[worker->ticket_count];
            worker->sent_rids[i] = worker->sent_rids[worker->ticket_count];
            return;
        }
    }
}

static struct cluster_session *open_session(
    struct cluster_worker *worker, const struct transfer_command *command)
{
    struct cluster *world = worker->world;
    check_ticket(worker, command);
    struct cluster_session *session = cluster_session_find(worker, 0);
    CHECK(session != NULL);
    CHECK(command->block_count <= CLUSTER_BLOCK_MAX);
    *session = (struct cluster_session){
        .ticket = command->request,
        .rid = command->rid,
        .deadline_ns = command->deadline_ns,
        .is_receive = command->kind == TRANSFER_RECEIVE,
        .is_generation_first = world->rid_is_pair[command->rid],
        .block_count = command->block_count,
        .streaming = cluster_streaming(
            world, cluster_owner_of(world, command->rid)->prompt_count)};
    for (uint32_t life = 0; life < KV_LIFE_COUNT_MAX; life++) {
        for (uint32_t i = 0; i < CLUSTER_BLOCK_MAX; i++) {
            session->posted[life][i] = KV_PAGE_NONE;
        }
    }
    world->summary.sends += !session->is_receive;
    world->summary.receives += session->is_receive;
    return session;
}

static void note_pages(struct cluster_session *session,
                       const struct transfer_command *command)
{
    for (uint32_t life = 0; life < command->group_count; life++) {
        session->pages[life] = command->pages[life];
    }
}

/* Names blocks [first, end) of a life cycle. */
static void name(struct cluster_worker *worker, struct cluster_session *session,
                 uint32_t life, uint32_t first, uint32_t end)
{
    for (uint32_t i = first; i < end; i++) {
        kv_page_id page = session->pages[life][i];
        if (page != KV_PAGE_NONE) {
            check_page(worker, session, life, page);
        }
        session->posted[life][i] = page;
    }
}

/* ---- a receive ---- */

/* Nobody may look at what is to come before it is there. */
static void scribble(struct cluster_worker *worker,
                     const struct cluster_session *session, uint32_t life)
{
    for (uint32_t i = 0; i < session->block_count; i++) {
        if (session->posted[life][i] != KV_PAGE_NONE) {
            cluster_page_poison(worker, life, session->posted[life][i], 0,
                                worker->world->core_options.tokens_per_block);
        }
    }
}

static void receive(struct cluster_worker *worker,
                    const struct transfer_command *command)
{
    struct cluster_session *session = open_session(worker, command);
    if (command->is_generation_first != session->is_generation_first) {
        cluster_fail(worker->world, "worker %u: a receive of the wrong style",
                     worker->index);
    }
    note_pages(session, command);
    for (uint32_t life = 0; life < command->group_count; life++) {
        name(worker, session, life, 0, command->block_count);
        scribble(worker, session, life);
    }
}

/* ---- a send ---- */

/* Slices tile [0, N), one is last, and of a generation-first one none is before
 * its receiver has said where they go (I4, I5, I14). */
static void check_slice(struct cluster_worker *worker,
                        const struct cluster_session *session,
                        const struct transfer_command *command)
{
    uint32_t count = session->slice_count;
    uint32_t first = count == 0 ? 0 : session->ends[count - 1];
    if (command->slice_index != count || command->first_block != first ||
        command->end_block <= first ||
        command->end_block > command->block_count || session->has_last ||
        command->is_last != (command->end_block == command->block_count)) {
        cluster_fail(worker->world,
                     "worker %u: rid %lld: slice %u [%u, %u) of %u after %u",
                     worker->index, (long long)command->rid,
                     command->slice_index, command->first_block,
                     command->end_block, command->block_count, first);
    }
    bool is_early = session->is_generation_first && !session->is_awaited;
    if (session->is_cancelled || is_early ||
        (!session->is_generation_first && !command->is_last)) {
        cluster_fail(worker->world, "worker %u: rid %lld: a slice out of turn",
                     worker->index, (long long)command->rid);
    }
}

/* First tokens are of this prompt (I25). */
static void check_aux(struct cluster_worker *worker,
                      const struct cluster_session *session,
                      const struct transfer_command *command)
{
    const struct cluster_request *request =
        cluster_owner_of(worker->world, session->rid);
    const struct transfer_aux *aux = command->aux;
    bool is_due = session->is_generation_first && command->is_last;
    bool is_right = !is_due ? aux == NULL
                            : aux != NULL && aux->choice_count == 1 &&
                                  aux->prompt_tokens == request->prompt_count &&
                                  aux->firsts[0].token ==
                                      request->tokens[request->prompt_count];
    if (!is_right) {
        cluster_fail(worker->world, "worker %u: rid %lld: wrong first tokens",
                     worker->index, (long long)session->rid);
    }
}

static void check_content(struct cluster_worker *worker,
                          const struct cluster_session *session, uint32_t life,
                          uint32_t first, uint32_t end)
{
    struct cluster *world = worker->world;
    const struct cluster_request *request =
        cluster_owner_of(world, session->rid);
    int32_t wrong = cluster_pages_compare(worker, request, life,
                                          session->posted[life], first, end);
    for (uint32_t i = first; wrong < 0 && i < end; i++) {
        if (session->posted[life][i] == KV_PAGE_NONE &&
            cluster_is_needed(world, life, i, request->prompt_count)) {
            wrong = (int32_t)i;
        }
    }
    if (wrong >= 0) {
        cluster_fail(world,
                     "worker %u sends rid %lld with block %d of life %u wrong",
                     worker->index, (long long)session->rid, wrong, life);
    }
}

static void send(struct cluster_worker *worker,
                 const struct transfer_command *command)
{
    struct cluster *world = worker->world;
    struct cluster_session *session =
        cluster_session_find(worker, command->request);
    if (session == NULL) {
        if (world->rid_is_pair[command->rid]) {
            cluster_fail(world, "worker %u: rid %lld: a slice without an offer",
                         worker->index, (long long)command->rid);
            return;
        }
        session = open_session(worker, command);
    }
    if (session->word & AGREE_TERMINAL) {
        return; /* it has failed, and its engine hears of it next */
    }
    check_slice(worker, session, command);
    if (cluster_has_failed(world)) {
        return;
    }
    check_aux(worker, session, command);
    note_pages(session, command);
    for (uint32_t life = 0; life < command->group_count; life++) {
        bool streams = session->streaming & 1u << life;
        uint32_t first = streams ? command->first_block : 0;
        uint32_t end = streams || command->is_last ? command->end_block : 0;
        name(worker, session, life, first, end);
        check_content(worker, session, life, first, end);
    }
    session->ends[session->slice_count++] = command->end_block;
    session->has_last = command->is_last;
    world->summary.slices++;
}

static void offer(struct cluster_worker *worker,
                  const struct transfer_command *command)
{
    const struct cluster_session *session = open_session(worker, command);
    if (!session->is_generation_first) {
        cluster_fail(worker->world, "worker %u offers rid %lld for nobody",
                     worker->index, (long long)command->rid);
    }
    worker->world->summary.offers++;
}

static void withdraw(struct cluster_worker *worker,
                     const struct transfer_command *command)
{
    struct cluster_session *session =
        cluster_session_find(worker, command->request);
    worker->world->summary.withdrawals++;
    if (session == NULL) {
        return; /* it has ended, and its engine hears of it next */
    }
    bool is_offer = session->is_generation_first && !session->is_receive &&
                    session->slice_count == 0;
    if (!is_offer || session->is_withdrawal_ordered) {
        cluster_fail(worker->world, "worker %u withdraws rid %lld, no offer",
                     worker->index, (long long)command->rid);
    }
    session->is_withdrawal_ordered = true;
}

void cluster_check_order(struct cluster_worker *worker,
                         const struct transfer_command *command)
{
    static const char *const NAMES[] = {"offers", "withdraws", "sends",
                                        "receives", "cancels"};
    cluster_say(worker->world, "worker %u %s rid %lld blocks [%u, %u) of %u",
                worker->index, NAMES[command->kind], (long long)command->rid,
                command->first_block, command->end_block, command->block_count);
    struct cluster_session *session;
    switch (command->kind) {
    case TRANSFER_OFFER:
        offer(worker, command);
        break;
    case TRANSFER_WITHDRAW:
        withdraw(worker, command);
        break;
    case TRANSFER_SEND:
        send(worker, command);
        break;
    case TRANSFER_RECEIVE:
        receive(worker, command);
        break;
    case TRANSFER_CANCEL:
        session = cluster_session_find(worker, command->request);
        if (session != NULL) {
            session->is_cancelled = true;
        }
        break;
    }
}
