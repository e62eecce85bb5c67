/* Which bodies this CPU can run, asked once and for all at each call: the
 * answer never changes, so nothing is kept. */
#include <cpuid.h>

#include "model/ops_bodies.h"

static bool has_f16c(void)
{
    unsigned int a;
    unsigned int b;
    unsigned int c;
    unsigned int d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool can_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
           has_f16c();
}

static bool can_avx512(void)
{
    return can_avx2() && __builtin_cpu_supports("avx512f") &&
           __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vnni");
}

const struct ops *ops_fast(void)
{
    return can_avx512() ? &OPS_AVX512 : can_avx2() ? &OPS_AVX2 : &OPS_REF;
}

const struct ops *const *ops_all(void)
{
    static const struct ops *const ALL[] = {&OPS_REF, &OPS_AVX2, &OPS_AVX512,
                                            NULL};
    static const struct ops *const NARROW[] = {&OPS_REF, &OPS_AVX2, NULL};
    static const struct ops *const PLAIN[] = {&OPS_REF, NULL};
    return can_avx512() ? ALL : can_avx2() ? NARROW : PLAIN;
}
