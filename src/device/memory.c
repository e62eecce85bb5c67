#include "device/memory.h"

#include "base/check.h"
#include "base/mem.h"

static enum err heap_take(void *context, size_t size, struct why *why,
                          void **memory_out)
{
    (void)context;
    void *memory = mem_try_aligned(DEVICE_ALIGNMENT, size);
    if (memory == NULL) {
        return why_say(why, ERR_NO_MEMORY, "no %zu bytes of memory", size);
    }
    *memory_out = memory;
    return OK;
}

static void heap_give(void *context, void *memory, size_t size)
{
    (void)context;
    (void)size;
    mem_free(memory);
}

struct device_allocator device_allocator_heap(void)
{
    return (struct device_allocator){
        .name = "heap",
        .kind = DEVICE_KIND_HOST,
        .take = heap_take,
        .give = heap_give,
    };
}

enum err device_memory_take(const struct device_allocator *allocator,
                            size_t size, struct why *why,
                            struct device_memory *memory_out)
{
    if (size == 0) {
        return why_say(why, ERR_INVALID, "memory: size is 0");
    }
    void *base;
    enum err err = allocator->take(allocator->context, size, why, &base);
    if (err) {
        return why_prefix(why, err, "%s memory", allocator->name);
    }
    CHECK((uintptr_t)base % DEVICE_ALIGNMENT == 0);
    *memory_out = (struct device_memory){
        .base = base,
        .size = size,
        .kind = allocator->kind,
        .allocator = *allocator,
    };
    return OK;
}

void device_memory_give(struct device_memory *memory)
{
    if (memory->base != NULL) {
        memory->allocator.give(memory->allocator.context, memory->base,
                               memory->size);
    }
    *memory = (struct device_memory){0};
}
