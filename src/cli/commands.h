#pragma once
/* cli/commands: what `baton` can do. Each takes its own argv (argv[0] is the
 * command's name) and answers an exit code of cli/exit.h. */

struct cli_syntax;

struct cli_command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
    const struct cli_syntax *syntax; /* what `run` parses by */
};
extern const struct cli_command cli_commands[]; /* ends with a NULL name */

int cli_up(int argc, char **argv);
int cli_serve(int argc, char **argv);
int cli_route(int argc, char **argv);
int cli_generate(int argc, char **argv);
int cli_tokenize(int argc, char **argv);
int cli_inspect(int argc, char **argv);
int cli_doctor(int argc, char **argv);
int cli_bench(int argc, char **argv);
int cli_sim(int argc, char **argv);

extern const struct cli_syntax cli_up_syntax;
extern const struct cli_syntax cli_serve_syntax;
extern const struct cli_syntax cli_route_syntax;
extern const struct cli_syntax cli_generate_syntax;
extern const struct cli_syntax cli_tokenize_syntax;
extern const struct cli_syntax cli_inspect_syntax;
extern const struct cli_syntax cli_doctor_syntax;
extern const struct cli_syntax cli_bench_syntax;
extern const struct cli_syntax cli_sim_syntax;
