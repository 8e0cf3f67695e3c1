/* Two training steps on four numbers, recorded with regions, attributes, collectives and re-allocated memory. With the
   argument `wrong`, the kernel `add` of the second step is wrong. */
#include <tensortap_record.h>

#include <cstdio>
#include <cstring>

static tt_recorder *r;
static const uint64_t shape[1] = {4};

static tt_view view(uint16_t arg, tt_role role, float *data) { return tt_dense(arg, role, data, TT_FLOAT32, 1, shape); }

/* A region with an input and an output, around a piece of work. */
template <class Work> static void region(const char *name, float *in, float *out, Work work)
{
    tt_task_info info = tt_task_of(0);
    info.operation = TT_OPERATOR;
    info.name = tt_string(r, name);
    tt_recorded_task task;
    tt_region_begin(r, &task, &info);
    tt_attribute_text(r, &task, tt_string(r, "module"), name);
    tt_view input = view(0, TT_IN, in), output = view(1, TT_OUT, out);
    tt_record_before(r, &task, &input);
    work();
    tt_record_after(r, &task, &output);
    tt_region_end(r, &task);
}

/* A kernel out[i] = in[i] * factor + offset. */
static void kernel(const char *name, float *in, float *out, float factor, float offset)
{
    tt_task_info info = tt_task_of(tt_kernel_id(r, name));
    tt_recorded_task task;
    tt_task_begin(r, &task, &info);
    const tt_value sizes[3] = {tt_value_int(4), tt_value_none(), tt_value_text("last")};
    tt_attribute_int(r, &task, tt_string(r, "axis"), -1);
    tt_attribute_float(r, &task, tt_string(r, "factor"), factor);
    tt_attribute_bool(r, &task, tt_string(r, "inplace"), in == out);
    tt_attribute_none(r, &task, tt_string(r, "mask"));
    tt_attribute_dtype(r, &task, tt_string(r, "accumulate"), TT_FLOAT64);
    tt_attribute_list(r, &task, tt_string(r, "sizes"), sizes, 3);
    tt_attribute(r, &task, tt_string(r, "generator"), tt_value_uncaptured("Generator"));
    tt_view input = view(0, in == out ? TT_INOUT : TT_IN, in), output = view(1, TT_OUT, out);
    tt_record_before(r, &task, &input);
    for (int i = 0; i < 4; i++)
        out[i] = in[i] * factor + offset;
    if (in == out)
        tt_record_after(r, &task, &input);
    else
        tt_record_after(r, &task, &output);
    tt_task_end(r, &task);
}

static void all_reduce(float *data, uint64_t number)
{
    tt_task_info info = tt_task_of(tt_kernel_id(r, "sum of ranks"));
    tt_recorded_task task;
    tt_task_begin(r, &task, &info);
    tt_collective(r, &task, tt_string(r, "dp"), number, TT_ALL_REDUCE);
    tt_view both = view(0, TT_INOUT, data);
    tt_record_before(r, &task, &both);
    tt_record_after(r, &task, &both);
    tt_task_end(r, &task);
}

static void memory(float *data, uint64_t storage, bool freed, uint64_t after)
{
    tt_allocation_info info;
    memset(&info, 0, sizeof info);
    info.address = (uint64_t)(uintptr_t)data;
    info.bytes = 16;
    info.storage = storage;
    info.after_task = after;
    info.space = TT_HOST_MEMORY;
    info.freed = freed;
    info.pool = tt_string(r, "cache");
    tt_allocation(r, &info);
}

int main(int argc, char **argv)
{
    const bool wrong = argc > 1 && !strcmp(argv[1], "wrong");
    tt_session *session = tt_attach();
    r = tt_thread(session);
    static float x[4] = {1, 2, 3, 4}, h[4], y[4];
    region("run", x, y, [&] {
        for (uint64_t step = 0; step < 2; step++) {
            memory(h, 7 + step, false, 0);
            region(step ? "step 1" : "step 0", x, y, [&] {
                region("layer", x, h, [&] {
                    kernel("scale", x, h, 2, 0);
                    kernel("add", h, h, 1, wrong && step ? 100 : 1);
                });
                kernel("copy", h, y, 1, 0);
                all_reduce(y, step);
            });
            memory(h, 7 + step, true, 0);
        }
    });
    printf("%g\n", (double)y[3]);
    return tt_close(session) < 0;
}
