/* A built file reads back as written, and so do two that are one model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "gguf/gguf.h"
#include "unit/gguf/builder.h"

static void write_part(const char *folder, uint32_t number, uint32_t count,
                       uint32_t said_number, const char *tensor)
{
    struct buf built;
    build_header(&built, 1, number == 0 ? 4 : 2);
    if (number == 0) {
        build_key_string(&built, "general.name", "whole");
        build_key(&built, "split.tensors.count", BUILD_I32);
        build_u32(&built, 2);
    }
    build_key(&built, "split.no", BUILD_U16);
    buf_add(&built, &(uint16_t){(uint16_t)said_number}, 2);
    build_key(&built, "split.count", BUILD_U16);
    buf_add(&built, &(uint16_t){(uint16_t)count}, 2);
    build_tensor(&built, tensor, GGUF_F32, 2, SQUARE, 0);
    build_data(&built, 32, 256);
    char path[256];
    snprintf(path, sizeof(path), "%s/m-%05u-of-%05u.gguf", folder, number + 1,
             count);
    FILE *file = fopen(path, "wb");
    fwrite(built.data, 1, built.size, file);
    fclose(file);
    buf_finish(&built);
}

static enum err open_part(const char *folder, uint32_t number, struct why *why,
                          struct gguf **gguf_out)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/m-%05u-of-00002.gguf", folder, number + 1);
    *why = (struct why){0};
    return gguf_open(path, why, gguf_out);
}

/* What was written is what is read, by kind and by name. */
static void keys_and_tensors_read_back(void **state)
{
    (void)state;
    struct buf built;
    build_good(&built);
    struct why why;
    struct gguf *gguf;
    assert_int_equal(open_built(&built, &why, &gguf), OK);
    uint32_t blocks;
    assert_int_equal(gguf_read_u32(gguf, "llama.block_count", 0, &why, &blocks),
                     OK);
    assert_int_equal(blocks, 7);
    struct gguf_value value;
    assert_true(gguf_find(gguf, "negative", &value));
    assert_int_equal(value.signed_value, -2);
    struct gguf_array numbers;
    assert_int_equal(gguf_read_array(gguf, "numbers", GGUF_INT, &why, &numbers),
                     OK);
    assert_int_equal(gguf_array_integer_at(&numbers, 1), -6);
    const struct gguf_tensor *b = gguf_find_tensor(gguf, "b");
    assert_non_null(b);
    assert_int_equal(b->dimensions[1], 2);
    assert_int_equal(b->dimensions[2], 1);
    assert_int_equal(b->data.size, 256);
    assert_int_equal(b->data.data[0], 96);
    assert_null(gguf_find_tensor(gguf, "c"));
    assert_int_equal(gguf_tensor_bytes(gguf), 68 + 256);
    gguf_close(gguf);
    buf_finish(&built);
}

/* Two files look like one; a wrong part, a twin tensor and the second part
 * opened first are refused by name. */
static void split_files_open_as_one(void **state)
{
    (void)state;
    char folder[] = "/tmp/baton-gguf-XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct why why;
    struct gguf *gguf;
    write_part(folder, 0, 2, 0, "a");
    assert_int_equal(open_part(folder, 0, &why, &gguf), ERR_NOT_FOUND);
    write_part(folder, 1, 2, 1, "b");
    assert_int_equal(open_part(folder, 0, &why, &gguf), OK);
    assert_int_equal(gguf_tensor_count(gguf), 2);
    assert_int_equal(gguf_find_tensor(gguf, "b")->data.data[1], 1);
    struct gguf_value value;
    assert_true(gguf_find(gguf, "general.name", &value));
    gguf_close(gguf);
    assert_int_equal(open_part(folder, 1, &why, &gguf), ERR_INVALID);
    assert_non_null(strstr(why.text, "open the first"));
    write_part(folder, 1, 2, 1, "a");
    assert_int_equal(open_part(folder, 0, &why, &gguf), ERR_INVALID);
    assert_non_null(strstr(why.text, "twice"));
    write_part(folder, 1, 2, 5, "b");
    assert_int_equal(open_part(folder, 0, &why, &gguf), ERR_INVALID);
    assert_non_null(strstr(why.text, "part 6"));
    char command[300];
    snprintf(command, sizeof(command), "rm -r %s", folder);
    assert_int_equal(system(command), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_and_tensors_read_back),
        cmocka_unit_test(split_files_open_as_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
