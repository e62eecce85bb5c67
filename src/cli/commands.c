#include "cli/commands.h"

#include <stddef.h>

const struct cli_command cli_commands[] = {
    {"up", "start a cluster on this host and supervise it", cli_up,
     &cli_up_syntax},
    {"serve", "run one worker: context, generation or both", cli_serve,
     &cli_serve_syntax},
    {"route", "run a front end with the OpenAI API", cli_route,
     &cli_route_syntax},
    {"generate", "complete a prompt in this process, no server", cli_generate,
     &cli_generate_syntax},
    {"tokenize", "print the token ids of a text", cli_tokenize,
     &cli_tokenize_syntax},
    {"inspect", "say what a model file holds and needs", cli_inspect,
     &cli_inspect_syntax},
    {"doctor", "check this host and say what to do", cli_doctor,
     &cli_doctor_syntax},
    {"bench", "load a running server and report", cli_bench, &cli_bench_syntax},
    {"sim", "run the engine in a world made from a seed", cli_sim,
     &cli_sim_syntax},
    {NULL, NULL, NULL, NULL},
};
