#include "node/json.h"

#include "base/mem.h"

const struct api_member *node_json_find(struct api_json value, const char *key,
                                        struct api_object *object)
{
    if (value.kind != API_JSON_OBJECT ||
        api_scan_object(value, NULL, object) != OK) {
        return NULL;
    }
    return api_find(object, key);
}

bool node_json_first_model(struct span answer, struct buf *model)
{
    struct api_object *object = mem_new(sizeof(*object));
    struct api_json list, entry;
    size_t cursor = 0;
    const struct api_member *member = NULL;
    if (api_scan_value(answer, NULL, &list) == OK) {
        member = node_json_find(list, "data", object);
    }
    if (member != NULL && api_array_next(member->value, &cursor, &entry)) {
        member = node_json_find(entry, "id", object);
    }
    bool is_named = member != NULL && member->value.kind == API_JSON_STRING;
    if (is_named) {
        buf_add_span(model, member->value.text);
    }
    mem_free(object);
    return is_named;
}
