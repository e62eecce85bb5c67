#include "api/scan.h"

#include <string.h>

#include "api/walk.h"
#include "base/utf8.h"

static bool has_escape(struct span key)
{
    return key.size > 0 && memchr(key.data, '\\', key.size) != NULL;
}

/* Compares what two keys mean, at least one of which has escapes. */
static bool decoded_equals(struct span a, struct span b)
{
    const uint8_t *at[2] = {a.data, b.data};
    const uint8_t *end[2] = {a.data + a.size, b.data + b.size};
    while (at[0] < end[0] && at[1] < end[1]) {
        uint8_t text[2][4];
        size_t size[2];
        for (int i = 0; i < 2; i++) {
            size[i] = api_walk_decode(&at[i], end[i], text[i]);
        }
        /* A plain byte of a longer character meets an escape of the whole:
         * take the rest of the character from the plain side. */
        for (int i = 0; i < 2; i++) {
            while (size[i] < size[1 - i] && at[i] < end[i]) {
                text[i][size[i]++] = *at[i]++;
            }
        }
        if (size[0] != size[1] || memcmp(text[0], text[1], size[0]) != 0) {
            return false;
        }
    }
    return at[0] == end[0] && at[1] == end[1];
}

bool api_key_equals(struct span a, struct span b)
{
    if (!has_escape(a) && !has_escape(b)) {
        return span_equals(a, b);
    }
    return decoded_equals(a, b);
}

void api_key_text(struct span key, char *out, size_t size)
{
    const uint8_t *at = key.data;
    const uint8_t *end = at + key.size;
    size_t used = 0;
    while (at < end) {
        uint8_t text[4];
        size_t count = api_walk_decode(&at, end, text);
        bool is_begin = (text[0] & 0xc0) != 0x80;
        size_t wanted = is_begin ? utf8_expected(text[0]) : count;
        if (used + wanted >= size) {
            break;
        }
        memcpy(out + used, text, count);
        used += count;
    }
    out[used] = 0;
}

static enum err refuse_twin(const struct api_object *object, struct span key,
                            struct why *why)
{
    for (uint32_t i = 0; i < object->member_count; i++) {
        if (api_key_equals(object->members[i].key, key)) {
            char text[64];
            api_key_text(key, text, sizeof(text));
            return why_say(why, ERR_EXISTS, "%s: is given twice", text);
        }
    }
    return OK;
}

/* Reads `"key": value` at the walk. */
static bool walk_member(struct api_walk *walk, struct api_member *member_out)
{
    const uint8_t *begin = walk->at;
    if (!api_walk_string(walk)) {
        return false;
    }
    struct span key = span_of(begin + 1, (size_t)(walk->at - begin) - 2);
    api_walk_blank(walk);
    if (!api_walk_is_at(walk, ':')) {
        return api_walk_fail(walk, "`:` is expected");
    }
    walk->at++;
    api_walk_blank(walk);
    const uint8_t *value = walk->at;
    enum api_json_kind kind;
    if (!api_walk_value(walk, 1, &kind)) {
        return false;
    }
    *member_out = (struct api_member){
        .key = key,
        .value = {kind, span_of(value, (size_t)(walk->at - value))},
        .begin = (size_t)(begin - walk->begin),
        .end = (size_t)(walk->at - walk->begin),
    };
    return true;
}

static enum err scan_members(struct api_walk *walk, struct why *why,
                             struct api_object *object)
{
    for (;;) {
        if (object->member_count == API_MEMBER_COUNT_MAX) {
            return why_say(why, ERR_FULL, "more than %d members",
                           API_MEMBER_COUNT_MAX);
        }
        struct api_member member;
        if (!walk_member(walk, &member)) {
            return api_walk_say(walk, why);
        }
        enum err code = refuse_twin(object, member.key, why);
        if (code != OK) {
            return code;
        }
        object->members[object->member_count++] = member;
        api_walk_blank(walk);
        if (api_walk_is_at(walk, '}')) {
            walk->at++;
            return OK;
        }
        if (!api_walk_is_at(walk, ',')) {
            api_walk_fail(walk, "`,` or `}` is expected");
            return api_walk_say(walk, why);
        }
        walk->at++;
        api_walk_blank(walk);
    }
}

static enum err scan(struct span body, bool allows_nul, struct why *why,
                     struct api_object *object_out)
{
    struct api_walk walk = api_walk_of(body);
    walk.allows_nul = allows_nul;
    api_walk_blank(&walk);
    if (!api_walk_is_at(&walk, '{')) {
        api_walk_fail(&walk, "an object is expected");
        return api_walk_say(&walk, why);
    }
    walk.at++;
    api_walk_blank(&walk);
    object_out->body = body;
    object_out->member_count = 0;
    if (api_walk_is_at(&walk, '}')) {
        walk.at++;
    } else {
        enum err code = scan_members(&walk, why, object_out);
        if (code != OK) {
            return code;
        }
    }
    return api_walk_end(&walk) ? OK : api_walk_say(&walk, why);
}

enum err api_scan(struct span body, struct why *why,
                  struct api_object *object_out)
{
    return scan(body, false, why, object_out);
}

enum err api_scan_answer(struct span body, struct why *why,
                         struct api_object *object_out)
{
    return scan(body, true, why, object_out);
}

const struct api_member *api_find(const struct api_object *object,
                                  const char *key)
{
    struct span name = span_of_string(key);
    for (uint32_t i = 0; i < object->member_count; i++) {
        const struct api_member *member = &object->members[i];
        if (api_key_equals(member->key, name)) {
            return member;
        }
    }
    return NULL;
}

enum err api_scan_value(struct span text, struct why *why,
                        struct api_json *value_out)
{
    struct api_walk walk = api_walk_of(text);
    walk.allows_nul = true;
    api_walk_blank(&walk);
    const uint8_t *begin = walk.at;
    enum api_json_kind kind;
    if (!api_walk_value(&walk, 0, &kind)) {
        return api_walk_say(&walk, why);
    }
    struct span value = span_of(begin, (size_t)(walk.at - begin));
    if (!api_walk_end(&walk)) {
        return api_walk_say(&walk, why);
    }
    *value_out = (struct api_json){kind, value};
    return OK;
}

enum err api_scan_object(struct api_json value, struct why *why,
                         struct api_object *object_out)
{
    if (value.kind != API_JSON_OBJECT) {
        return why_say(why, ERR_INVALID, "must be an object");
    }
    return scan(value.text, true, why, object_out); /* who needs it has asked */
}

/* Stands on what comes next in an array or object, or on its end. */
static struct api_walk walk_from(struct api_json container, size_t cursor)
{
    struct api_walk walk = api_walk_of(container.text);
    walk.allows_nul = true;
    walk.at += cursor + (cursor == 0);
    api_walk_blank(&walk);
    if (cursor > 0 && api_walk_is_at(&walk, ',')) {
        walk.at++;
        api_walk_blank(&walk);
    }
    return walk;
}

bool api_array_next(struct api_json array, size_t *cursor,
                    struct api_json *element_out)
{
    if (array.kind != API_JSON_ARRAY || *cursor >= array.text.size) {
        return false;
    }
    struct api_walk walk = walk_from(array, *cursor);
    const uint8_t *begin = walk.at;
    enum api_json_kind kind;
    if (api_walk_is_at(&walk, ']') || !api_walk_value(&walk, 1, &kind)) {
        *cursor = array.text.size;
        return false;
    }
    *cursor = (size_t)(walk.at - walk.begin);
    *element_out =
        (struct api_json){kind, span_of(begin, (size_t)(walk.at - begin))};
    return true;
}

bool api_object_next(struct api_json object, size_t *cursor,
                     struct api_member *member_out)
{
    if (object.kind != API_JSON_OBJECT || *cursor >= object.text.size) {
        return false;
    }
    struct api_walk walk = walk_from(object, *cursor);
    if (api_walk_is_at(&walk, '}') || !walk_member(&walk, member_out)) {
        *cursor = object.text.size;
        return false;
    }
    *cursor = (size_t)(walk.at - walk.begin);
    return true;
}

uint32_t api_array_count(struct api_json array)
{
    uint32_t count = 0;
    size_t cursor = 0;
    struct api_json element;
    while (api_array_next(array, &cursor, &element)) {
        count++;
    }
    return count;
}
