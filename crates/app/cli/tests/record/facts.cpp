/* Two training steps on four numbers, recorded with regions, attributes, collectives and re-allocated memory. With the
   argument `wrong`, the kernel `add` of the second step is wrong. */
#include <tensortap_record.hpp>

#include <cstdio>
#include <cstring>

using tensortap::Value;

static float x[4] = {1, 2, 3, 4}, h[4], y[4];

/* A region with an input and an output, around a piece of work. */
template <class Work>
static void region(const tensortap::Thread &thread, const char *name, float *in, float *out, Work work)
{
    tt_task_info info = tt_task_of(0);
    info.operation = TT_OPERATOR;
    info.name = thread.string(name);
    tensortap::Region region = thread.region(info);
    region.attribute("module", name).in(0, {in, {4}}).out(1, {out, {4}});
    work();
}

/* A kernel out[i] = in[i] * factor + offset. */
static void kernel(const tensortap::Thread &thread, const char *name, float *in, float *out, float factor, float offset)
{
    tensortap::Task task = thread.task(name);
    task.attribute("axis", -1).attribute("factor", factor).attribute("inplace", in == out).attribute("mask", nullptr);
    task.attribute("accumulate", TT_FLOAT64).attribute("sizes", {4, nullptr, "last"});
    task.attribute("generator", Value::uncaptured("Generator"));
    if (in == out)
        task.inout(0, {in, {4}});
    else
        task.in(0, {in, {4}}).out(1, {out, {4}});
    for (int i = 0; i < 4; i++)
        out[i] = in[i] * factor + offset;
}

int main(int argc, char **argv)
{
    const bool wrong = argc > 1 && !std::strcmp(argv[1], "wrong");
    tensortap::Session session;
    tensortap::Thread thread = session.thread();
    region(thread, "run", x, y, [&] {
        /* A region without arguments. */
        { tensortap::Region empty = thread.region("setup"); }
        for (std::uint64_t step = 0; step < 2; step++) {
            const tensortap::Memory memory = tensortap::Memory(h, sizeof h).storage(7 + step).pool("cache");
            thread.allocated(memory);
            region(thread, step ? "step 1" : "step 0", x, y, [&] {
                region(thread, "layer", x, h, [&] {
                    kernel(thread, "scale", x, h, 2, 0);
                    kernel(thread, "add", h, h, 1, wrong && step ? 100 : 1);
                });
                kernel(thread, "copy", h, y, 1, 0);
                tensortap::Task reduce = thread.task("sum of ranks");
                reduce.collective("dp", step, TT_ALL_REDUCE).inout(0, y);
            });
            thread.freed(memory);
        }
    });
    std::printf("%g\n", static_cast<double>(y[3]));
    return session.close() < 0;
}
