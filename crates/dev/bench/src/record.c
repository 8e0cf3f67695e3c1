/* Measures calls of tensortap_record.h. Started by `tensortap bench record`; prints a line for each round:
 *
 *     off ROUNDS                       nanoseconds per call without a recorder
 *     record DIR BYTES COUNT ROUNDS    nanoseconds per record: one per call, four per call, and per copy
 */
#include <tensortap_record.h>

#include <stdio.h>
#include <time.h>

#define CALLS 1000000
#define RING_BYTES (4u << 20)
#define TOGETHER 4

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* Hides the value from the optimizer. */
#define HIDE(value) __asm__ volatile("" : "+r"(value) : : "memory")

static int off(int rounds)
{
    tt_session *session = tt_attach();
    tt_recorder *r = tt_thread(session);
    uint64_t shape[1] = {1};
    tt_recorded_task task;
    tt_view view = tt_dense(0, TT_IN, &view, TT_UINT8, 1, shape);
    for (int round = 0; round < rounds; round++) {
        int status = 0;
        double began = now_ns();
        for (int call = 0; call < CALLS; call++) {
            HIDE(r);
            status |= tt_record_before(r, &task, &view);
        }
        double took = now_ns() - began;
        if (session || status != TT_OFF)
            return 3;
        printf("%.6f\n", took / CALLS);
    }
    return 0;
}

static int begin(tt_recorder *r, tt_recorded_task *task)
{
    tt_task_info info = tt_task_of(0);
    return tt_task_begin(r, task, &info);
}

static int record(const char *dir, uint64_t bytes, int count, int rounds)
{
    tt_session *session = tt_open_folder(dir, NULL);
    tt_recorder *r = tt_thread(session);
    unsigned char *content = (unsigned char *)malloc(bytes), *ring = (unsigned char *)malloc(RING_BYTES);
    uint64_t shape[1] = {bytes};
    tt_view views[TOGETHER];
    if (!r || !content || !ring) {
        fprintf(stderr, "%s\n", tt_last_error());
        return 3;
    }
    memset(ring, 1, RING_BYTES);
    for (uint64_t at = 0; at < bytes; at++)
        content[at] = (unsigned char)(at * 37);
    for (uint16_t arg = 0; arg < TOGETHER; arg++)
        views[arg] = tt_dense(arg, TT_IN, content, TT_UINT8, 1, shape);
    for (int round = 0; round < rounds; round++) {
        int status = 0;
        uint64_t at = 0;
        tt_recorded_task task;
        /* Different content in each round, because equal content is stored once. */
        content[0] = (unsigned char)round;
        double copy = now_ns();
        for (int number = 0; number < count; number++) {
            at = at + bytes > RING_BYTES ? 0 : at;
            HIDE(content);
            memcpy(ring + at, content, bytes);
            at = (at + bytes + 63) / 64 * 64;
        }
        copy = now_ns() - copy;
        status |= begin(r, &task) | tt_flush(r);
        double alone = now_ns();
        for (int number = 0; number < count; number++)
            status |= tt_record_before(r, &task, &views[0]);
        alone = now_ns() - alone;
        status |= tt_task_end(r, &task) | begin(r, &task) | tt_flush(r);
        double together = now_ns();
        for (int number = 0; number < count; number += TOGETHER)
            status |= tt_record(r, &task, TT_BEFORE, views, TOGETHER);
        together = now_ns() - together;
        status |= tt_task_end(r, &task) | tt_flush(r);
        if (status != TT_OK)
            return 3;
        printf("%.3f %.3f %.3f\n", alone / count, together / count, copy / count);
    }
    return tt_close(session) == TT_OK ? 0 : 3;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "off"))
        return off(atoi(argv[2]));
    if (argc == 6 && !strcmp(argv[1], "record"))
        return record(argv[2], strtoull(argv[3], NULL, 10), atoi(argv[4]), atoi(argv[5]));
    return 2;
}
