// Several threads record at the same time, in one session that each of them opens. Runs under
// ThreadSanitizer.
#include <tensortap_record.h>

#include <cstdio>
#include <thread>
#include <vector>

static int record(unsigned number)
{
    int wrong = 0;
    tt_session *session = tt_attach();
    tt_recorder *r = tt_thread(session);
    std::vector<std::uint64_t> content(100, number);
    const std::uint64_t shape[1] = {content.size()};
    for (unsigned at = 0; at < 50; at++) {
        tt_task_info info = tt_task_of(tt_kernel_id(r, "work"));
        info.id = (std::uint64_t(number) + 1) << 32 | at;
        info.step = tt_step_id(r, at % 2 ? "odd" : "even");
        info.scope = tt_scope_id(r, "all", 0);
        tt_recorded_task task;
        wrong += tt_task_begin(r, &task, &info) != TT_OK;
        for (auto &element : content)
            element += at;
        tt_view view = tt_dense(0, TT_INOUT, content.data(), TT_UINT64, 1, shape);
        wrong += tt_record_after(r, &task, &view) != TT_OK;
        wrong += tt_task_end(r, &task) != TT_OK;
        tt_counts counts;
        wrong += tt_counters(session, &counts) != TT_OK;
    }
    wrong += tt_recorder_close(r) != TT_OK;
    wrong += tt_close(session) != TT_OK;
    return wrong;
}

int main()
{
    tt_session *session = tt_attach();
    std::vector<std::thread> threads;
    std::vector<int> wrong(6);
    for (unsigned number = 0; number < wrong.size(); number++)
        threads.emplace_back([number, &wrong] { wrong[number] = record(number); });
    for (auto &thread : threads)
        thread.join();
    int sum = 0;
    for (int count : wrong)
        sum += count;
    if (sum)
        std::fprintf(stderr, "%d calls went wrong\n", sum);
    return tt_close(session) != TT_OK || sum != 0;
}
