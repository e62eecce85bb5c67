/* Stories: instead of what a seed draws, a few lines say what happens, and until
 * when. The world is small and nothing in it goes wrong by chance.
 *
 *   world KEY=NUMBER ...     its size, first line only; lives=1: full attention,
 *                            2: and a window, 3: and another one
 *   ask first|after P L N    a request, generation-first or context-first, with
 *                            prompt P of L tokens, for N new ones
 *   pull R W, want R W       worker W asks for request R's KV too; for KV of its
 *                            prompt under an id that nobody will ever serve
 *   until TEXT               goes on until a line of the trace has TEXT
 *   for MS                   goes on so long
 *   hold A B, release        writes from A to B stay as they are; all go on
 *   fate good|stop|doubt|flip    what becomes of the next write
 *   drop                     the next slice lacks its first block
 *   leave R                  a client goes
 *   crash W, start W, freeze W, thaw W, shut W    (shut: as soon as it may go)
 *   break A B, silence A B, sound A B    (silence: from A to B alone)
 *
 * At the end all is well again and everything has to end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/mem.h"
#include "sim/cluster_world.h"

enum { WORD_MAX = 16, LINE_SIZE = 200, WAIT_S_MAX = 20 };

struct line {
    char text[LINE_SIZE];
    char *words[WORD_MAX];
    uint32_t word_count;
    char rest[LINE_SIZE]; /* behind the first word */
};

static uint32_t number_of(const char *text)
{
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    CHECK(end != text);
    CHECK(*end == 0);
    return (uint32_t)number;
}

static void split(struct line *line)
{
    const char *space = strchr(line->text, ' ');
    const char *rest = space == NULL ? "" : space + 1;
    memcpy(line->rest, rest, strlen(rest) + 1);
    line->word_count = 0;
    char *at = line->text;
    while (*at != 0) {
        CHECK(line->word_count < WORD_MAX);
        line->words[line->word_count++] = at;
        at += strcspn(at, " ");
        while (*at == ' ') {
            *at++ = 0;
        }
    }
}

/* The next line of the story, in words; false: there is none. */
static bool next_line(const char **story, struct line *line)
{
    while (**story == '\n') {
        (*story)++;
    }
    size_t size = strcspn(*story, "\n");
    CHECK(size < LINE_SIZE);
    memcpy(line->text, *story, size);
    line->text[size] = 0;
    *story += size;
    split(line);
    return size > 0;
}

/* ---- the world ---- */

/* Far from everything that a seed makes tight. */
static void set_engine(struct cluster *world)
{
    struct engine_core_options *core = &world->core_options;
    *core = (struct engine_core_options){.life_count = 1,
                                         .group_count = 1,
                                         .tokens_per_block = 4,
                                         .max_batch = 4,
                                         .max_seq = 64,
                                         .row_count_max = 48,
                                         .chunk_tokens = 8,
                                         .chunk_unit = 1,
                                         .is_chunked = true,
                                         .score_row_max = 8,
                                         .turn_ns_max = 50 * CLUSTER_MS,
                                         .queue_limit = 16,
                                         .vocab_size = CLUSTER_VOCABULARY,
                                         .policy = SCHED_GUARANTEED_NO_EVICT,
                                         .enable_block_reuse = true,
                                         .is_mixed = true,
                                         .session_max = 4,
                                         .kv_transfer_timeout_ns =
                                             1000 * CLUSTER_MS};
}

static void set_world(struct cluster *world)
{
    world->context_count = 1;
    world->generation_count = 1;
    world->prompt_max = 48;
    world->output_max = 12;
    world->pass_ns = 2 * CLUSTER_MS;
    world->hostility.write_ns_max = CLUSTER_MS;
    world->http_ns_max = CLUSTER_MS;
    world->grace_ns = 200 * CLUSTER_MS;
    world->heartbeat_ns = 50 * CLUSTER_MS;
    world->advert_ttl_ns = 600 * CLUSTER_MS;
    world->keeps_peers = true;
}

/* Windows of two blocks, and of four with a sink. */
static void set_lives(struct cluster *world, uint32_t count)
{
    struct engine_core_options *core = &world->core_options;
    CHECK(count >= 1);
    CHECK(count <= 3);
    core->life_count = core->group_count = count;
    core->lives[1] = (struct kv_life){.window = 8};
    core->lives[2] = (struct kv_life){.window = 16, .sink_tokens = 4};
    for (uint32_t i = 0; i < count; i++) {
        core->group_of[i] = (uint8_t)i;
    }
}

static void set_option(struct cluster *world, const char *word, uint32_t *pages)
{
    struct engine_core_options *core = &world->core_options;
    const char *equals = strchr(word, '=');
    CHECK(equals != NULL);
    uint32_t number = number_of(equals + 1);
    size_t size = (size_t)(equals - word);
    if (strncmp(word, "context", size) == 0) {
        world->context_count = number;
    } else if (strncmp(word, "generation", size) == 0) {
        world->generation_count = number;
    } else if (strncmp(word, "lives", size) == 0) {
        set_lives(world, number);
    } else if (strncmp(word, "sessions", size) == 0) {
        core->session_max = number;
    } else if (strncmp(word, "timeout", size) == 0) {
        core->kv_transfer_timeout_ns = number * CLUSTER_MS;
    } else if (strncmp(word, "chunk", size) == 0) {
        core->chunk_tokens = number;
    } else {
        CHECK(strncmp(word, "pages", size) == 0);
        *pages = number;
    }
}

void cluster_story_draw(struct cluster *world)
{
    struct line line;
    uint32_t pages = 64;
    set_engine(world);
    set_world(world);
    world->story = world->options.story;
    CHECK(next_line(&world->story, &line));
    CHECK(strcmp(line.words[0], "world") == 0);
    for (uint32_t i = 1; i < line.word_count; i++) {
        set_option(world, line.words[i], &pages);
    }
    world->worker_count = world->context_count + world->generation_count;
    CHECK(world->worker_count <= CLUSTER_WORKER_MAX);
    for (uint32_t i = 0; i < world->worker_count; i++) {
        for (uint32_t k = 0; k < world->core_options.group_count; k++) {
            world->page_counts[i][k] = pages;
        }
    }
}

/* ---- what happens ---- */

static struct cluster_request *request_of(struct cluster *world,
                                          const char *word)
{
    uint32_t index = number_of(word);
    CHECK(index < world->request_count);
    return &world->requests[index];
}

static struct cluster_worker *worker_of(struct cluster *world, const char *word)
{
    uint32_t index = number_of(word);
    CHECK(index < world->worker_count);
    return &world->workers[index];
}

static void wait_until(struct cluster *world, const char *text)
{
    world->awaited = text;
    cluster_run_until(world,
                      io_sim_now(world->io) + WAIT_S_MAX * 1000 * CLUSTER_MS,
                      cluster_story_waits);
    if (world->awaited != NULL) {
        cluster_fail(world, "the story waits in vain for: %s", text);
    }
    world->awaited = NULL;
}

static bool goes_on(const struct cluster *world)
{
    (void)world;
    return true;
}

static void link_of(struct cluster *world, const struct line *line,
                    uint32_t *one_out, uint32_t *other_out)
{
    *one_out = worker_of(world, line->words[1])->host;
    *other_out = worker_of(world, line->words[2])->host;
}

static void act_on_link(struct cluster *world, const struct line *line)
{
    const char *verb = line->words[0];
    uint32_t one, other;
    link_of(world, line, &one, &other);
    if (strcmp(verb, "hold") == 0) {
        world->is_held[one - 1][other - 1] = true;
    } else if (strcmp(verb, "break") == 0) {
        IGNORE(io_sim_break(world->io, one, other) == 0);
    } else {
        io_sim_block(world->io, one, other, strcmp(verb, "silence") == 0);
    }
}

/* In order: refused while a session is not quiet. */
static void shut(struct cluster *world, struct cluster_worker *worker)
{
    uint64_t limit_ns = io_sim_now(world->io) + 1000 * CLUSTER_MS;
    while (!cluster_worker_stop(worker)) {
        CHECK(io_sim_now(world->io) < limit_ns);
        cluster_run_until(world, io_sim_now(world->io) + CLUSTER_MS, goes_on);
    }
    cluster_say(world, "worker %u leaves", worker->index);
}

static void act_on_worker(struct cluster *world, const struct line *line)
{
    const char *verb = line->words[0];
    struct cluster_worker *worker = worker_of(world, line->words[1]);
    if (strcmp(verb, "crash") == 0) {
        cluster_worker_crash(worker);
    } else if (strcmp(verb, "start") == 0) {
        cluster_worker_start(world, worker->index);
    } else if (strcmp(verb, "shut") == 0) {
        shut(world, worker);
    } else {
        cluster_worker_freeze(worker, strcmp(verb, "freeze") == 0);
    }
}

static void set_fate(struct cluster *world, const char *word)
{
    static const char *const NAMES[] = {"good", "stop", "doubt", "hang",
                                        "flip"};
    uint32_t fate = 0;
    while (strcmp(word, NAMES[fate]) != 0) {
        fate++;
        CHECK(fate < sizeof(NAMES) / sizeof(NAMES[0]));
    }
    world->next_fate = (enum cluster_fate)fate;
}

static bool is_verb(const struct line *line, const char *verb,
                    uint32_t word_count)
{
    return strcmp(line->words[0], verb) == 0 && line->word_count == word_count;
}

static bool is_one_of(const struct line *line, const char *verbs,
                      uint32_t word_count)
{
    return strstr(verbs, line->words[0]) != NULL &&
           line->word_count == word_count;
}

static void act_on_request(struct cluster *world, const struct line *line)
{
    if (is_verb(line, "ask", 5)) {
        cluster_load_ask(world, strcmp(line->words[1], "first") == 0,
                         number_of(line->words[2]), number_of(line->words[3]),
                         number_of(line->words[4]));
    } else if (is_verb(line, "leave", 2)) {
        cluster_front_gone(world, request_of(world, line->words[1]));
    } else {
        bool is_known = is_verb(line, "pull", 3);
        CHECK(is_known || is_verb(line, "want", 3));
        cluster_front_pull(world, request_of(world, line->words[1]),
                           number_of(line->words[2]), is_known);
    }
}

static void act(struct cluster *world, const struct line *line)
{
    if (is_one_of(line, "hold break silence sound", 3)) {
        act_on_link(world, line);
    } else if (is_one_of(line, "crash start freeze thaw shut", 2)) {
        act_on_worker(world, line);
    } else if (strcmp(line->words[0], "until") == 0) {
        wait_until(world, line->rest);
    } else if (is_verb(line, "for", 2)) {
        cluster_run_until(world,
                          io_sim_now(world->io) +
                              number_of(line->words[1]) * CLUSTER_MS,
                          goes_on);
    } else if (is_verb(line, "release", 1)) {
        memset(world->is_held, 0, sizeof(world->is_held));
        cluster_writes_release(world);
    } else if (is_verb(line, "fate", 2)) {
        set_fate(world, line->words[1]);
    } else if (is_verb(line, "drop", 1)) {
        world->drops_block = true;
    } else {
        act_on_request(world, line);
    }
}

bool cluster_story_waits(const struct cluster *world)
{
    return world->awaited != NULL;
}

void cluster_story_hear(struct cluster *world, const char *line)
{
    if (world->awaited != NULL && strstr(line, world->awaited) != NULL) {
        world->awaited = NULL;
    }
}

static void make_well(struct cluster *world)
{
    memset(world->is_held, 0, sizeof(world->is_held));
    cluster_writes_release(world);
    for (uint32_t i = 0; i < world->worker_count; i++) {
        struct cluster_worker *worker = &world->workers[i];
        if (!worker->is_alive) {
            cluster_worker_start(world, i);
        } else if (worker->is_frozen) {
            cluster_worker_freeze(worker, false);
        }
        for (uint32_t k = 0; k < world->worker_count; k++) {
            io_sim_block(world->io, i + 1, k + 1, false);
        }
    }
}

/* The engine's list stays as it is; what the transfer is told lacks a block. */
void cluster_story_tamper(struct cluster *world,
                          struct transfer_command *command)
{
    if (!world->drops_block || command->kind != TRANSFER_SEND) {
        return;
    }
    world->drops_block = false;
    world->rid_is_flipped[command->rid] = true;
    memcpy(world->tampered, command->pages[0],
           command->block_count * sizeof(world->tampered[0]));
    world->tampered[command->first_block] = KV_PAGE_NONE;
    command->pages[0] = world->tampered;
    cluster_say(world, "rid %lld loses block %u", (long long)command->rid,
                command->first_block);
}

void cluster_story_run(struct cluster *world)
{
    struct line line;
    char ready[40];
    snprintf(ready, sizeof(ready), "worker %u is ready",
             world->worker_count - 1);
    wait_until(world, ready);
    while (!cluster_has_failed(world) && next_line(&world->story, &line)) {
        if (strcmp(line.words[0], "until") != 0) {
            cluster_say(world, "> %s %s", line.words[0], line.rest);
        }
        act(world, &line);
    }
    make_well(world);
}
