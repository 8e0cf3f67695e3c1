/* Misuses the library and checks every status. */
#include "expect.h"

#include <pthread.h>
#include <time.h>

static unsigned char bytes[10000];

/* Every call that takes a recorder. */
static void expect_closed(tt_recorder *r, tt_recorded_task task)
{
    tt_task_info info = tt_task_of(0);
    tt_view view = tt_dense(0, TT_IN, bytes, TT_UINT8, 1, (uint64_t[1]){8});
    tt_reserved_space space;
    EXPECT(tt_record_before(r, &task, &view) == TT_CLOSED);
    EXPECT(strstr(tt_last_error(), "closed"));
    EXPECT(tt_record_f32(r, &task, 0, 1, 0) == TT_CLOSED);
    EXPECT(tt_record_edge(r, 1, 2, TT_EXPLICIT, 0) == TT_CLOSED);
    EXPECT(tt_wrote(r, bytes, 8, 0) == TT_CLOSED && tt_freed(r, bytes, 8) == TT_CLOSED);
    EXPECT(tt_reserve(r, &task, TT_AFTER, &view, &space) == TT_CLOSED);
    EXPECT(tt_commit(r, 0, NULL) == TT_CLOSED && tt_give_up(r, 0) == TT_CLOSED);
    EXPECT(tt_flush(r) == TT_CLOSED);
    EXPECT(tt_task_end(r, &task) == TT_CLOSED && tt_task_begin(r, &task, &info) == TT_CLOSED);
    EXPECT(!tt_string(r, "x") && !tt_kernel_id(r, "k") && !tt_queue_id(r, "q"));
}

static tt_recorder *of_ended;

static void *ends(void *session)
{
    of_ended = tt_thread((tt_session *)session);
    return NULL;
}

/* Handles after closing, and after their thread has ended. */
static void closed(void)
{
    tt_session *session = tt_attach(), *again = tt_attach();
    tt_recorder *mine = tt_thread(session), *own = tt_recorder_open(session, "own");
    tt_task_info info = tt_task_of(0);
    tt_recorded_task task;
    tt_counts counts;
    pthread_t thread;
    EXPECT(mine && own && tt_task_begin(mine, &task, &info) == TT_OK);
    pthread_create(&thread, NULL, ends, session);
    pthread_join(thread, NULL);
    EXPECT(of_ended && of_ended != mine);
    expect_closed(of_ended, task);
    EXPECT(tt_recorder_close(of_ended) == TT_CLOSED);
    EXPECT(tt_recorder_close(own) == TT_OK);
    expect_closed(own, task);
    EXPECT(tt_recorder_close(own) == TT_CLOSED);

    /* Opened twice: one handle is closed; the other handle and the thread's recorder are not. */
    EXPECT(tt_close(again) == TT_OK && tt_close(again) == TT_CLOSED);
    EXPECT(tt_counters(again, &counts) == TT_CLOSED && tt_session_level(again) == TT_CLOSED);
    EXPECT(!tt_thread(again) && strstr(tt_last_error(), "closed") && !tt_recorder_open(again, "no"));
    EXPECT(tt_thread(session) == mine && tt_task_end(mine, &task) == TT_OK);

    /* The handle is reused after as many closes as the header says, and not before. */
    for (int at = 0; at < 65536; at++) {
        tt_session *other = tt_attach();
        EXPECT(other && other != again && tt_close(other) == TT_OK);
    }
    EXPECT(tt_close(again) == TT_CLOSED);
    tt_session *other = tt_attach();
    EXPECT(other == again && tt_counters(other, &counts) == TT_OK && tt_close(other) == TT_OK);

    EXPECT(tt_task_begin(mine, &task, &info) == TT_OK && tt_task_end(mine, &task) == TT_OK);
    EXPECT(tt_close(session) == TT_OK);
    expect_closed(mine, task);
    EXPECT(tt_recorder_close(mine) == TT_CLOSED);
    EXPECT(tt_close(session) == TT_CLOSED && !tt_thread(session));
}

static void refuses(tt_recorder *r, tt_recorded_task *task, tt_view view, const char *why)
{
    EXPECT(tt_record_before(r, task, &view) == TT_BAD_ARGUMENT);
    if (strcmp(tt_last_error(), why)) {
        fprintf(stderr, "`%s` instead of `%s`\n", tt_last_error(), why);
        surprises++;
    }
}

/* Views that exceed their buffers, each as a separate argument, and a valid one between two of them. */
static void views(void)
{
    tt_session *session = tt_attach();
    tt_recorder *r = tt_thread(session);
    tt_task_info info = tt_task_of(0);
    tt_recorded_task task;
    tt_reserved_space space;
    tt_counts counts;
    EXPECT(tt_task_begin(r, &task, &info) == TT_OK);

    tt_view view = tt_dense(0, TT_IN, bytes, TT_FLOAT32, 1, (uint64_t[1]){10000});
    view.bytes = 10000; /* number of elements instead of bytes */
    refuses(r, &task, view, "argument 0: the view ends at byte 40000, but its buffer has 10000 bytes");
    refuses(r, &task, tt_dense(1, TT_IN, NULL, TT_FLOAT32, 1, (uint64_t[1]){100}),
            "argument 1: its data is NULL, but its buffer has 400 bytes");
    view = tt_dense(2, TT_IN, bytes, TT_UINT8, 1, (uint64_t[1]){8});
    view.start = 5;
    refuses(r, &task, view, "argument 2: the view ends at byte 13, but its buffer has 8 bytes");
    view = tt_dense(3, TT_IN, bytes, TT_UINT8, 1, (uint64_t[1]){1ull << 62});
    refuses(r, &task, view,
            "argument 3: the view reaches element 4611686018427387903 of 8 bits: a view ends within 1152921504606846976 bytes");
    EXPECT(tt_reserve(r, &task, TT_BEFORE, &view, &space) == TT_BAD_ARGUMENT && !space.start);
    view = tt_dense(4, TT_IN, bytes, TT_UINT8, 1, (uint64_t[1]){8});
    view.strides[0] = -1;
    refuses(r, &task, view, "argument 4: the view reaches element -7, below the buffer: raise the start offset");

    tt_view three[3] = {view, tt_dense(6, TT_IN, bytes, TT_UINT8, 1, (uint64_t[1]){8}), view};
    three[0].arg = 5;
    three[2].arg = 7;
    EXPECT(tt_record(r, &task, TT_BEFORE, three, 3) == TT_BAD_ARGUMENT);
    EXPECT(!strncmp(tt_last_error(), "argument 5: ", 12));
    EXPECT(tt_wrote(r, NULL, 16, 0) == TT_BAD_ARGUMENT);
    EXPECT(tt_task_end(r, &task) == TT_OK);
    EXPECT(tt_counters(session, &counts) == TT_OK && counts.uncaptured == 9 && counts.dropped == 0);
    EXPECT(tt_close(session) == TT_OK);
}

/* Calls beyond the limits are refused and counted. */
static void refused(void)
{
    tt_session *session = tt_attach();
    tt_recorder *r = tt_thread(session);
    tt_task_info info = tt_task_of(0);
    tt_recorded_task task;
    tt_reserved_space space;
    tt_counts counts;
    EXPECT(tt_task_begin(r, &task, &info) == TT_OK);

    /* Five refused calls. */
    EXPECT(tt_record_scalar(r, &task, 65535, TT_UINT8, 1, 0) == TT_BAD_ARGUMENT);
    EXPECT(!strcmp(tt_last_error(), "argument 65535: a task has at most 65535 arguments, counted from 0"));
    refuses(r, &task, tt_dense(65535, TT_IN, bytes, TT_UINT8, 1, (uint64_t[1]){8}),
            "argument 65535: a task has at most 65535 arguments, counted from 0");
    tt_view view = tt_dense(0, TT_IN, bytes, TT_UINT8, 1, (uint64_t[1]){8});
    view.dtype = 99;
    refuses(r, &task, view, "dtype 99: use a value of enum tt_dtype");
    view = tt_dense(0, TT_IN, bytes, TT_UINT8, 1, (uint64_t[1]){8});
    view.role = 9;
    refuses(r, &task, view, "role 9: use a value of enum tt_role");
    EXPECT(tt_allocated(r, bytes, 1ull << 53) == TT_BAD_ARGUMENT);

    /* Four arguments that are not captured: a view of one repeated element. */
    view = tt_dense(1, TT_IN, bytes, TT_UINT8, 2, (uint64_t[2]){1ull << 30, 1ull << 30});
    view.bytes = 8;
    view.strides[0] = view.strides[1] = 0;
    refuses(r, &task, view,
            "argument 1: its content is larger than 1 TiB, including repeated elements; use a smaller shape");
    EXPECT(tt_reserve(r, &task, TT_BEFORE, &view, &space) == TT_BAD_ARGUMENT && !space.start);
    view = tt_dense(2, TT_IN, bytes, TT_UINT8, 2, (uint64_t[2]){1ull << 53, 0});
    view.bytes = 8;
    refuses(r, &task, view,
            "argument 2: 9007199254740992 is too large for a size, stride or offset; the limit is 2^53");
    view = tt_dense(3, TT_IN, bytes, TT_UINT8, 1, (uint64_t[1]){1});
    view.strides[0] = -(1ll << 53);
    refuses(r, &task, view,
            "argument 3: 9007199254740992 is too large for a size, stride or offset; the limit is 2^53");

    /* The last valid argument. */
    EXPECT(tt_record_scalar(r, &task, 65534, TT_UINT8, 1, 0) == TT_OK);
    EXPECT(tt_task_end(r, &task) == TT_OK);
    EXPECT(tt_counters(session, &counts) == TT_OK && counts.uncaptured == 4 && counts.dropped == 0);
    EXPECT(tt_close(session) == TT_OK);
}

/* The recorder dies while there is space for everything. */
static void gone(void)
{
    const struct timespec a_while = {0, 60000000};
    tt_session *session = tt_attach();
    tt_recorder *r = tt_thread(session), *other = tt_recorder_open(session, "other");
    tt_task_info info = tt_task_of(0);
    tt_recorded_task task;
    tt_reserved_space space;
    tt_counts counts;
    tt_view view = tt_dense(0, TT_IN, bytes, TT_UINT8, 1, (uint64_t[1]){8});
    EXPECT(tt_record_edge(r, 1, 2, TT_EXPLICIT, 0) == TT_OK && tt_record_edge(other, 1, 2, TT_EXPLICIT, 0) == TT_OK);
    /* Wakes the recorder, which then dies. */
    EXPECT(tt_recorder_close(tt_recorder_open(session, "last words")) == TT_OK);
    int status = TT_OK;
    for (int at = 0; at < 100 && status == TT_OK; at++) { /* a lane has space for 128 */
        nanosleep(&a_while, NULL);
        status = tt_record_edge(r, 1, 2, TT_EXPLICIT, 0);
    }
    EXPECT(status == TT_DROPPED);
    EXPECT(strstr(tt_last_error(), "the recorder has exited"));
    /* The other lane knows it, too, in every call. */
    EXPECT(tt_record_edge(other, 1, 2, TT_EXPLICIT, 0) == TT_DROPPED);
    EXPECT(tt_task_begin(other, &task, &info) == TT_DROPPED);
    EXPECT(tt_record_before(other, &task, &view) == TT_DROPPED && tt_task_end(other, &task) == TT_DROPPED);
    EXPECT(tt_task_begin(other, &task, &info) == TT_DROPPED);
    EXPECT(tt_reserve(other, &task, TT_AFTER, &view, &space) == TT_DROPPED && !space.start);
    EXPECT(tt_counters(session, &counts) == TT_OK && counts.dropped >= 5);
    EXPECT(tt_recorder_close(tt_recorder_open(session, "")) == TT_OK && tt_commit(r, 7, NULL) == TT_BAD_ARGUMENT);
    EXPECT(tt_flush(r) == TT_NOT_FLUSHED && strstr(tt_last_error(), "the recorder has exited"));
    EXPECT(tt_commit(r, 7, NULL) == TT_BAD_ARGUMENT);
    EXPECT(tt_close(session) == TT_NOT_FLUSHED && strstr(tt_last_error(), "the recorder has exited"));
}

/* The collector is too slow: records without space are dropped, and the error text reports it. */
static void slow(const char *dir)
{
    tt_folder_options options;
    memset(&options, 0, sizeof options);
    options.drops = 1;
    options.lanes = 1;
    options.arena_bytes = 4096;
    tt_session *session = tt_open_folder(dir, &options);
    tt_recorder *r = tt_thread(session);
    tt_task_info info = tt_task_of(0);
    tt_recorded_task task;
    tt_view view = tt_dense(0, TT_IN, bytes, TT_UINT8, 1, (uint64_t[1]){sizeof bytes});
    EXPECT(tt_task_begin(r, &task, &info) == TT_OK);
    EXPECT(tt_record_before(r, &task, &view) == TT_DROPPED);
    EXPECT(!strcmp(tt_last_error(), tt_status_text(TT_DROPPED)));
    EXPECT(!tt_recorder_open(session, "second") && strstr(tt_last_error(), "lanes are in use"));
    EXPECT(tt_task_end(r, &task) == TT_OK && tt_close(session) == TT_OK);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "closed"))
        closed();
    else if (!strcmp(mode, "views"))
        views();
    else if (!strcmp(mode, "refused"))
        refused();
    else if (!strcmp(mode, "gone"))
        gone();
    else if (!strcmp(mode, "slow") && argc > 2)
        slow(argv[2]);
    else
        return 2;
    return surprises != 0;
}
