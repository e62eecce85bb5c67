#pragma once
/* cli/commands: what `baton` can do. Each takes its own argv (argv[0] is the
 * command's name) and answers an exit code of cli/exit.h. */

struct cli_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

int cli_up(int argc, char **argv);
int cli_serve(int argc, char **argv);
int cli_route(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_tokenize(int argc, char **argv);
int cli_inspect(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_sim(int argc, char **argv);
