/* YAML as a tree: lines, kinds, and everything that is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "config/tree.h"

static void lines_and_kinds_are_kept(void **state)
{
    struct config_tree *tree;
    (void)state;
    assert_int_equal(
        config_tree_read(
            span_of_string("# c\na: 1\nb:\n  - x\n  - {k: \"2\"}\n"), "f", NULL,
            &tree),
        OK);
    const struct config_node *root = config_tree_root(tree);
    const struct config_node *b = config_node_find(root, "b");
    assert_int_equal(config_node_find(root, "a")->line, 2);
    assert_int_equal(b->kind, CONFIG_LIST);
    assert_int_equal(config_node_count(b), 2);
    const struct config_node *k = config_node_find(b->first->next, "k");
    assert_string_equal(k->text, "2");
    assert_true(k->is_quoted);
    assert_int_equal(k->line, 5);
    assert_null(config_node_find(root, "c"));
    assert_true(config_node_equals(root, root));
    assert_false(config_node_equals(b, config_node_find(root, "a")));
    config_tree_destroy(tree);
}

static void empty_texts_are_empty_maps(void **state)
{
    static const char *const TEXTS[] = {"", "# only\n", "---\n", "~\n"};
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        struct config_tree *tree;
        assert_int_equal(
            config_tree_read(span_of_string(TEXTS[i]), "f", NULL, &tree), OK);
        assert_null(config_tree_root(tree)->first);
        config_tree_destroy(tree);
    }
}

static void faults_name_their_line(void **state)
{
    static const char *const CASES[][2] = {
        {"a: 1\na: 2\n", "f:2: `a` stands twice"},
        {"a: &x 1\nb: *x\n", "f:1: anchors"},
        {"a: 1\nb: *x\n", "f:2:"},
        {"a: !t 1\n", "f:1: tags"},
        {"- a\n", "f:1: `key: value` is expected"},
        {"a: [1\n", "f:"},
        {"a: 1\n---\nb: 2\n", "f:2: one document"},
        {"? [a]\n: 1\n", "f:1: a key must be plain text"},
        {"a: \"x\\0y\"\n", "f:1: a NUL"},
        {"a: [[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]\n", "f:1: nested"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct config_tree *tree;
        struct why why = {""};
        assert_int_equal(
            config_tree_read(span_of_string(CASES[i][0]), "f", &why, &tree),
            ERR_INVALID);
        if (strncmp(why.text, CASES[i][1], strlen(CASES[i][1])) != 0) {
            fail_msg("%s", why.text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_and_kinds_are_kept),
        cmocka_unit_test(empty_texts_are_empty_maps),
        cmocka_unit_test(faults_name_their_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
