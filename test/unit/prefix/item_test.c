#include "unit/base/test.h"

#include "base/digest.h"
#include "prefix/item.h"

static struct prefix_item_source source_of(uint8_t content)
{
    return (struct prefix_item_source){
        .vocab_size = 1000, .token_count = 3, .content = {content, 1, 2}};
}

/* Ids run up from the vocabulary's end; without a user id the name is the
 * content digest itself. */
static void an_item_takes_ids_above_the_vocabulary(void **state)
{
    (void)state;
    struct prefix_item_source source = source_of(9);
    struct prefix_item item;
    int32_t ids[4] = {-1, -1, -1, -1};
    assert_int_equal(prefix_item_init(&source, 17, NULL, &item, ids), OK);
    assert_int_equal(item.position, 17);
    assert_false(item.has_user_id);
    assert_memory_equal(item.name, source.content, sizeof(item.name));
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ids[i], 1000 + i);
    }
    assert_int_equal(ids[3], -1);
}

/* With a user id the name is BLAKE3 over id and content: it follows either, and
 * equals the digest computed here. An empty id is an id too. */
static void a_user_id_is_mixed_with_the_content(void **state)
{
    (void)state;
    struct prefix_item_source source = source_of(9);
    struct prefix_item named, other, empty;
    int32_t ids[3];
    uint8_t both[4 + PREFIX_ITEM_DIGEST_SIZE] = "cat1";
    uint8_t expected[PREFIX_ITEM_DIGEST_SIZE];
    source.has_user_id = true;
    assert_int_equal(prefix_item_init(&source, 0, NULL, &empty, ids), OK);
    source.user_id = span_of_string("cat1");
    assert_int_equal(prefix_item_init(&source, 0, NULL, &named, ids), OK);
    memcpy(both + 4, source.content, PREFIX_ITEM_DIGEST_SIZE);
    digest_blake3(NULL, span_of(both, sizeof(both)), expected,
                  sizeof(expected));
    assert_memory_equal(named.name, expected, sizeof(expected));
    assert_true(named.has_user_id);
    assert_memory_not_equal(empty.name, named.name, sizeof(expected));
    assert_memory_not_equal(empty.name, source.content, sizeof(expected));
    source.content[0] = 8;
    assert_int_equal(prefix_item_init(&source, 0, NULL, &other, ids), OK);
    assert_memory_not_equal(other.name, named.name, sizeof(expected));
}

/* No tokens, and one id too many, are refused with a reason; nothing is set. */
static void ids_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    struct prefix_item_source source = source_of(1);
    struct prefix_item item = {.position = 5};
    struct why why = {.text = ""};
    int32_t ids[3] = {-1, -1, -1};
    source.token_count = 0;
    assert_int_equal(prefix_item_init(&source, 0, &why, &item, ids),
                     ERR_INVALID);
    assert_non_null(strstr(why.text, "no tokens"));
    source.token_count = 3;
    source.vocab_size = (uint32_t)INT32_MAX - 1;
    assert_int_equal(prefix_item_init(&source, 0, &why, &item, ids),
                     ERR_INVALID);
    assert_non_null(strstr(why.text, "31 bits"));
    assert_int_equal(item.position, 5);
    assert_int_equal(ids[0], -1);
    source.vocab_size--;
    assert_int_equal(prefix_item_init(&source, 0, &why, &item, ids), OK);
    assert_int_equal(ids[2], INT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_takes_ids_above_the_vocabulary),
        cmocka_unit_test(a_user_id_is_mixed_with_the_content),
        cmocka_unit_test(ids_that_do_not_fit_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
