/* An OpenCL layer that counts the kernel launches that the driver accepted. When the process ends, it
 * appends a line with the process id and the count to COUNT_LAYER_FILE. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENTRIES = 149, ND_RANGE = 59, TASK = 60 };

typedef int32_t (*nd_range_function)(void *, void *, uint32_t, const size_t *, const size_t *, const size_t *, uint32_t, void *const *, void **);
typedef int32_t (*task_function)(void *, void *, uint32_t, void *const *, void **);

static void *target[ENTRIES], *table[ENTRIES];
static atomic_ulong launches;

static int32_t nd_range(void *queue, void *kernel, uint32_t dimensions, const size_t *offset, const size_t *global, const size_t *local,
                        uint32_t count, void *const *waits, void **event)
{
    int32_t status = ((nd_range_function)target[ND_RANGE])(queue, kernel, dimensions, offset, global, local, count, waits, event);
    launches += status == 0;
    return status;
}

static int32_t task(void *queue, void *kernel, uint32_t count, void *const *waits, void **event)
{
    int32_t status = ((task_function)target[TASK])(queue, kernel, count, waits, event);
    launches += status == 0;
    return status;
}

int32_t clGetLayerInfo(uint32_t what, size_t room, void *value, size_t *size)
{
    const uint32_t version = 100;
    if (what != 0x4240)
        return -30;
    if (value && room >= sizeof version)
        memcpy(value, &version, sizeof version);
    if (size)
        *size = sizeof version;
    return 0;
}

int32_t clInitLayer(uint32_t entries, void *const *next_layer, uint32_t *given_entries, void ***given)
{
    if (entries < ENTRIES)
        return -30;
    memcpy(target, next_layer, sizeof target);
    table[ND_RANGE] = (void *)nd_range;
    table[TASK] = (void *)task;
    *given_entries = ENTRIES;
    *given = table;
    return 0;
}

__attribute__((destructor)) static void say(void)
{
    const char *path = getenv("COUNT_LAYER_FILE");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%ld %lu\n", (long)getpid(), (unsigned long)launches);
        fclose(file);
    }
}
