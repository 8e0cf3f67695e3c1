// Calls at the end of a thread and of the program: destructors of thread-local and static objects, and
// `atexit`.
#include <tensortap_record.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

static int surprises;

static void expect(bool good, const char *what)
{
    if (!good) {
        std::fprintf(stderr, "not as expected: %s\n", what);
        surprises++;
    }
}
#define EXPECT(what) expect((what), #what)

static tt_session *session;
static tt_recorder *own;

/* Records one task with a tensor. */
static void record(tt_recorder *r, std::uint64_t id)
{
    const std::uint64_t content[2] = {id, ~id}, shape[1] = {2};
    tt_view view = tt_dense(0, TT_OUT, content, TT_UINT64, 1, shape);
    tt_task_info info = tt_task_of(tt_kernel_id(r, "late"));
    tt_recorded_task task;
    info.id = id;
    EXPECT(tt_task_begin(r, &task, &info) == TT_OK);
    EXPECT(tt_record_after(r, &task, &view) == TT_OK);
    EXPECT(tt_task_end(r, &task) == TT_OK);
}

/* Created before the library knows the thread, so it is destroyed after the library's list for the thread. */
struct EndOfThread {
    std::uint64_t id = 0;
    ~EndOfThread()
    {
        EXPECT(tt_thread(session) == nullptr);
        tt_last_error();
        tt_recorder *r = tt_recorder_open(session, "end of a thread");
        EXPECT(r != nullptr);
        record(r, id);
        EXPECT(tt_recorder_close(r) == TT_OK);
    }
};
static thread_local EndOfThread end_of_thread;

static void at_exit(void)
{
    EXPECT(tt_thread(session) == nullptr);
    record(own, 4);
    tt_counts counts;
    EXPECT(tt_counters(session, &counts) == TT_OK && counts.dropped == 0 && counts.refused == 0);
}

struct EndOfProgram {
    ~EndOfProgram()
    {
        EXPECT(tt_thread(session) == nullptr);
        record(own, 5);
        EXPECT(tt_recorder_close(own) == TT_OK && tt_recorder_close(own) == TT_CLOSED);
        EXPECT(tt_close(session) == TT_OK && tt_close(session) == TT_CLOSED);
        if (surprises)
            std::_Exit(1);
    }
};
static EndOfProgram end_of_program;

int main()
{
    end_of_thread.id = 1;
    session = tt_attach();
    own = tt_recorder_open(session, "own");
    std::atexit(at_exit);
    std::thread([] {
        end_of_thread.id = 2;
        record(tt_thread(session), 3);
    }).join();
    record(tt_thread(session), 6);
    return 0;
}
