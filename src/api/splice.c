#include "api/scan.h"

#include <string.h>

/* Which edit speaks of this member; NULL: none. */
static const struct api_edit *edit_of(const struct api_object *object,
                                      const struct api_member *member,
                                      const struct api_edit *edits,
                                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (api_find(object, edits[i].key) == member) {
            return &edits[i];
        }
    }
    return NULL;
}

static void add_text(const struct api_edit *edit, struct buf *out)
{
    size_t size = edit->text_size;
    buf_add(out, edit->text, size > 0 ? size : strlen(edit->text));
}

static void add_range(const struct api_object *object, size_t begin, size_t end,
                      struct buf *out)
{
    buf_add_span(out, span_slice(object->body, begin, end));
}

static void add_member(const struct api_object *object,
                       const struct api_member *member,
                       const struct api_edit *edit, struct buf *out)
{
    if (edit == NULL) {
        add_range(object, member->begin, member->end, out);
        return;
    }
    size_t value_at = (size_t)(member->value.text.data - object->body.data);
    add_range(object, member->begin, value_at, out);
    add_text(edit, out);
}

/* Writes the members that stay; the bytes before a member (comma, white
 * space) go with it, except that the first one follows the brace. */
static uint32_t add_members(const struct api_object *object,
                            const struct api_edit *edits, uint32_t edit_count,
                            struct buf *out)
{
    uint32_t kept = 0;
    size_t gap_begin = 0;
    for (uint32_t i = 0; i < object->member_count; i++) {
        const struct api_member *member = &object->members[i];
        const struct api_edit *edit =
            edit_of(object, member, edits, edit_count);
        if (i == 0) {
            add_range(object, 0, member->begin, out);
        }
        bool stays = edit == NULL || edit->text != NULL;
        if (stays && kept > 0) {
            add_range(object, gap_begin, member->begin, out);
        }
        if (stays) {
            add_member(object, member, edit, out);
            kept++;
        }
        gap_begin = member->end;
    }
    return kept;
}

static size_t brace_at(const struct api_object *object)
{
    const uint8_t *brace = memchr(object->body.data, '{', object->body.size);
    return (size_t)(brace - object->body.data);
}

void api_splice(const struct api_object *object, const struct api_edit *edits,
                uint32_t edit_count, struct buf *out)
{
    size_t tail;
    uint32_t kept = add_members(object, edits, edit_count, out);
    if (object->member_count > 0) {
        tail = object->members[object->member_count - 1].end;
    } else {
        tail = brace_at(object) + 1;
        add_range(object, 0, tail, out);
    }
    for (uint32_t i = 0; i < edit_count; i++) {
        if (edits[i].text == NULL || api_find(object, edits[i].key) != NULL) {
            continue;
        }
        if (kept++ > 0) {
            buf_add_byte(out, ',');
        }
        buf_add_json_string(out, span_of_string(edits[i].key));
        buf_add_byte(out, ':');
        add_text(&edits[i], out);
    }
    add_range(object, tail, object->body.size, out);
}
