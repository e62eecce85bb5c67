/* Both config readers over any bytes: an error or a config, never a leak or a
 * changed config after an error. */
#include <string.h>

#include "base/check.h"
#include "config/route.h"
#include "config/worker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct config_route route, route_before;
    static struct config_worker worker, worker_before;
    struct span yaml = span_of(data, size);
    struct why why;
    config_route_init(&route);
    config_route_init(&route_before);
    if (config_route_read_text(yaml, "f", &why, &route) != OK) {
        CHECK(memcmp(&route, &route_before, sizeof(route)) == 0);
    } else {
        IGNORE(config_route_check(&route, &why));
    }
    config_worker_init(&worker);
    config_worker_init(&worker_before);
    if (config_worker_read_text(yaml, "f", &why, &worker) != OK) {
        CHECK(memcmp(&worker, &worker_before, sizeof(worker)) == 0);
    } else {
        IGNORE(config_worker_check(&worker, &why));
    }
    return 0;
}
