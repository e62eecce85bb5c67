#include "base/crc32c_join.h"

/* A sum is a polynomial over two elements, the bit of highest value being the
 * term of degree 0; a byte appended multiplies it by x^8, modulo POLYNOMIAL. */
static const uint32_t POLYNOMIAL = 0x82f63b78;
static const uint32_t ONE = 0x80000000;

static uint32_t times_x(uint32_t a)
{
    return a >> 1 ^ ((a & 1) != 0 ? POLYNOMIAL : 0);
}

static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (int degree = 0; degree < 32; degree++) {
        product ^= (a << degree & ONE) != 0 ? b : 0;
        b = times_x(b);
    }
    return product;
}

uint32_t crc32c_reach(size_t size)
{
    uint32_t reach = ONE;
    uint32_t power = ONE >> 8; /* x^8, then its squares */
    for (; size > 0; size >>= 1) {
        reach = (size & 1) != 0 ? multiply(reach, power) : reach;
        power = multiply(power, power);
    }
    return reach;
}

uint32_t crc32c_join(uint32_t before, uint32_t after, uint32_t reach)
{
    return multiply(before, reach) ^ after;
}
