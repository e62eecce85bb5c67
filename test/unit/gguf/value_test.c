/* Keys of a built file, read by each type, right and wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gguf/gguf.h"
#include "unit/gguf/builder.h"

/* Defaults for what is missing; the name for what is of another kind. */
static void typed_reads_name_the_wrong_key(void **state)
{
    (void)state;
    struct buf built;
    build_good(&built);
    struct why why;
    struct gguf *gguf;
    assert_int_equal(open_built(&built, &why, &gguf), OK);
    uint32_t number;
    float real;
    bool flag;
    struct span text;
    assert_int_equal(gguf_read_u32(gguf, "none", 9, &why, &number), OK);
    assert_int_equal(number, 9);
    assert_int_equal(gguf_read_u32(gguf, "negative", 0, &why, &number),
                     ERR_INVALID);
    assert_non_null(strstr(why.text, "negative"));
    assert_int_equal(
        gguf_read_f32(gguf, "general.architecture", 0, &why, &real),
        ERR_INVALID);
    assert_non_null(strstr(why.text, "general.architecture"));
    assert_int_equal(gguf_read_bool(gguf, "llama.eps", false, &why, &flag),
                     ERR_INVALID);
    assert_int_equal(gguf_read_string(gguf, "numbers", &why, &text),
                     ERR_INVALID);
    gguf_close(gguf);
    buf_finish(&built);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(typed_reads_name_the_wrong_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
