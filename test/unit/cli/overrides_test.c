/* The table alone, over a config that notes what it is set to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cli/overrides.h"

struct noted {
    int count;
    char last[64];
};

static enum err note(void *config, const char *key, const char *value,
                     struct why *why)
{
    struct noted *noted = config;
    if (strcmp(value, "bad") == 0) {
        return why_say(why, ERR_INVALID, "must be good");
    }
    noted->count++;
    snprintf(noted->last, sizeof(noted->last), "%s=%s", key, value);
    return OK;
}

static const struct cli_flag_key KEYS[] = {
    {"max-seq", "max_seq_len"}, {"kv-tokens", "kv.max_tokens"}, {0}};

static struct cli_overrides make(struct noted *scratch)
{
    return (struct cli_overrides){
        .keys = KEYS, .set = note, .scratch = scratch};
}

static void add(struct cli_overrides *overrides, const char *flag)
{
    struct why why;
    assert_int_equal(cli_overrides_add(overrides, flag, "1", &why), OK);
}

/* Checked at once on the scratch, kept, and set again in order. */
static void values_are_checked_then_kept(void **state)
{
    struct noted scratch = {0}, config = {0};
    struct cli_overrides overrides = make(&scratch);
    struct why why;
    (void)state;
    add(&overrides, "max-seq");
    assert_string_equal(scratch.last, "max_seq_len=1");
    assert_int_equal(cli_overrides_add(&overrides, "role", "bad", &why),
                     ERR_INVALID);
    assert_string_equal(why.text, "must be good");
    add(&overrides, "drain-timeout-ms");
    assert_true(cli_overrides_has(&overrides, "max-seq"));
    assert_false(cli_overrides_has(&overrides, "role"));
    assert_int_equal(cli_overrides_apply(&overrides, &why, &config), OK);
    assert_int_equal(config.count, 2);
    assert_string_equal(config.last, "drain_timeout_ms=1");
    while (overrides.count < CLI_OVERRIDE_COUNT_MAX) {
        add(&overrides, "max-seq");
    }
    assert_int_equal(cli_overrides_add(&overrides, "max-seq", "1", &why),
                     ERR_FULL);
}

/* A line speaks of the flag where it spoke of its key; of keys that came by no
 * flag, of words that only look alike and of paths it keeps what it said. */
static void a_message_names_the_flag_that_was_typed(void **state)
{
    static const char *const CASES[][2] = {
        {"`max_seq_len` must not exceed `kv.max_tokens`",
         "--max-seq must not exceed --kv-tokens"},
        {"x.gguf: max_seq_len 5 is too long",
         "x.gguf: --max-seq 5 is too long"},
        {"max_seq_len: bad, max_seq_len", "--max-seq: bad, --max-seq"},
        {"/tmp/max_seq_len: no such file", "/tmp/max_seq_len: no such file"},
        {"max_seq_len_x is unknown", "max_seq_len_x is unknown"},
        {"`model` is missing", "--model is missing"},
        {"the model's context", "the model's context"},
        {"`port` must differ", "`port` must differ"},
    };
    struct noted scratch = {0};
    struct cli_overrides overrides = make(&scratch);
    (void)state;
    add(&overrides, "max-seq");
    add(&overrides, "kv-tokens");
    add(&overrides, "model");
    for (size_t i = 0; i < sizeof(CASES) / sizeof(CASES[0]); i++) {
        struct why why;
        snprintf(why.text, sizeof(why.text), "%s", CASES[i][0]);
        cli_overrides_name(&overrides, &why);
        assert_string_equal(why.text, CASES[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_are_checked_then_kept),
        cmocka_unit_test(a_message_names_the_flag_that_was_typed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
