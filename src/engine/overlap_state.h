#pragma once
/* engine/overlap_state: between the files of engine/overlap only. */
#include "engine/overlap.h"

/* overlap_own.c */
void batch_init(const struct engine_core *core, struct batch *batch);
void batch_finish(struct batch *batch);
/* All that the model reads of it becomes the batch's own; a token that is not
 * known yet becomes a feed. Before anything else is noted of its runs. */
void batch_own(const struct engine_core *core, struct batch *batch);

/* overlap_fence.c: which pages of level 0 batches under way use. */
void fence_init(struct engine_core *core);
void fence_finish(struct engine_core *core);
/* The newest batch under way; orders of copies until now are before it. */
void fence_raise(struct engine_core *core, const struct batch *batch);
void fence_lower(struct engine_core *core, const struct batch *batch);
