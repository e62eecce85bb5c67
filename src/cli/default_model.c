#include "cli/default_model.h"

#include <unistd.h>

const char *cli_default_model(void)
{
    static const char BESIDE[] = "models/demo.gguf";
    static const char INSTALLED[] = BATON_DATADIR "/demo.gguf";
    return access(BESIDE, R_OK) != 0 && access(INSTALLED, R_OK) == 0 ? INSTALLED
                                                                     : BESIDE;
}
