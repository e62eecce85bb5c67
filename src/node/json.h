#pragma once
/* node/json: what we read of our own servers' answers. Pure. */
#include "api/scan.h"
#include "base/buf.h"

/* The member of an object, or NULL; `object` is room for its members, which the
 * answer points into. */
const struct api_member *node_json_find(struct api_json value, const char *key,
                                        struct api_object *object);
/* Adds the first id of what /v1/models answered, a JSON string; false: it names
 * none. */
bool node_json_first_model(struct span answer, struct buf *model);
