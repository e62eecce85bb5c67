/* The table against the numbers of the format. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gguf/gguf.h"
#include "unit/gguf/builder.h"

/* The sizes of blocks are the format's. */
static void type_table_has_the_published_blocks(void **state)
{
    (void)state;
    static const uint32_t BLOCKS[][3] = {
        {GGUF_Q4_0, 32, 18},   {GGUF_Q4_1, 32, 20},   {GGUF_Q5_0, 32, 22},
        {GGUF_Q5_1, 32, 24},   {GGUF_Q8_0, 32, 34},   {GGUF_Q2_K, 256, 84},
        {GGUF_Q3_K, 256, 110}, {GGUF_Q4_K, 256, 144}, {GGUF_Q5_K, 256, 176},
        {GGUF_Q6_K, 256, 210}, {GGUF_F16, 1, 2},      {GGUF_BF16, 1, 2}};
    for (size_t i = 0; i < sizeof(BLOCKS) / sizeof(BLOCKS[0]); i++) {
        const struct gguf_type_info *info = gguf_type_info(BLOCKS[i][0]);
        assert_int_equal(info->block_elements, BLOCKS[i][1]);
        assert_int_equal(info->block_bytes, BLOCKS[i][2]);
    }
    assert_null(gguf_type_info(4)->name);
    assert_null(gguf_type_info(UINT32_MAX)->name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(type_table_has_the_published_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
