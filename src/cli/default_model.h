#pragma once
/* cli/default_model: the demonstration model, beside the sources or installed. */

/* "models/demo.gguf" where that can be read, else the installed one's path. */
const char *cli_default_model(void);
