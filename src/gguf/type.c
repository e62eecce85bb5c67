/* The block sizes of the weight types, as the format's publisher defines them:
 * a block is `block_elements` weights in `block_bytes`, scales included. */
#include "gguf/gguf.h"
#include "gguf/parse.h"

static const struct gguf_type_info TYPES[GGUF_TYPE_COUNT] = {
    [GGUF_F32] = {"F32", 1, 4},       [GGUF_F16] = {"F16", 1, 2},
    [GGUF_Q4_0] = {"Q4_0", 32, 18},   [GGUF_Q4_1] = {"Q4_1", 32, 20},
    [GGUF_Q5_0] = {"Q5_0", 32, 22},   [GGUF_Q5_1] = {"Q5_1", 32, 24},
    [GGUF_Q8_0] = {"Q8_0", 32, 34},   [GGUF_Q2_K] = {"Q2_K", 256, 84},
    [GGUF_Q3_K] = {"Q3_K", 256, 110}, [GGUF_Q4_K] = {"Q4_K", 256, 144},
    [GGUF_Q5_K] = {"Q5_K", 256, 176}, [GGUF_Q6_K] = {"Q6_K", 256, 210},
    [GGUF_BF16] = {"BF16", 1, 2},
};

/* Types that exist in files but that we do not read: only for messages. */
static const char *const FOREIGN_NAMES[] = {
    [9] = "Q8_1",     [15] = "Q8_K",   [16] = "IQ2_XXS", [17] = "IQ2_XS",
    [18] = "IQ3_XXS", [19] = "IQ1_S",  [20] = "IQ4_NL",  [21] = "IQ3_S",
    [22] = "IQ2_S",   [23] = "IQ4_XS", [24] = "I8",      [25] = "I16",
    [26] = "I32",     [27] = "I64",    [28] = "F64",     [29] = "IQ1_M",
    [34] = "TQ1_0",   [35] = "TQ2_0",  [39] = "MXFP4",
};

const struct gguf_type_info *gguf_type_info(uint32_t type)
{
    static const struct gguf_type_info NONE;
    return type < GGUF_TYPE_COUNT ? &TYPES[type] : &NONE;
}

const char *gguf_foreign_type_name(uint32_t type)
{
    uint32_t count = sizeof(FOREIGN_NAMES) / sizeof(FOREIGN_NAMES[0]);
    const char *name = type < count ? FOREIGN_NAMES[type] : NULL;
    return name != NULL ? name : "unknown";
}
