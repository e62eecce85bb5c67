/* Renders one conversation by each template in test/golden/chat and compares
 * with what the template itself gives (NAME.expected). More shapes of
 * conversations: test/e2e/chat_template.test.mjs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <cmocka.h>

#include "io/file.h"
#include "text/chat.h"
#include "unit/text/vocab_builder.h"

#define GOLDEN "test/golden/chat"
#define MESSAGE(role, content)                              \
    {                                                       \
        {(const uint8_t *)(role), sizeof(role) - 1},        \
        {                                                   \
            (const uint8_t *)(content), sizeof(content) - 1 \
        }                                                   \
    }

static const struct text_chat_message TALK[] = {
    MESSAGE("system", " Be \n brief. "), MESSAGE("user", " a "),
    MESSAGE("assistant", " b "), MESSAGE("user", " c ")};
static const struct text_chat_options PROMPT = {.add_generation_prompt = true};

static enum err open_chat(struct vocab_fixture *fixture, const char *template,
                          const char *name, struct why *why,
                          struct text_chat **chat_out)
{
    build_spm_vocab(&fixture->built, template);
    assert_int_equal(fixture_open(fixture, why), OK);
    return text_chat_create(fixture->gguf, fixture->tokenizer, name, why,
                            chat_out);
}

static void read_golden(const char *name, const char *end, struct buf *out)
{
    char path[512];
    snprintf(path, sizeof(path), GOLDEN "/%s%s", name, end);
    struct why why;
    buf_init(out, 1 << 20);
    assert_int_equal(io_file_read(path, &why, out), OK);
}

/* Templates that take no system message get the rest of the talk. */
static void check_golden(const char *name)
{
    struct buf template;
    struct buf expected;
    read_golden(name, ".jinja", &template);
    read_golden(name, ".expected", &expected);
    struct vocab_fixture fixture;
    struct why why;
    struct text_chat *chat;
    assert_int_equal(
        open_chat(&fixture, buf_string(&template), NULL, &why, &chat), OK);
    struct buf out;
    buf_init(&out, 1 << 20);
    if (text_chat_render(chat, TALK, 4, &PROMPT, &why, &out) != OK) {
        buf_reset(&out);
        assert_int_equal(
            text_chat_render(chat, TALK + 1, 3, &PROMPT, &why, &out), OK);
    }
    assert_string_equal(buf_string(&out), buf_string(&expected));
    text_chat_destroy(chat);
    fixture_close(&fixture);
    buf_finish(&out);
    buf_finish(&template);
    buf_finish(&expected);
}

static void each_golden_template_renders_as_expected(void **state)
{
    (void)state;
    DIR *folder = opendir(GOLDEN);
    assert_non_null(folder);
    int count = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        char *end = strstr(entry->d_name, ".jinja");
        if (end != NULL) {
            *end = 0;
            check_golden(entry->d_name);
            count++;
        }
    }
    closedir(folder);
    assert_true(count >= 20);
}

/* Neither guessed nor silent: the names to choose from are in the line. */
static void unknown_templates_are_refused(void **state)
{
    (void)state;
    static const char *const UNKNOWN[] = {"phi-4", "phi-3", "vigogne-2",
                                          "smaug-34b"};
    for (size_t i = 0; i < 4; i++) {
        char name[64];
        struct buf template;
        snprintf(name, sizeof(name), "unknown/%s", UNKNOWN[i]);
        read_golden(name, ".jinja", &template);
        struct vocab_fixture fixture;
        struct why why;
        struct text_chat *chat = NULL;
        assert_int_equal(
            open_chat(&fixture, buf_string(&template), NULL, &why, &chat),
            ERR_UNSUPPORTED);
        assert_non_null(strstr(why.text, "--chat-template"));
        assert_non_null(strstr(why.text, "mistral-tekken"));
        fixture_close(&fixture);
        buf_finish(&template);
    }
}

static void a_name_stands_in_for_a_template(void **state)
{
    (void)state;
    struct vocab_fixture fixture;
    struct why why;
    struct text_chat *chat = NULL;
    assert_int_equal(open_chat(&fixture, NULL, NULL, &why, &chat),
                     ERR_NOT_FOUND);
    fixture_close(&fixture);
    assert_int_equal(
        open_chat(&fixture, "{{ nonsense }}", "zephyr", &why, &chat), OK);
    assert_string_equal(text_chat_name(chat), "zephyr");
    struct buf out;
    buf_init(&out, 1 << 20);
    assert_int_equal(text_chat_render(chat, TALK + 1, 1, &PROMPT, &why, &out),
                     OK);
    assert_string_equal(buf_string(&out), "<|user|>\n a </s>\n<|assistant|>\n");
    text_chat_destroy(chat);
    buf_finish(&out);
    fixture_close(&fixture);
    assert_int_equal(open_chat(&fixture, NULL, "martian", &why, &chat),
                     ERR_UNSUPPORTED);
    fixture_close(&fixture);
}

static void wrong_conversations_name_the_message(void **state)
{
    (void)state;
    static const struct text_chat_message STRANGE[] = {MESSAGE("user", "a"),
                                                       MESSAGE("wizard", "b")};
    static const struct text_chat_message TWICE[] = {MESSAGE("user", "a"),
                                                     MESSAGE("user", "b")};
    static const struct text_chat_message NEW[] = {MESSAGE("developer", "a")};
    struct vocab_fixture fixture;
    struct why why;
    struct text_chat *chat;
    assert_int_equal(open_chat(&fixture, NULL, "llama2", &why, &chat), OK);
    struct buf out;
    buf_init(&out, 64);
    assert_int_equal(text_chat_render(chat, STRANGE, 2, &PROMPT, &why, &out),
                     ERR_INVALID);
    assert_non_null(strstr(why.text, "messages[1].role: \"wizard\""));
    assert_int_equal(text_chat_render(chat, TWICE, 2, &PROMPT, &why, &out),
                     ERR_INVALID);
    assert_non_null(strstr(why.text, "messages[1].role"));
    assert_int_equal(text_chat_render(chat, NULL, 0, &PROMPT, &why, &out),
                     ERR_INVALID);
    assert_int_equal(text_chat_render(chat, NEW, 1, &PROMPT, &why, &out), OK);
    buf_reset(&out);
    assert_int_equal(text_chat_render(chat, TALK, 4, &PROMPT, &why, &out),
                     ERR_FULL);
    text_chat_destroy(chat);
    buf_finish(&out);
    fixture_close(&fixture);
}

/* enable_thinking = false opens and closes an empty thought. */
/* By name: the old form takes no system message, the new one puts it before the
 * user's words; both want the user at even places. */
static void gemma_names_what_it_cannot_take(void **state)
{
    (void)state;
    static const char *const NAMES[] = {"gemma", "gemma3"};
    for (int i = 0; i < 2; i++) {
        struct vocab_fixture fixture;
        struct why why;
        struct text_chat *chat;
        struct buf out;
        buf_init(&out, 1 << 20);
        assert_int_equal(open_chat(&fixture, NULL, NAMES[i], &why, &chat), OK);
        enum err err = text_chat_render(chat, TALK, 2, &PROMPT, &why, &out);
        if (i == 0) {
            assert_int_equal(err, ERR_INVALID);
            assert_non_null(strstr(why.text, "messages[0].role"));
        } else {
            assert_int_equal(err, OK);
            assert_string_equal(buf_string(&out),
                                "<s><start_of_turn>user\n Be \n brief. \n\n"
                                "a<end_of_turn>\n<start_of_turn>model\n");
        }
        assert_int_equal(
            text_chat_render(chat, TALK + 2, 2, &PROMPT, &why, &out),
            ERR_INVALID);
        assert_non_null(strstr(why.text, "messages[0].role"));
        text_chat_destroy(chat);
        buf_finish(&out);
        fixture_close(&fixture);
    }
}

static void thinking_can_be_switched_off(void **state)
{
    (void)state;
    struct vocab_fixture fixture;
    struct why why;
    struct text_chat *chat;
    struct buf out;
    buf_init(&out, 1 << 20);
    assert_int_equal(open_chat(&fixture, NULL, "qwen3", &why, &chat), OK);
    struct text_chat_options options = {true, true};
    assert_int_equal(text_chat_render(chat, TALK + 1, 1, &options, &why, &out),
                     OK);
    assert_string_equal(buf_string(&out),
                        "<|im_start|>user\n a <|im_end|>\n"
                        "<|im_start|>assistant\n<think>\n\n</think>\n\n");
    text_chat_destroy(chat);
    buf_finish(&out);
    fixture_close(&fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_golden_template_renders_as_expected),
        cmocka_unit_test(unknown_templates_are_refused),
        cmocka_unit_test(a_name_stands_in_for_a_template),
        cmocka_unit_test(wrong_conversations_name_the_message),
        cmocka_unit_test(gemma_names_what_it_cannot_take),
        cmocka_unit_test(thinking_can_be_switched_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
