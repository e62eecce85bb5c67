#pragma once
/* UCX 1.13 keeps a little memory of its own to the end; ours must all be
 * given back. Read by the leak checker when there is one. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:libucs\nleak:libuct\nleak:libucp\nleak:ucs_\n";
}
