#pragma once
/* prefix/pmac_aesni: PMAC by the AES instructions of x86-64. The sums of the
 * following messages run in the shadow of the chain's own AES, whose ten dependent
 * rounds are then what a link costs. Called through prefix/pmac.h only. */
#include <stdbool.h>

#include "prefix/pmac.h"

extern const struct prefix_pmac_body PREFIX_PMAC_AESNI;

bool prefix_pmac_aesni_is_usable(void);
