#pragma once
/* cli/sim_cluster: `baton sim cluster`. */
#include <stdbool.h>
#include <stdint.h>

struct cli_sim_cluster {
    uint64_t seed;
    uint32_t seed_count;
    bool is_traced, is_calm;
    bool is_counted; /* seeds that do not count are made up for */
};
int cli_sim_cluster(const struct cli_sim_cluster *args);
