/* Wrong files, built byte by byte, are refused with the name of what is
 * wrong; a cut anywhere is noticed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gguf/gguf.h"
#include "unit/gguf/builder.h"

/* Opens must fail, and say `part`. */
static void assert_refused(struct buf *built, enum err code, const char *part)
{
    struct why why;
    struct gguf *gguf = NULL;
    enum err err = open_built(built, &why, &gguf);
    if (err != code || strstr(why.text, part) == NULL) {
        fail_msg("%s, \"%s\", not \"%s\"", err_name(err), why.text, part);
    }
    assert_null(gguf);
    buf_finish(built);
}

static void build_one(struct buf *out, uint32_t type, uint32_t count,
                      const uint64_t *dimensions, uint64_t offset)
{
    build_header(out, 1, 0);
    build_tensor(out, "w", type, count, dimensions, offset);
    build_data(out, 32, 1024);
}

/* Every prefix of a good file fails cleanly: nothing reads past the end. */
static void every_cut_is_refused(void **state)
{
    (void)state;
    struct buf built;
    build_good(&built);
    for (size_t size = 0; size < built.size; size++) {
        uint8_t *copy = malloc(size + 1);
        memcpy(copy, built.data, size);
        struct why why = {0};
        struct gguf *gguf;
        assert_int_not_equal(gguf_open_bytes(span_of(copy, size), &why, &gguf),
                             OK);
        assert_int_not_equal(why.text[0], 0);
        free(copy);
    }
    buf_finish(&built);
}

static void foreign_files_are_refused(void **state)
{
    (void)state;
    struct buf built;
    buf_init(&built, 1 << 20);
    buf_add_string(&built, "PK\003\004 this is a zip file, not a model");
    assert_refused(&built, ERR_INVALID, "not a GGUF file");
    build_good(&built);
    built.data[4] = 9;
    assert_refused(&built, ERR_INVALID, "version 9");
    build_good(&built);
    memcpy(built.data + 4, "\0\0\0\3", 4);
    assert_refused(&built, ERR_INVALID, "big-endian");
}

/* Counts that the file cannot hold are refused before memory is asked for. */
static void huge_counts_cost_nothing(void **state)
{
    (void)state;
    struct buf built;
    build_header(&built, 1ull << 60, 0);
    assert_refused(&built, ERR_INVALID, "tensors");
    build_header(&built, 0, UINT64_MAX);
    assert_refused(&built, ERR_INVALID, "keys");
    build_header(&built, 0, 1);
    build_key_array(&built, "list", BUILD_U64, UINT64_MAX / 8 + 2);
    assert_refused(&built, ERR_INVALID, "list");
    build_header(&built, 0, 1);
    build_key_array(&built, "list", BUILD_STRING, 1);
    build_u64(&built, UINT64_MAX - 3);
    assert_refused(&built, ERR_INVALID, "list");
    build_header(&built, 0, 1);
    build_u64(&built, UINT64_MAX);
    buf_add_string(&built, "long enough to get there");
    assert_refused(&built, ERR_INVALID, "key 0");
}

static void bad_keys_are_named(void **state)
{
    (void)state;
    struct buf built;
    build_header(&built, 0, 2);
    build_key_u32(&built, "twin", 1);
    build_key_u32(&built, "twin", 1);
    assert_refused(&built, ERR_INVALID, "twin is there twice");
    build_header(&built, 0, 1);
    build_key_array(&built, "nest", BUILD_ARRAY, 1);
    buf_add(&built, (uint8_t[16]){0}, 16);
    assert_refused(&built, ERR_UNSUPPORTED, "nest");
    build_header(&built, 0, 1);
    build_key(&built, "odd", 77);
    buf_add_byte(&built, 0);
    assert_refused(&built, ERR_INVALID, "odd: unknown value type 77");
    build_header(&built, 0, 1);
    build_key_u32(&built, "general.alignment", 24);
    assert_refused(&built, ERR_INVALID, "general.alignment");
    build_header(&built, 0, 1);
    build_key_u32(&built, "general.alignment", 0);
    assert_refused(&built, ERR_INVALID, "general.alignment");
}

static void bad_tensors_are_named(void **state)
{
    (void)state;
    struct buf built;
    build_one(&built, GGUF_F32, 1, (uint64_t[]){UINT64_MAX}, 0);
    assert_refused(&built, ERR_INVALID, "tensor w");
    build_one(&built, GGUF_F32, 4,
              (uint64_t[]){1 << 20, 1 << 20, 1 << 20, 1 << 20}, 0);
    assert_refused(&built, ERR_INVALID, "tensor w");
    build_one(&built, GGUF_F32, 1, (uint64_t[]){0}, 0);
    assert_refused(&built, ERR_INVALID, "dimension 0 is 0");
    build_one(&built, GGUF_F32, 5, (uint64_t[]){1, 1, 1, 1, 1}, 0);
    assert_refused(&built, ERR_INVALID, "5 dimensions");
    build_one(&built, GGUF_Q4_K, 1, (uint64_t[]){128}, 0);
    assert_refused(&built, ERR_INVALID, "whole blocks of 256");
    build_one(&built, 23, 1, (uint64_t[]){256}, 0);
    assert_refused(&built, ERR_UNSUPPORTED, "IQ4_XS");
    build_one(&built, GGUF_F32, 1, (uint64_t[]){8}, 12);
    assert_refused(&built, ERR_INVALID, "multiple of 32");
    build_one(&built, GGUF_F32, 1, (uint64_t[]){8}, 1024);
    assert_refused(&built, ERR_INVALID, "cut short");
    build_one(&built, GGUF_F32, 1, (uint64_t[]){8}, UINT64_MAX - 31);
    assert_refused(&built, ERR_INVALID, "cut short");
    build_header(&built, 2, 0);
    build_tensor(&built, "w", GGUF_F32, 2, SQUARE, 0);
    build_tensor(&built, "w", GGUF_F32, 2, SQUARE, 0);
    build_data(&built, 32, 1024);
    assert_refused(&built, ERR_INVALID, "w is there twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(foreign_files_are_refused),
        cmocka_unit_test(huge_counts_cost_nothing),
        cmocka_unit_test(bad_keys_are_named),
        cmocka_unit_test(bad_tensors_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
