#include "base/mem.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_uint_fast64_t allocation_count;

static void count_one(void)
{
    atomic_fetch_add_explicit(&allocation_count, 1, memory_order_relaxed);
}

void *mem_try_array(size_t count, size_t size)
{
    count_one();
    return calloc(count == 0 ? 1 : count, size == 0 ? 1 : size);
}

void *mem_new_array(size_t count, size_t size)
{
    void *memory = mem_try_array(count, size);
    if (memory == NULL) {
        fprintf(stderr, "baton: out of memory (%zu x %zu bytes)\n", count,
                size);
        exit(EXIT_FAILURE);
    }
    return memory;
}

void *mem_new(size_t size)
{
    return mem_new_array(1, size);
}

void *mem_try_aligned(size_t alignment, size_t size)
{
    count_one();
    size_t rounded = (size + alignment - 1) / alignment * alignment;
    if (rounded < size) {
        return NULL;
    }
    void *memory = aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
    if (memory != NULL) {
        memset(memory, 0, rounded);
    }
    return memory;
}

void *mem_try_resize(void *memory, size_t size)
{
    count_one();
    return realloc(memory, size == 0 ? 1 : size);
}

void *mem_copy(const void *data, size_t size)
{
    void *memory = mem_new_array(1, size);
    if (size > 0) {
        memcpy(memory, data, size);
    }
    return memory;
}

char *mem_copy_string(const char *text)
{
    return mem_copy(text, strlen(text) + 1);
}

void mem_free(void *memory)
{
    free(memory);
}

uint64_t mem_allocation_count(void)
{
    return atomic_load_explicit(&allocation_count, memory_order_relaxed);
}
