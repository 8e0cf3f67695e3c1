/* Heat along a rod, step by step, recorded into its own folder without a recorder process. */
#include <tensortap_record.h>

#include <stdio.h>

enum { POINTS = 64, STEPS = 5 };

static void spread(const double *from, double *to)
{
    to[0] = from[0];
    to[POINTS - 1] = from[POINTS - 1];
    for (int at = 1; at < POINTS - 1; at++)
        to[at] = from[at] + 0.25 * (from[at - 1] - 2 * from[at] + from[at + 1]);
}

int main(int argc, char **argv)
{
    double rod[2][POINTS] = {{0}};
    const uint64_t shape[1] = {POINTS};
    const tt_kernel_arg args[] = {{"from", TT_IN, 0}, {"to", TT_OUT, 0}};
    tt_session *session;
    tt_recorder *recorder;
    uint32_t kernel;
    tt_counts counts;

    if (argc != 2) {
        fprintf(stderr, "usage: heat FOLDER\n");
        return 2;
    }
    session = tt_open_folder(argv[1], NULL);
    if (!session) {
        fprintf(stderr, "heat: %s: %s\n", argv[1], tt_last_error());
        return 1;
    }
    recorder = tt_thread(session);
    kernel = tt_kernel_with(recorder, "spread", 0, args, 2);

    rod[0][0] = 100;
    tt_wrote(recorder, rod[0], sizeof rod[0], tt_string(recorder, "the rod at first"));
    for (int step = 0; step < STEPS; step++) {
        const double *from = rod[step % 2];
        double *to = rod[(step + 1) % 2];
        const tt_view input = tt_dense(0, TT_IN, from, TT_FLOAT64, 1, shape);
        const tt_view output = tt_dense(1, TT_OUT, to, TT_FLOAT64, 1, shape);
        char name[16];
        tt_task_info info = tt_task_of(kernel);
        tt_recorded_task task;

        snprintf(name, sizeof name, "step %d", step);
        info.step = tt_step_id(recorder, name);
        tt_task_begin(recorder, &task, &info);
        tt_record_before(recorder, &task, &input);
        spread(from, to);
        tt_record_after(recorder, &task, &output);
        tt_task_end(recorder, &task);
    }
    tt_counters(session, &counts);
    tt_close(session);
    printf("%.6f %llu\n", rod[STEPS % 2][1], (unsigned long long)counts.dropped);
    return 0;
}
