#include "unit/base/test.h"

#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "io/allow.h"

static struct io_allow *list(const char *text)
{
    struct why why;
    struct io_allow *allow = NULL;
    if (io_allow_create(span_of_string(text), &why, &allow) != OK) {
        fail_msg("%s: %s", text, why.text);
    }
    return allow;
}

static void expect(const char *text, const char *host, bool is_in)
{
    struct io_allow *allow = list(text);
    if (io_allow_has(allow, host) != is_in) {
        fail_msg("%s has %s: not %d", text, host, is_in);
    }
    io_allow_destroy(allow);
}

static void refuse(const char *text, const char *said)
{
    struct why why;
    struct io_allow *allow = NULL;
    assert_int_equal(io_allow_create(span_of_string(text), &why, &allow),
                     ERR_INVALID);
    assert_null(allow);
    if (strstr(why.text, said) == NULL) {
        fail_msg("\"%s\" is refused with: %s", text, why.text);
    }
}

/* Also by who only checks. */
static void refuse_at_sight(const char *text, const char *said)
{
    struct why why;
    refuse(text, said);
    assert_int_equal(io_allow_check(span_of_string(text), &why), ERR_INVALID);
    assert_non_null(strstr(why.text, said));
}

/* [transfer T29] */
static void addresses_and_blocks(void **state)
{
    (void)state;
    expect("10.0.0.7", "10.0.0.7", true);
    expect("10.0.0.7", "10.0.0.8", false);
    expect("10.0.0.0/8", "10.255.1.2", true);
    expect("10.0.0.0/8", "11.0.0.0", false);
    expect("10.1.2.128/25", "10.1.2.128", true);
    expect("10.1.2.128/25", "10.1.2.127", false);
    expect("0.0.0.0/0", "200.1.2.3", true);
    expect("0.0.0.0/0", "fd00::1", false);
    expect("::/0", "fd00::1", true);
    expect("fd00::7", "fd00:0:0:0::7", true);
    expect("[fd00::7]", "fd00::7", true);
    expect("[fd00::]/16", "fd00:1::7", true);
    expect("2001:db8::/33", "2001:db8:7fff::1", true);
    expect("2001:db8::/33", "2001:db8:8000::1", false);
    expect(" 10.0.0.1 ,\tfd00::/8 , 192.168.0.0/16", "192.168.7.7", true);
    expect("10.0.0.1,10.0.0.2", "10.0.0.2", true);
}

/* IPv4 in the clothes of IPv6 is the same host, on either side. */
static void mapped_addresses_are_the_same(void **state)
{
    (void)state;
    expect("10.0.0.0/8", "::ffff:10.1.2.3", true);
    expect("::ffff:10.0.0.0/104", "10.1.2.3", true);
    expect("::ffff:10.0.0.7", "10.0.0.7", true);
    expect("10.0.0.7", "::10.0.0.7", false);
}

static void names_stand_for_themselves_and_their_addresses(void **state)
{
    (void)state;
    expect("localhost", "localhost", true);
    expect("localhost", "LocalHost", true);
    expect("localhost", "127.0.0.1", true);
    expect("localhost", "127.0.0.2", false);
    expect("127.0.0.1", "localhost", false); /* is not looked up */
    refuse("no-such-host.invalid", "no-such-host.invalid");
    refuse("10.0.0.1,no-such-host.invalid", "no-such-host.invalid");
}

/* The check sees what is malformed and asks for no name: one that nobody knows
 * passes. */
static void a_check_asks_nobody(void **state)
{
    struct why why = {{0}};
    (void)state;
    assert_int_equal(io_allow_check(span_of_string("no-such-host.invalid, "
                                                   "10.0.0.0/8"),
                                    &why),
                     OK);
    assert_int_equal(
        io_allow_check(span_of_string("no-such-host.invalid,"), &why),
        ERR_INVALID);
    assert_non_null(strstr(why.text, "empty"));
}

/* What cannot be read is an error, never "all". */
static void malformed_lists_are_refused(void **state)
{
    (void)state;
    refuse_at_sight("", "empty");
    refuse_at_sight("10.0.0.1,", "empty");
    refuse_at_sight(",", "empty");
    refuse_at_sight("10.0.0.1;10.0.0.2", "10.0.0.1;10.0.0.2");
    refuse_at_sight("10.0.0.1\n", "neither");
    refuse_at_sight("10.0.0.1\n10.0.0.2", "neither");
    refuse_at_sight("tcp://10.0.0.1:80", "neither");
    refuse_at_sight("10.0.0.1:80", "neither");
    refuse_at_sight("10.0.0.1/8", "not zero");
    refuse_at_sight("10.0.0.0/33", "up to 32");
    refuse_at_sight("10.0.0.0/-1", "up to 32");
    refuse_at_sight("10.0.0.0/", "up to 32");
    refuse_at_sight("10.0.0.0/ 8", "up to 32");
    refuse_at_sight("10.0.0.0/8/8", "up to 32");
    refuse_at_sight("fd00::1/8", "not zero");
    refuse_at_sight("fd00::/129", "up to 128");
    refuse_at_sight("[fd00::1", "neither");
    refuse_at_sight("[10.0.0.1]", "neither");
    refuse_at_sight("10.0.0", "neither");
    refuse_at_sight("300.0.0.1", "neither");
    refuse_at_sight("*", "neither");
    char many[IO_ALLOW_ENTRY_MAX * 8 + 64] = "10.0.0.1";
    for (int i = 0; i < IO_ALLOW_ENTRY_MAX; i++) {
        strcat(many, ",1.2.3.4");
    }
    refuse_at_sight(many, "more than 256");
    char longest[400];
    memset(longest, '1', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = 0;
    refuse_at_sight(longest, "longer");
}

static bool slow_has(uint32_t block, uint32_t bits, uint32_t host)
{
    for (uint32_t i = 0; i < bits; i++) {
        if ((block ^ host) & 1u << (31 - i)) {
            return false;
        }
    }
    return true;
}

static void address_text(uint32_t address, char text[32])
{
    snprintf(text, 32, "%u.%u.%u.%u", address >> 24, address >> 16 & 255,
             address >> 8 & 255, address & 255);
}

static void blocks_are_as_bit_by_bit(void **state)
{
    (void)state;
    struct rng rng = rng_from_seed(29);
    for (int i = 0; i < 20000; i++) {
        uint32_t bits = (uint32_t)rng_below(&rng, 33);
        uint32_t mask = bits == 0 ? 0 : UINT32_MAX << (32 - bits);
        uint32_t block = (uint32_t)rng_next(&rng) & mask;
        uint32_t host = rng_below(&rng, 2) ? (uint32_t)rng_next(&rng)
                                           : block ^ 1u << rng_below(&rng, 32);
        char text[64], one[32], other[32];
        address_text(block, one);
        address_text(host, other);
        snprintf(text, sizeof(text), "%s/%u", one, bits);
        expect(text, other, slow_has(block, bits, host));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_and_blocks),
        cmocka_unit_test(mapped_addresses_are_the_same),
        cmocka_unit_test(names_stand_for_themselves_and_their_addresses),
        cmocka_unit_test(a_check_asks_nobody),
        cmocka_unit_test(malformed_lists_are_refused),
        cmocka_unit_test(blocks_are_as_bit_by_bit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
