/* What the transfer says became of an order, and what must be true then. */
#include "agree/word.h"
#include "sim/cluster_world.h"

/* ---- growing and ending (I8, I15, I16) ---- */

static void check_word(struct cluster *world,
                       const struct cluster_session *session,
                       const struct transfer_report *report)
{
    bool is_grown = session->word == 0 ||
                    agree_word_may_become(session->word, report->word);
    if (report->word != 0 && !agree_word_is_legal(report->word)) {
        cluster_fail(world, "word %02x is not legal", report->word);
    }
    if (!is_grown) {
        cluster_fail(world, "word %02x becomes %02x", session->word,
                     report->word);
    }
}

/* Only what was ordered, before anybody asked; then all of it is over. */
static void check_withdrawn(struct cluster_worker *worker,
                            const struct cluster_session *session,
                            const struct transfer_report *report)
{
    if (!session->is_withdrawal_ordered || session->is_awaited ||
        report->is_awaited || !(report->word & AGREE_QUIET)) {
        cluster_fail(worker->world, "rid %lld is withdrawn out of turn",
                     (long long)session->rid);
    }
    cluster_session_forget(worker, session->ticket);
}

/* Slices drain in order, and only if they were posted; what has drained was
 * still what it had been. */
static void check_drained(struct cluster_worker *worker,
                          struct cluster_session *session,
                          const struct transfer_report *report)
{
    struct cluster *world = worker->world;
    if (report->slice_index < session->drained ||
        report->slice_index > session->slice_count ||
        (session->is_awaited && !report->is_awaited)) {
        cluster_fail(world, "rid %lld: %u of %u slices through, %u before",
                     (long long)session->rid, report->slice_index,
                     session->slice_count, session->drained);
        return;
    }
    const struct cluster_request *request =
        cluster_owner_of(world, session->rid);
    bool is_whole =
        session->has_last && report->slice_index == session->slice_count;
    uint32_t from =
        session->drained == 0 ? 0 : session->ends[session->drained - 1];
    uint32_t to =
        report->slice_index == 0 ? 0 : session->ends[report->slice_index - 1];
    for (uint32_t life = 0; life < world->core_options.life_count; life++) {
        bool streams = session->streaming & 1u << life;
        uint32_t first = streams ? from : 0;
        uint32_t end = streams || is_whole ? to : 0;
        int32_t wrong = cluster_pages_compare(
            worker, request, life, session->posted[life], first, end);
        for (uint32_t i = first; i < end && wrong < 0; i++) {
            wrong = session->pages[life][i] != session->posted[life][i]
                        ? (int32_t)i
                        : -1;
        }
        if (wrong >= 0) {
            cluster_fail(world,
                         "rid %lld: block %d of life %u changed while it was "
                         "sent",
                         (long long)session->rid, wrong, life);
        }
    }
    session->drained = report->slice_index;
}

/* Nothing of it goes on, neither as source nor into its pages. */
static void check_quiet(struct cluster_worker *worker,
                        const struct cluster_session *session)
{
    bool is_moving =
        cluster_rid_is_moving(worker, session->rid, session->is_receive);
    for (uint32_t life = 0; session->is_receive && !is_moving &&
                            life < worker->world->core_options.life_count;
         life++) {
        for (uint32_t i = 0; i < session->block_count; i++) {
            kv_page_id page = session->posted[life][i];
            is_moving |= page != KV_PAGE_NONE &&
                         cluster_page_is_target(
                             worker, cluster_page_of(worker, life, page));
        }
    }
    if (is_moving) {
        cluster_fail(worker->world,
                     "worker %u calls rid %lld quiet, and a write goes on",
                     worker->index, (long long)session->rid);
    }
}

/* ---- complete ---- */

static void check_sent(struct cluster_worker *worker,
                       const struct cluster_session *session)
{
    if (!session->has_last || session->drained != session->slice_count) {
        cluster_fail(worker->world,
                     "worker %u calls rid %lld sent, %u of %u slices are",
                     worker->index, (long long)session->rid, session->drained,
                     session->slice_count);
    }
}

/* First tokens are there if they are to come, and they are this prompt's. */
static void check_aux(struct cluster_worker *worker,
                      const struct cluster_session *session,
                      const struct transfer_aux *aux)
{
    const struct cluster_request *request =
        cluster_owner_of(worker->world, session->rid);
    bool is_right =
        session->is_generation_first
            ? aux != NULL && aux->choice_count == 1 &&
                  aux->prompt_tokens == request->prompt_count &&
                  aux->firsts[0].token == request->tokens[request->prompt_count]
            : aux == NULL;
    if (!is_right) {
        cluster_fail(worker->world,
                     "worker %u received wrong first tokens for rid %lld",
                     worker->index, (long long)session->rid);
    }
    worker->world->summary.auxes += aux != NULL;
}

/* Every page that decoding reads holds what the model computes, and was written
 * once (I2, I3, I6, I28). */
static void check_received(struct cluster_worker *worker,
                           const struct cluster_session *session, uint32_t life)
{
    struct cluster *world = worker->world;
    const struct cluster_request *request =
        cluster_owner_of(world, session->rid);
    int32_t wrong = -1;
    for (uint32_t i = 0; i < session->block_count && wrong < 0; i++) {
        if (session->posted[life][i] == KV_PAGE_NONE ||
            !cluster_is_needed(world, life, i, request->prompt_count)) {
            continue;
        }
        wrong = session->written[life][i] == 1
                    ? cluster_pages_compare(worker, request, life,
                                            session->posted[life], i, i + 1)
                    : (int32_t)i;
    }
    if (wrong >= 0) {
        cluster_fail(world,
                     "worker %u received block %d of life %u of rid %lld wrong",
                     worker->index, wrong, life, (long long)session->rid);
    }
}

static void check_done(struct cluster_worker *worker,
                       const struct cluster_session *session,
                       const struct transfer_report *report)
{
    struct cluster *world = worker->world;
    if (!session->is_receive) {
        check_sent(worker, session);
        return;
    }
    world->summary.receives_done++;
    check_aux(worker, session, report->aux);
    for (uint32_t life = 0; life < world->core_options.life_count; life++) {
        check_received(worker, session, life);
    }
}

/* ---- a report ---- */

/* Integrity is lost where a wrong byte was written, and nowhere else: sender and
 * receiver count the same. */
static void count(struct cluster *world, const struct cluster_session *session,
                  const struct transfer_report *report)
{
    uint8_t fresh = report->word & (uint8_t)~session->word;
    bool is_broken =
        (fresh & AGREE_FAILED) && report->reason == AGREE_REASON_INTEGRITY;
    world->summary.quarantines += (fresh & AGREE_UNSAFE) != 0;
    world->summary.integrity_failures += is_broken;
    if (is_broken && !world->rid_is_flipped[session->rid]) {
        cluster_fail(world, "rid %lld loses its integrity for nothing",
                     (long long)session->rid);
    }
}

void cluster_check_report(struct cluster_worker *worker,
                          const struct transfer_report *report)
{
    struct cluster *world = worker->world;
    struct cluster_session *session =
        cluster_session_find(worker, report->request);
    if (session == NULL || report->request == 0) {
        cluster_fail(world, "worker %u hears of a session that has ended",
                     worker->index);
        return;
    }
    cluster_say(world,
                "worker %u hears rid %lld word %02x reason %u awaited "
                "%d through %u",
                worker->index, (long long)session->rid, report->word,
                report->reason, report->is_awaited, report->slice_index);
    check_word(world, session, report);
    if (!session->is_receive) {
        check_drained(worker, session, report);
        session->is_awaited = report->is_awaited;
    }
    if (report->is_withdrawn) {
        check_withdrawn(worker, session, report);
    }
    bool is_failed = report->word & AGREE_FAILED;
    bool is_new = !(session->word & AGREE_TERMINAL);
    if ((report->word & AGREE_TERMINAL) && !is_failed && is_new) {
        check_done(worker, session, report);
    } else if (report->aux != NULL) {
        cluster_fail(world, "rid %lld has first tokens without its pages",
                     (long long)session->rid);
    }
    count(world, session, report);
    session->word = report->word;
    if (report->word & AGREE_QUIET) {
        check_quiet(worker, session);
        session->ticket = 0;
    }
}
