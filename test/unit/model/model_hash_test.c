/* The hash body against its pure twin, on shuffled pages; and with one byte of
 * a page changed. */
#include "unit/base/test.h"

#include "base/mem.h"
#include "base/rng.h"
#include "unit/model/fixture.h"

enum { VOCAB = 500, COUNT = 40, BLOCK = 4, PAGES = 2 * COUNT / BLOCK };

static const struct model_hash_options OPTIONS = {.vocab_size = VOCAB,
                                                  .context_length = 64,
                                                  .layer_count = 3,
                                                  .tokens_per_block = BLOCK,
                                                  .seed = 99};

struct setup {
    struct model *model;
    struct fixture_pool pool;
    int32_t tokens[COUNT];
    float logits[COUNT * VOCAB];
};

static struct setup *begin(void)
{
    struct setup *s = calloc(1, sizeof(*s));
    s->model = model_hash_create(&OPTIONS);
    fixture_pool_make(&s->model->info.layout, PAGES, 5, &s->pool);
    s->model->ops->set_pool(s->model, &s->pool.view);
    struct rng rng = rng_from_seed(1);
    for (uint32_t i = 0; i < COUNT; i++) {
        s->tokens[i] = (int32_t)rng_below(&rng, VOCAB);
    }
    return s;
}

static void end(struct setup *s)
{
    s->model->ops->destroy(s->model);
    fixture_pool_end(&s->pool);
    free(s);
}

static enum err forward(struct setup *s, uint32_t begin_at, uint32_t count,
                        uint32_t logit_count, const kv_page_id *pages)
{
    struct model_run run = {.tokens = s->tokens + begin_at,
                            .token_count = count,
                            .position = begin_at,
                            .pages = pages,
                            .logit_count = logit_count};
    struct model_batch batch = {.runs = &run, .run_count = 1};
    return s->model->ops->forward(s->model, &batch, s->logits);
}

static int32_t best(const float *row)
{
    int32_t at = 0;
    for (int32_t i = 1; i < VOCAB; i++) {
        at = row[i] > row[at] ? i : at;
    }
    return at;
}

static int32_t expected(const struct setup *s, uint32_t count)
{
    return model_hash_next(&OPTIONS, s->tokens, count);
}

/* Whole, in chunks and one by one: the same peaks as the pure function. */
static void answers_are_those_of_the_pure_function(void **state)
{
    (void)state;
    const uint32_t CHUNKS[] = {COUNT, 7, 1};
    struct setup *s = begin();
    for (uint32_t c = 0; c < 3; c++) {
        for (uint32_t at = 0; at < COUNT; at += CHUNKS[c]) {
            uint32_t left = COUNT - at;
            uint32_t size = left < CHUNKS[c] ? left : CHUNKS[c];
            assert_int_equal(forward(s, at, size, size, s->pool.pages), OK);
            for (uint32_t i = 0; i < size; i++) {
                assert_int_equal(best(s->logits + (size_t)i * VOCAB),
                                 expected(s, at + i + 1));
            }
        }
    }
    end(s);
}

/* Any byte of the sequence's pages, K or V, any layer: changed, it changes the
 * next token. With 500 tokens one change in 500 may hide; few may here. */
static void a_wrong_byte_gives_a_wrong_token(void **state)
{
    (void)state;
    struct setup *s = begin();
    struct rng rng = rng_from_seed(2);
    uint32_t hidden = 0;
    assert_int_equal(forward(s, 0, COUNT - 1, 0, s->pool.pages), OK);
    for (uint32_t i = 0; i < 300; i++) {
        uint64_t block = rng_below(&rng, (COUNT - 1) / BLOCK);
        uint8_t *byte = s->pool.view.base +
                        (size_t)s->pool.pages[block] * s->pool.view.page_bytes +
                        rng_below(&rng, s->pool.view.page_bytes);
        *byte ^= 1;
        assert_int_equal(forward(s, COUNT - 1, 1, 1, s->pool.pages), OK);
        hidden += best(s->logits) == expected(s, COUNT);
        *byte ^= 1;
    }
    assert_true(hidden <= 3);
    assert_int_equal(forward(s, COUNT - 1, 1, 1, s->pool.pages), OK);
    assert_int_equal(best(s->logits), expected(s, COUNT));
    end(s);
}

/* Two blocks of the table change places: a wrong token. */
static void swapped_pages_give_a_wrong_token(void **state)
{
    (void)state;
    struct setup *s = begin();
    assert_int_equal(forward(s, 0, COUNT - 1, 0, s->pool.pages), OK);
    kv_page_id pages[COUNT / BLOCK];
    memcpy(pages, s->pool.pages, sizeof(pages));
    pages[2] = s->pool.pages[5];
    pages[5] = s->pool.pages[2];
    assert_int_equal(forward(s, COUNT - 1, 1, 1, pages), OK);
    assert_int_not_equal(best(s->logits), expected(s, COUNT));
    end(s);
}

/* Pages hold what depends on the prefix: a page of equal tokens at an equal
 * position behind another prefix is not the same page. */
static void pages_depend_on_what_came_before(void **state)
{
    (void)state;
    struct setup *s = begin();
    assert_int_equal(forward(s, 0, 3 * BLOCK, 0, s->pool.pages), OK);
    s->tokens[0] = (s->tokens[0] + 1) % VOCAB;
    kv_page_id other[3] = {s->pool.pages[6], s->pool.pages[7],
                           s->pool.pages[1]};
    assert_int_equal(forward(s, 0, 2 * BLOCK, 0, other), OK);
    other[1] = s->pool.pages[1];
    assert_int_equal(forward(s, 2 * BLOCK, BLOCK, 1, other), OK);
    assert_int_not_equal(best(s->logits), expected(s, 3 * BLOCK));
    end(s);
}

/* Runs of one batch pack their rows in order; the flag stops a pass. */
static void batches_pack_and_cancel(void **state)
{
    (void)state;
    struct setup *s = begin();
    struct model_run runs[2] = {{.tokens = s->tokens,
                                 .token_count = 5,
                                 .pages = s->pool.pages,
                                 .logit_count = 2},
                                {.tokens = s->tokens,
                                 .token_count = 9,
                                 .pages = s->pool.pages + PAGES / 2,
                                 .logit_count = 1}};
    atomic_bool cancel = false;
    struct model_batch batch = {
        .runs = runs, .run_count = 2, .cancel = &cancel};
    uint64_t before = mem_allocation_count();
    assert_int_equal(s->model->ops->forward(s->model, &batch, s->logits), OK);
    assert_int_equal(mem_allocation_count(), before);
    assert_int_equal(best(s->logits), expected(s, 4));
    assert_int_equal(best(s->logits + VOCAB), expected(s, 5));
    assert_int_equal(best(s->logits + 2 * VOCAB), expected(s, 9));
    atomic_store(&cancel, true);
    assert_int_equal(s->model->ops->forward(s->model, &batch, s->logits),
                     ERR_CANCELLED);
    end(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_the_pure_function),
        cmocka_unit_test(a_wrong_byte_gives_a_wrong_token),
        cmocka_unit_test(swapped_pages_give_a_wrong_token),
        cmocka_unit_test(pages_depend_on_what_came_before),
        cmocka_unit_test(batches_pack_and_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
