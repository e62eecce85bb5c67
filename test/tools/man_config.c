/* Prints baton.yaml(5) from the tables that feed the parsers, so that the
 * manual cannot say less than the program knows:
 *     build/man_config >docs/man/baton.yaml.5 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "config/route.h"
#include "config/worker.h"

/* "key = value   # default D; help" becomes a tagged paragraph. */
static void print_setting(char *line)
{
    char *comment = strstr(line, "# default ");
    char *equals = strstr(line, " = ");
    if (comment == NULL || equals == NULL || equals > comment) {
        return;
    }
    *equals = 0;
    char *value = comment + strlen("# default ");
    char *help = strstr(value, "; ");
    if (help != NULL) {
        *help = 0;
        help += 2;
    }
    printf(".TP\n.B %s\n%s. Default: %s\n", line, help == NULL ? "" : help,
           strcmp(value, "\"\"") == 0 ? "empty" : value);
}

static void print_settings(struct buf *text)
{
    char *rest = NULL;
    for (char *line = strtok_r((char *)text->data, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        print_setting(line);
    }
}

int main(void)
{
    static struct config_worker worker;
    static struct config_route route;
    struct buf text;
    buf_init(&text, 1 << 20);
    printf(".TH BATON.YAML 5 \"2026\" \"baton %s\" \"File Formats\"\n"
           ".SH NAME\nbaton.yaml \\- settings of Baton's workers and front "
           "end\n.SH DESCRIPTION\nYAML. Keys that TensorRT\\-LLM has keep its "
           "names. An unknown key or a value of the wrong kind is an error "
           "that names file, line and key. Flags win over the file.\n",
           BATON_VERSION);
    printf(".SH FRONT END\nRead by\n.BR \"baton route \\-\\-config\" .\n");
    config_route_init(&route);
    config_route_describe(&route, &text);
    print_settings(&text);
    printf(".PP\nEach of\n.B context_servers\nand\n.B generation_servers\nis "
           "a map with\n.B urls\n(a list of host:port) and, where wanted,\n"
           ".B num_instances\n(its length) and\n.B router\n(type: "
           "round_robin).\n");
    buf_reset(&text);
    printf(".SH WORKER\nRead by\n.BR \"baton serve \\-\\-config\" ;\n.B baton "
           "inspect \\-\\-config\nprints every setting with its value and the "
           "limits that follow. A dot in a key is a level of the map.\n");
    config_worker_init(&worker);
    config_worker_describe(&worker, &text);
    print_settings(&text);
    printf(".SH SEE ALSO\n.BR baton (1)\n");
    buf_finish(&text);
    return 0;
}
