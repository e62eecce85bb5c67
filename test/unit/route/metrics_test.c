/* route/metrics: what the front end publishes, by name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "../api/golden.h"
#include "../obs/exposition.h"
#include "route/metrics.h"

/* [serve T100] Every name with its kind, as in the golden file; those that
 * TensorRT-LLM's front end has are its, all others begin with baton_front_. */
static void the_names_are_as_in_the_file(void **state)
{
    static struct route_pool pool;
    struct route_metrics metrics;
    struct buf out, families;
    (void)state;
    buf_init(&out, 1 << 20);
    buf_init(&families, 1 << 16);
    route_metrics_init(&metrics);
    route_metrics_print(&metrics, &pool, &out);
    exposition_families(&out, &families);
    exposition_is_conventional(&families);
    golden_is("test/golden/names/front_metrics.txt", buf_span(&families));
    route_metrics_finish(&metrics);
    buf_finish(&families);
    buf_finish(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_names_are_as_in_the_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
