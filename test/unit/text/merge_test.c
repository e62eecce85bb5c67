/* The heap against a slow reference that looks at all pairs each time. Ids are
 * small numbers, pairs join by a table drawn from a seed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/rng.h"
#include "text/merge.h"

enum { ID_COUNT = 12, SYMBOL_COUNT_MAX = 60 };

struct table {
    struct text_merge merges[ID_COUNT][ID_COUNT]; /* id < 0: none */
};

static bool find_pair(const void *context, const struct text_symbol *left,
                      const struct text_symbol *right,
                      struct text_merge *merge_out)
{
    const struct table *table = context;
    *merge_out = table->merges[left->id][right->id];
    return merge_out->id >= 0;
}

static uint32_t slow_merge(const struct table *table, text_token *ids,
                           uint32_t count)
{
    for (;;) {
        uint32_t best = UINT32_MAX;
        for (uint32_t i = 0; i + 1 < count; i++) {
            const struct text_merge *merge = &table->merges[ids[i]][ids[i + 1]];
            if (merge->id >= 0 &&
                (best == UINT32_MAX ||
                 merge->priority <
                     table->merges[ids[best]][ids[best + 1]].priority)) {
                best = i;
            }
        }
        if (best == UINT32_MAX) {
            return count;
        }
        ids[best] = table->merges[ids[best]][ids[best + 1]].id;
        for (uint32_t i = best + 1; i + 1 < count; i++) {
            ids[i] = ids[i + 1];
        }
        count--;
    }
}

static void draw_table(struct rng *rng, struct table *table)
{
    for (int a = 0; a < ID_COUNT; a++) {
        for (int b = 0; b < ID_COUNT; b++) {
            bool joins = rng_below(rng, 3) == 0;
            table->merges[a][b] = (struct text_merge){
                (uint32_t)rng_below(rng, 20),
                joins ? (text_token)rng_below(rng, ID_COUNT) : -1};
        }
    }
}

static void it_equals_the_slow_reference(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(11);
    struct text_merger merger;
    text_merger_init(&merger);
    for (int round = 0; round < 3000; round++) {
        struct table table;
        draw_table(&rng, &table);
        uint32_t count = 1 + (uint32_t)rng_below(&rng, SYMBOL_COUNT_MAX);
        text_token ids[SYMBOL_COUNT_MAX];
        assert_int_equal(text_merger_reserve(&merger, count), OK);
        for (uint32_t i = 0; i < count; i++) {
            ids[i] = (text_token)rng_below(&rng, ID_COUNT);
            merger.symbols[i] =
                (struct text_symbol){.begin = i, .size = 1, .id = ids[i]};
        }
        text_merger_run(&merger, count, find_pair, &table);
        uint32_t expected = slow_merge(&table, ids, count);
        uint32_t got = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (merger.symbols[i].size > 0) {
                assert_int_equal(merger.symbols[i].id, ids[got]);
                got++;
            }
        }
        assert_int_equal(got, expected);
    }
    text_merger_finish(&merger);
}

static void absurd_counts_are_refused(void **state)
{
    (void)state;
    struct text_merger merger;
    text_merger_init(&merger);
    assert_int_equal(text_merger_reserve(&merger, UINT32_MAX), ERR_FULL);
    text_merger_finish(&merger);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_equals_the_slow_reference),
        cmocka_unit_test(absurd_counts_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
