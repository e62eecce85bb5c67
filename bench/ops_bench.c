/* How fast each body multiplies, a type at a time: one row (bound by memory),
 * eight rows and 512 rows (bound by arithmetic), and attention for a decode and
 * a prefill. A line of JSON each: `against` is ref, measured in the same run.
 *
 * usage: ops_bench [TYPE ...]      (f16 q8_0 q4_k ...; all) */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/quantise.c"
#include "base/mem.h"
#include "base/rng.h"
#include "io/clock.h"
#include "model/ops.h"

enum { COLUMNS = 1024, RUNS = 5, ROWS_MAX = 512 };
/* Matrix rows: more than any cache holds for one row, a layer's for others. */
enum { TALL = 65536, SQUARE = 2048, REF_ROWS = 64 };

struct case_ {
    struct ops_matrix matrix;
    uint32_t rows;
    float *x;
    float *out;
    uint8_t *prepared;
};

static const char *const TYPES[] = {"f32",  "f16",  "bf16", "q8_0", "q4_0",
                                    "q4_1", "q5_0", "q5_1", "q2_k", "q3_k",
                                    "q4_k", "q5_k", "q6_k"};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), compare);
    return values[count / 2];
}

static uint8_t *draw_weights(uint32_t type, uint32_t rows)
{
    size_t row_bytes = (size_t)COLUMNS / quantise_block_elements(type) *
                       quantise_block_bytes(type);
    uint8_t *out = mem_new(row_bytes * rows);
    float x[COLUMNS];
    struct rng rng = rng_from_seed(type);
    enum { DISTINCT = 64 };
    for (uint32_t r = 0; r < rows; r++) {
        if (r >= DISTINCT) {
            memcpy(out + r * row_bytes, out + r % DISTINCT * row_bytes,
                   row_bytes);
            continue;
        }
        for (uint32_t i = 0; i < COLUMNS; i++) {
            x[i] = (float)(rng_next(&rng) >> 40) * 0x1p-24f - 0.5f;
        }
        quantise_row(type, x, COLUMNS, out + r * row_bytes);
    }
    return out;
}

/* Seconds of one product, matrix rows [0, end). */
static double time_product(const struct ops *ops, const struct case_ *c,
                           uint32_t end)
{
    uint64_t begin = io_clock_now_ns();
    ops->matmul(&c->matrix, c->prepared, c->rows, c->out, end, 0, end);
    return (double)(io_clock_now_ns() - begin) * 1e-9;
}

static void prepare(const struct ops *ops, struct case_ *c)
{
    size_t stride = ops->row_bytes(c->matrix.type, COLUMNS);
    for (uint32_t r = 0; r < c->rows; r++) {
        ops->prepare_row(c->matrix.type, c->x + (size_t)r * COLUMNS, COLUMNS,
                         c->prepared + r * stride);
    }
}

static double rate_of(const struct ops *ops, struct case_ *c, uint32_t end,
                      double work_per_row)
{
    double rates[RUNS];
    prepare(ops, c);
    for (int i = 0; i < RUNS; i++) {
        rates[i] = work_per_row * end / time_product(ops, c, end);
    }
    return median(rates, RUNS);
}

static void print_line(const char *name, const char *type, double value,
                       const char *unit, double ref)
{
    printf("{\"bench\":\"ops\",\"name\":\"%s_%s\",\"value\":%.2f,\"unit\":"
           "\"%s\",\"against\":\"ref\",\"ratio\":%.2f,\"goal\":1.0,"
           "\"aim\":10.0,\"runs\":%d}\n",
           name, type, value, unit, value / ref, RUNS);
    fflush(stdout);
}

static void bench_case(const char *type_name, struct case_ *c, const char *name,
                       const char *unit, double work_per_row)
{
    double ref = rate_of(&OPS_REF, c, REF_ROWS, work_per_row);
    for (const struct ops *const *ops = ops_all() + 1; *ops; ops++) {
        char full[64];
        snprintf(full, sizeof(full), "%s_%s", (*ops)->name, name);
        double rate = rate_of(*ops, c, c->matrix.rows, work_per_row);
        print_line(full, type_name, rate, unit, ref);
    }
}

static void bench_type(const char *name)
{
    uint32_t type;
    if (!quantise_find_type(name, &type)) {
        fprintf(stderr, "ops_bench: %s is no type\n", name);
        exit(1);
    }
    uint8_t *weights = draw_weights(type, TALL);
    struct case_ c = {
        .matrix = {type, TALL, COLUMNS, weights},
        .rows = 1,
        .x = mem_new_array((size_t)ROWS_MAX * COLUMNS, sizeof(float)),
        .out = mem_new_array((size_t)ROWS_MAX * SQUARE, sizeof(float)),
        .prepared = mem_try_aligned(64, (size_t)ROWS_MAX * COLUMNS * 8),
    };
    struct rng rng = rng_from_seed(9);
    for (size_t i = 0; i < (size_t)ROWS_MAX * COLUMNS; i++) {
        c.x[i] = (float)(rng_next(&rng) >> 40) * 0x1p-24f - 0.5f;
    }
    double bytes = (double)COLUMNS / quantise_block_elements(type) *
                   quantise_block_bytes(type);
    bench_case(name, &c, "gemv", "GB/s", bytes * 1e-9);
    c.matrix.rows = SQUARE;
    c.rows = 8;
    bench_case(name, &c, "rows8", "GFLOPS", 2e-9 * COLUMNS * 8);
    c.rows = ROWS_MAX;
    bench_case(name, &c, "rows512", "GFLOPS", 2e-9 * COLUMNS * ROWS_MAX);
    mem_free(c.prepared);
    mem_free(c.out);
    mem_free(c.x);
    mem_free(weights);
}

/* ---- attention ---- */

enum { DIM = 64, GROUP = 4, PAGE = 32, CONTEXT = 2048 };

static double time_attention(const struct ops *ops,
                             const struct ops_attention *a, uint32_t rows)
{
    double times[RUNS];
    for (int i = 0; i < RUNS; i++) {
        uint64_t begin = io_clock_now_ns();
        ops->attention(a, 0, rows);
        times[i] = (double)(io_clock_now_ns() - begin) * 1e-9;
    }
    return median(times, RUNS);
}

static void bench_attention(const char *name, uint32_t position, uint32_t rows)
{
    size_t side = PAGE * DIM * 2;
    uint8_t *pool = mem_new(CONTEXT / PAGE * 2 * side);
    kv_page_id pages[CONTEXT / PAGE];
    for (int i = 0; i < CONTEXT / PAGE; i++) {
        pages[i] = i;
    }
    size_t count = (size_t)rows * GROUP * DIM;
    float *query = mem_new_array(count, sizeof(float));
    float *out = mem_new_array(count, sizeof(float));
    float *scratch = mem_new_array(ops_attention_scratch(CONTEXT, GROUP, DIM),
                                   sizeof(float));
    struct ops_attention a = {.pool = pool,
                              .page_bytes = 2 * side,
                              .pages = pages,
                              .value_offset = side,
                              .tokens_per_block = PAGE,
                              .head_dim = DIM,
                              .group_size = GROUP,
                              .scale = 0.125f,
                              .query = query,
                              .query_stride = GROUP * DIM,
                              .out = out,
                              .out_stride = GROUP * DIM,
                              .position = position,
                              .scratch = scratch};
    double seen = rows * (position + (rows + 1) / 2.0);
    double work = 4e-9 * seen * GROUP * DIM;
    double ref = work / time_attention(&OPS_REF, &a, rows);
    for (const struct ops *const *ops = ops_all() + 1; *ops; ops++) {
        char full[64];
        snprintf(full, sizeof(full), "%s_attention", (*ops)->name);
        print_line(full, name, work / time_attention(*ops, &a, rows), "GFLOPS",
                   ref);
    }
    mem_free(scratch);
    mem_free(out);
    mem_free(query);
    mem_free(pool);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        bench_type(argv[i]);
    }
    for (size_t i = 0; argc < 2 && i < sizeof(TYPES) / sizeof(TYPES[0]); i++) {
        bench_type(TYPES[i]);
    }
    bench_attention("decode_2047", CONTEXT - 1, 1);
    bench_attention("prefill_512", 0, 512);
    return 0;
}
