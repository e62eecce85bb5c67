#pragma once
/* transfer/backend_auto: two backends as one, the near one for peers whose
 * memory it reaches, the far one for all others.
 *
 *   blob  u32 magic, u16 size and text of near's terms, u32 size and near's
 *         blob, u32 size and far's blob, u32 crc32c of these
 *   peer_open: near, if both have it with the same terms, near's config on a
 *              host with one table of processes; else far
 *
 * One pool serves both: near's memory, adopted by far. What a lane is called,
 * and who writes on it, is its backend's. */
#include "transfer/backend.h"

/* Takes both over. `near` may be NULL: this host has none. ERR_IO. */
MUST_USE enum err transfer_backend_auto_create(
    struct transfer_backend *near, struct transfer_backend *far,
    struct why *why, struct transfer_backend **backend_out);

/* Why a peer of these terms is not near, in one thing that differs; two texts
 * that do. ERR_UNSUPPORTED. */
MUST_USE enum err transfer_backend_auto_say(struct span here, struct span there,
                                            struct why *why);
