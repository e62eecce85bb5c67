#pragma once
/* One call to parse a body, for the tests of api/openai_*. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>
#include <string.h>

#include <cmocka.h>

#include "api/openai_request.h"

static struct openai_fault openai_fault;

static inline enum err openai_try(enum openai_route route, const char *body,
                                  struct openai_request *request)
{
    const struct openai_limits limits = {.id_count_max = 1000};
    return openai_request_parse(route, span_of_string(body), &limits,
                                &openai_fault, request);
}

/* The body must be refused, about `param`, in words that hold `words`. */
static inline void openai_refuses(enum openai_route route, const char *body,
                                  const char *param, const char *words)
{
    struct openai_request request;
    enum err err = openai_try(route, body, &request);
    if (err == OK) {
        fail_msg("accepted: %s", body);
    }
    assert_string_equal(openai_fault.param, param);
    if (strstr(openai_fault.why.text, words) == NULL) {
        fail_msg("%s: says '%s', not '%s'", body, openai_fault.why.text, words);
    }
}

static inline void openai_takes(enum openai_route route, const char *body,
                                struct openai_request *request)
{
    if (openai_try(route, body, request) != OK) {
        fail_msg("%s: refused, %s", body, openai_fault.why.text);
    }
}

static inline void openai_text_is(const struct openai_request *request,
                                  struct openai_text text, const char *wanted)
{
    struct span found = openai_text(request, text);
    assert_int_equal(found.size, strlen(wanted));
    assert_memory_equal(found.data, wanted, found.size);
}
