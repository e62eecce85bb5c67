/* The scanner over any bytes: never reads outside, and what it takes can be
 * walked, read and spliced, and the result is taken again. */
#include <stdlib.h>
#include <string.h>

#include "api/error.h"
#include "api/handoff.h"
#include "api/scan.h"
#include "base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_all(const struct api_member *member)
{
    int64_t number;
    double real;
    bool flag;
    int32_t ids[8];
    size_t count;
    struct buf text;
    struct api_handoff handoff;
    buf_init(&text, 1 << 16);
    IGNORE(api_read_int(member->value, -5, 500, NULL, &number));
    IGNORE(api_read_number(member->value, -5, 500, NULL, &real));
    IGNORE(api_read_bool(member->value, NULL, &flag));
    IGNORE(api_read_ids(member->value, 1000, NULL, ids, 8, &count));
    IGNORE(api_read_string(member->value, NULL, &text));
    IGNORE(api_handoff_read(member->value, NULL, &handoff));
    (void)api_array_count(member->value);
    buf_finish(&text);
}

static void splice(const struct api_object *object)
{
    static struct api_object again;
    const struct api_edit edits[] = {
        {"a", "[1]", 0}, {"stream", NULL, 0}, {"new", "null", 0}};
    struct buf out;
    buf_init(&out, 1 << 20);
    api_splice(object, edits, 3, &out);
    if (buf_error(&out) == OK && object->member_count < 250) {
        CHECK(api_scan(buf_span(&out), NULL, &again) == OK);
        CHECK(api_find(&again, "stream") == NULL);
        CHECK(api_find(&again, "new") != NULL);
    }
    buf_finish(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct api_object object;
    struct why why;
    struct buf message;
    /* A copy of its own size, so that one byte too far shows. */
    uint8_t *copy = malloc(size > 0 ? size : 1);
    memcpy(copy, data, size);
    struct span body = span_of(copy, size);
    if (api_scan(body, &why, &object) == OK) {
        for (uint32_t i = 0; i < object.member_count; i++) {
            read_all(&object.members[i]);
        }
        splice(&object);
    }
    buf_init(&message, 4096);
    api_error_unwrap(body, &message);
    CHECK(message.size <= 2048);
    buf_finish(&message);
    free(copy);
    return 0;
}
