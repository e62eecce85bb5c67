#include "transfer/ucx_open.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <ucs/debug/debug.h>

#include "base/mem.h"

enum err ucx_say(struct why *why, const char *what, ucs_status_t status)
{
    enum err err = status == UCS_ERR_NO_MEMORY   ? ERR_NO_MEMORY
                   : status == UCS_ERR_NO_DEVICE ? ERR_UNSUPPORTED
                                                 : ERR_IO;
    return why_say(why, err, "%s: %s", what, ucs_status_string(status));
}

void ucx_describe(const char *settings, char *text_out, size_t size)
{
    unsigned major, minor, release;
    ucp_get_version(&major, &minor, &release);
    snprintf(text_out, size, "ucx %u.%u.%u %s", major, minor, release,
             settings);
}

static void give_signals_back(void)
{
    static const int signals[] = {SIGILL, SIGSEGV, SIGBUS, SIGFPE};
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct sigaction action;
        Dl_info info;
        if (sigaction(signals[i], NULL, &action) == 0 &&
            (action.sa_flags & SA_SIGINFO) &&
            dladdr((void *)action.sa_sigaction, &info) != 0 &&
            strstr(info.dli_fname, "libucs") != NULL) {
            ucs_debug_disable_signal(signals[i]);
        }
    }
}

static enum err set_config(ucp_config_t *config, const char *settings,
                           struct why *why)
{
    char *copy = mem_copy_string(settings);
    char *rest = copy;
    enum err err = OK;
    for (char *pair; !err && (pair = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(pair, '=');
        *value++ = 0;
        ucs_status_t status = ucp_config_modify(config, pair, value);
        err = status == UCS_OK ? OK : ucx_say(why, pair, status);
    }
    mem_free(copy);
    return err;
}

enum err ucx_open_context(const char *settings, struct why *why,
                          ucp_context_h *context_out)
{
    give_signals_back();
    ucp_config_t *config;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status != UCS_OK) {
        return ucx_say(why, "reading the configuration", status);
    }
    enum err err = set_config(config, settings, why);
    ucp_params_t params = {
        .field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
        .features = UCP_FEATURE_RMA | UCP_FEATURE_WAKEUP,
        .name = "baton",
    };
    if (!err) {
        status = ucp_init(&params, config, context_out);
        err = status == UCS_OK ? OK : ucx_say(why, "start", status);
    }
    ucp_config_release(config);
    return err;
}

void ucx_close_context(ucp_context_h context)
{
    if (context != NULL) {
        ucp_cleanup(context);
    }
}

enum err ucx_open_worker(ucp_context_h context, unsigned events,
                         struct why *why, ucp_worker_h *worker_out, int *fd_out)
{
    ucp_worker_params_t params = {
        .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE |
                      UCP_WORKER_PARAM_FIELD_EVENTS |
                      UCP_WORKER_PARAM_FIELD_FLAGS,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .events = events,
        /* What a dead peer never ended is no news at the end. */
        .flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK,
    };
    ucp_worker_h worker;
    ucs_status_t status = ucp_worker_create(context, &params, &worker);
    if (status != UCS_OK) {
        return ucx_say(why, "worker", status);
    }
    status = ucp_worker_get_efd(worker, fd_out);
    if (status != UCS_OK) {
        ucp_worker_destroy(worker);
        return ucx_say(why, "event file", status);
    }
    *worker_out = worker;
    return OK;
}

void ucx_close_worker(ucp_worker_h worker)
{
    if (worker != NULL) {
        ucp_worker_destroy(worker);
    }
}
