/* config/list: entries of YAML lists and of texts, and where a bad one stands. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "config/list.h"

/* Entries in brackets; "bad" is none. */
static enum err add(void *context, const char *text, size_t size,
                    struct why *why)
{
    char *out = context;
    if (size == 3 && memcmp(text, "bad", 3) == 0) {
        return why_say(why, ERR_INVALID, "is bad");
    }
    sprintf(out + strlen(out), "[%.*s]", (int)size, text);
    return OK;
}

static void a_text_is_cut_at_its_commas(void **state)
{
    static const char *const CASES[][2] = {
        {"", ""},        {"  ", ""},
        {"a", "[a]"},    {" a , b c,", "[a][b c]"},
        {",a", "[][a]"}, {"a,,b", "[a][][b]"},
    };
    struct why why;
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        char out[64] = "";
        assert_int_equal(config_list_read_text(CASES[i][0], add, out, &why),
                         OK);
        assert_string_equal(out, CASES[i][1]);
    }
    char out[64] = "";
    assert_int_equal(config_list_read_text("a,bad,b", add, out, &why),
                     ERR_INVALID);
    assert_string_equal(why.text, "is bad");
    assert_string_equal(out, "[a]");
}

static void a_yaml_list_is_read_in_order(void **state)
{
    static const struct {
        const char *yaml, *out, *fault;
    } CASES[] = {
        {"k: [a, b]", "[a][b]", NULL},
        {"k:\n- a\n- \" b,c\"\n", "[a][ b,c]", NULL},
        {"k: []", "", NULL},
        {"k:\n- a\n- bad\n", NULL, "line 3: is bad"},
        {"k:\n- a\n- [b]\n", NULL, "line 3: must be a list of letters"},
        {"k: a", NULL, "must be a list of letters"},
        {"k: {a: b}", NULL, "must be a list of letters"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        char out[64] = "";
        struct why why;
        struct config_tree *tree;
        assert_int_equal(
            config_tree_read(span_of_string(CASES[i].yaml), "f", &why, &tree),
            OK);
        const struct config_node *node =
            config_node_find(config_tree_root(tree), "k");
        enum err code =
            config_list_read(node, "must be a list of letters", add, out, &why);
        assert_int_equal(code, CASES[i].fault == NULL ? OK : ERR_INVALID);
        assert_string_equal(CASES[i].fault == NULL ? out : why.text,
                            CASES[i].fault == NULL ? CASES[i].out
                                                   : CASES[i].fault);
        config_tree_destroy(tree);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_text_is_cut_at_its_commas),
        cmocka_unit_test(a_yaml_list_is_read_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
