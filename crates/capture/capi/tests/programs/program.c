/* Records in the mode of its first argument and checks every status. The test computes the same values. */
#include "expect.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* Element i of a tensor, as in the test. */
static unsigned char byte_at(uint64_t seed, uint64_t i) { return (unsigned char)(seed * 131 + i * 7 + i / 256); }

static void fill(unsigned char *bytes, uint64_t count, uint64_t seed)
{
    for (uint64_t i = 0; i < count; i++)
        bytes[i] = byte_at(seed, i);
}

/* Every dtype, as a 3 by 4 matrix that is read column by column from its last row up; then views with zero
   strides, and an empty one. */
static void views(void)
{
    tt_session *session = tt_attach();
    tt_recorder *r = tt_thread(session);
    unsigned char bytes[12 * 16];
    tt_kernel_arg args[2] = {{"x", TT_IN, 0}, {"factor", 4, 0}};
    unsigned char code[5000];
    tt_module_image_info module = {"libk.so", "-O2", NULL, code, sizeof code, TT_IMAGE_CUBIN, 0, {0, 0}};
    fill(code, sizeof code, 77);
    uint32_t id = tt_module_image(r, &module);
    EXPECT((id != 0) == (r != NULL) && tt_module_image(r, &module) == id);
    module.kind = 99;
    EXPECT(tt_module_image(r, &module) == 0);
    tt_task_info info = tt_task_of(tt_kernel_with(r, "gather", id, args, 2));
    info.scope = tt_scope_id(r, "inner", tt_scope_id(r, "outer", 0));
    info.queue = tt_queue_id(r, "stream 3");
    info.step = tt_step_id(r, "step 1");
    for (uint32_t dtype = TT_FLOAT64; dtype <= TT_COMPLEX128; dtype++) {
        uint64_t shape[2] = {4, 3};
        tt_recorded_task task;
        char name[32];
        snprintf(name, sizeof name, "dtype %u", dtype);
        info.id = 100 + dtype;
        info.name = tt_string(r, name);
        fill(bytes, sizeof bytes, dtype);
        tt_view view = tt_dense(0, TT_IN, bytes, (enum tt_dtype)dtype, 2, shape);
        EXPECT(view.bytes == 12 * tt_dtype_bits(dtype) / 8);
        view.strides[0] = 1;
        view.strides[1] = -4;
        view.start = 8;
        int began = tt_task_begin(r, &task, &info);
        EXPECT(began == (r ? TT_OK : TT_OFF));
        EXPECT(tt_record_before(r, &task, &view) == began);
        EXPECT(tt_record_f64(r, &task, 1, 0.5 * dtype, 0) == began);
        fill(bytes, sizeof bytes, dtype + 1000);
        tt_view both[2] = {view, tt_dense(3, TT_INOUT, bytes, TT_UINT8, 1, (uint64_t[1]){7})};
        both[0].strides[1] = 0;
        both[0].arg = 2;
        both[0].role = TT_OUT;
        both[0].name = tt_string(r, "scores");
        EXPECT(tt_record(r, &task, TT_AFTER, both, 2) == began);
        EXPECT(tt_task_end(r, &task) == began);
        if (r) {
            EXPECT(tt_task_id(&task) == info.id);
            EXPECT(tt_task_end(r, &task) == TT_BAD_ARGUMENT);
            EXPECT(strstr(tt_last_error(), "it has ended"));
        }
        if (dtype > TT_FLOAT64)
            EXPECT(tt_record_edge(r, info.id - 1, info.id, TT_EXPLICIT, 0) == began);
    }
    EXPECT(tt_wrote(r, bytes, sizeof bytes, tt_string(r, "from a file")) == (r ? TT_OK : TT_OFF));
    EXPECT(tt_freed(r, bytes, sizeof bytes) == (r ? TT_OK : TT_OFF));
    if (r) {
        tt_recorded_task none;
        memset(&none, 0x5a, sizeof none);
        EXPECT(tt_task_end(r, &none) == TT_BAD_ARGUMENT);
        info.operation = 99;
        EXPECT(tt_task_begin(r, &none, &info) == TT_BAD_ARGUMENT);
        EXPECT(tt_session_level(session) == TT_LEVEL_FULL);
        EXPECT(tt_flush(r) == TT_OK);
        EXPECT(!strcmp(tt_status_text(TT_COMMIT_FIRST), "no space until an earlier reservation is committed"));
    }
    tt_counts counts;
    tt_counters(session, &counts);
    EXPECT(counts.dropped == 0 && counts.refused == 0);
    EXPECT(tt_close(session) == (session ? TT_OK : TT_OFF));
}

static tt_session *shared;

static void *worker(void *number)
{
    tt_recorder *r = tt_thread(shared);
    EXPECT(r && r == tt_thread(shared));
    for (uint64_t at = 0; at < 40; at++) {
        unsigned char bytes[500];
        uint64_t shape[1] = {sizeof bytes};
        tt_task_info info = tt_task_of(tt_kernel_id(r, "work"));
        tt_recorded_task task;
        info.id = ((uint64_t)(uintptr_t)number + 1) << 32 | at;
        fill(bytes, sizeof bytes, info.id);
        tt_view view = tt_dense(0, TT_OUT, bytes, TT_UINT8, 1, shape);
        EXPECT(tt_task_begin(r, &task, &info) == TT_OK);
        EXPECT(tt_record_after(r, &task, &view) == TT_OK);
        EXPECT(tt_task_end(r, &task) == TT_OK);
    }
    return NULL; /* the recorder closes with the thread */
}

/* More threads than lanes, a few at a time. */
static void threads(void)
{
    shared = tt_attach();
    for (uintptr_t round = 0; round < 6; round++) {
        pthread_t running[4];
        for (uintptr_t at = 0; at < 4; at++)
            pthread_create(&running[at], NULL, worker, (void *)(4 * round + at));
        for (uintptr_t at = 0; at < 4; at++)
            pthread_join(running[at], NULL);
    }
    tt_close(shared);
}

static void one_task(tt_recorder *r, uint64_t id)
{
    unsigned char bytes[64];
    uint64_t shape[1] = {sizeof bytes};
    tt_task_info info = tt_task_of(0);
    tt_recorded_task task;
    info.id = id;
    fill(bytes, sizeof bytes, id);
    tt_view view = tt_dense(0, TT_IN, bytes, TT_UINT8, 1, shape);
    EXPECT(tt_task_begin(r, &task, &info) == TT_OK);
    EXPECT(tt_record_before(r, &task, &view) == TT_OK);
    EXPECT(tt_task_end(r, &task) == TT_OK);
}

/* A forked child: its parent's handles are closed; it can attach again. */
static void forks(void)
{
    tt_session *session = tt_attach();
    tt_recorder *r = tt_thread(session);
    one_task(r, 1);
    pid_t child = fork();
    if (!child) {
        tt_recorded_task task;
        tt_task_info info = tt_task_of(0);
        tt_counts counts;
        EXPECT(tt_task_begin(r, &task, &info) == TT_FORKED);
        EXPECT(tt_counters(session, &counts) == TT_FORKED);
        EXPECT(!tt_thread(session));
        tt_session *own = tt_attach();
        one_task(tt_thread(own), 2);
        EXPECT(tt_close(own) == TT_OK);
        EXPECT(tt_close(session) == TT_OK);
        exit(surprises != 0);
    }
    int status;
    waitpid(child, &status, 0);
    EXPECT(status == 0);
    one_task(r, 3);
    EXPECT(tt_close(session) == TT_OK);
}

/* Deferred content, committed in reverse order. */
static void later(void)
{
    tt_session *session = tt_attach();
    tt_recorder *r = tt_recorder_open(session, "copy engine");
    tt_task_info info = tt_task_of(0);
    tt_recorded_task task;
    tt_reserved_space spaces[5];
    uint64_t shape[1] = {3000};
    tt_view view = tt_dense(0, TT_OUT, (void *)0x7000, TT_UINT8, 1, shape);
    view.space = TT_DEVICE_MEMORY;
    info.id = 9;
    EXPECT(tt_task_begin(r, &task, &info) == TT_OK);
    EXPECT(tt_record_after(r, &task, &view) == TT_BAD_ARGUMENT);
    for (uint16_t at = 0; at < 5; at++) {
        view.arg = at;
        EXPECT(tt_reserve(r, &task, TT_AFTER, &view, &spaces[at]) == TT_OK);
        EXPECT(spaces[at].start && spaces[at].bytes == 3000);
    }
    EXPECT(tt_task_end(r, &task) == TT_OK);
    for (int at = 4; at >= 1; at--) {
        fill((unsigned char *)spaces[at].start, 3000, (uint64_t)at);
        EXPECT(tt_commit(r, spaces[at].number, NULL) == TT_OK);
    }
    EXPECT(tt_commit(r, spaces[2].number, NULL) == TT_BAD_ARGUMENT);
    EXPECT(tt_give_up(r, spaces[0].number) == TT_OK);
    tt_recorded_task again;
    info.id = 10;
    EXPECT(tt_task_begin(r, &again, &info) == TT_OK);
    view = tt_dense(0, TT_OUT, (void *)0x7000, TT_UINT8, 1, (uint64_t[1]){1 << 20});
    EXPECT(tt_reserve(r, &again, TT_AFTER, &view, &spaces[0]) == TT_TOO_LARGE && !spaces[0].start);
    EXPECT(strstr(tt_last_error(), "28672 at most"));
    view = tt_dense(0, TT_OUT, (void *)0x7000, TT_UINT8, 1, (uint64_t[1]){20000});
    int status = TT_OK, held = 0;
    for (; status == TT_OK && held < 5; held++)
        status = tt_reserve(r, &again, TT_AFTER, &view, &spaces[held]);
    EXPECT(status == TT_COMMIT_FIRST && held == 3);
    EXPECT(tt_recorder_close(r) == TT_OK);
    EXPECT(tt_close(session) == TT_OK);
}

/* The recorder dies: continue until this is noticed, and longer. */
static void gone(void)
{
    static unsigned char bytes[1 << 16];
    tt_session *session = tt_attach();
    tt_recorder *r = tt_thread(session);
    uint64_t shape[1] = {sizeof bytes};
    tt_view view = tt_dense(0, TT_IN, bytes, TT_UINT8, 1, shape);
    int dropped = 0;
    for (int at = 0; at < 100; at++) {
        tt_task_info info = tt_task_of(0);
        tt_recorded_task task;
        tt_task_begin(r, &task, &info);
        dropped += tt_record_before(r, &task, &view) == TT_DROPPED;
        tt_task_end(r, &task);
    }
    tt_counts counts;
    EXPECT(dropped > 90);
    EXPECT(tt_counters(session, &counts) == TT_OK && counts.dropped >= (uint64_t)dropped);
    EXPECT(tt_flush(r) == TT_NOT_FLUSHED);
    EXPECT(tt_close(session) == TT_NOT_FLUSHED);
}

/* Records into its own folder without a recorder. */
static void folder(const char *dir)
{
    tt_folder_options options;
    memset(&options, 0, sizeof options);
    options.lanes = 2;
    tt_session *session = tt_open_folder(dir, &options);
    EXPECT(session);
    one_task(tt_thread(session), 1);
    EXPECT(tt_close(session) == TT_OK);
    EXPECT(!tt_open_folder(dir, NULL));
    EXPECT(strstr(tt_last_error(), dir));
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "views";
    if (!strcmp(mode, "views"))
        views();
    else if (!strcmp(mode, "threads"))
        threads();
    else if (!strcmp(mode, "forks"))
        forks();
    else if (!strcmp(mode, "later"))
        later();
    else if (!strcmp(mode, "gone"))
        gone();
    else if (!strcmp(mode, "folder") && argc > 2)
        folder(argv[2]);
    else
        return 2;
    return surprises != 0;
}
