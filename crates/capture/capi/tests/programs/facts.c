/* Records facts about tasks and checks every status. The test compares them with the same values. */
#include "expect.h"

/* One attribute of each type, a list of all of them, and a long list. */
static void attributes(tt_recorder *r)
{
    tt_task_info info = tt_task_of(tt_kernel_id(r, "attend"));
    tt_recorded_task task, none;
    int began = tt_task_begin(r, &task, &info);
    tt_value all[7] = {tt_value_none(),        tt_value_bool(1),          tt_value_int(INT64_MIN),       tt_value_float(-0.25),
                       tt_value_text("causal"), tt_value_dtype(TT_BFLOAT16), tt_value_uncaptured("Generator")};
    tt_value many[1500];
    EXPECT(tt_attribute_none(r, &task, tt_string(r, "mask")) == began);
    EXPECT(tt_attribute_bool(r, &task, tt_string(r, "is_causal"), 7) == began);
    EXPECT(tt_attribute_int(r, &task, tt_string(r, "heads"), -12) == began);
    EXPECT(tt_attribute_float(r, &task, tt_string(r, "scale"), 0.125) == began);
    EXPECT(tt_attribute_text(r, &task, tt_string(r, "backend"), "flash \"2\"") == began);
    EXPECT(tt_attribute_dtype(r, &task, tt_string(r, "accumulate"), TT_FLOAT32) == began);
    EXPECT(tt_attribute(r, &task, tt_string(r, "generator"), tt_value_uncaptured("torch.Generator")) == began);
    EXPECT(tt_attribute_list(r, &task, tt_string(r, "all"), all, 7) == began);
    EXPECT(tt_attribute_list(r, &task, tt_string(r, "nothing"), NULL, 0) == began);
    for (int at = 0; at < 1500; at++)
        many[at] = tt_value_int(at);
    EXPECT(tt_attribute_list(r, &task, tt_string(r, "many"), many, 1500) == began);
    if (r) {
        EXPECT(tt_attribute_int(r, &task, 0, 1) == TT_BAD_ARGUMENT);
        EXPECT(strstr(tt_last_error(), "name it with a string id"));
        all[0].type = 99;
        EXPECT(tt_attribute(r, &task, 1, all[0]) == TT_BAD_ARGUMENT);
        EXPECT(tt_attribute_dtype(r, &task, 1, (enum tt_dtype)255) == TT_BAD_ARGUMENT);
        EXPECT(tt_attribute_list(r, &task, 1, NULL, 2) == TT_BAD_ARGUMENT);
        EXPECT(tt_attribute_int(r, NULL, 1, 1) == TT_BAD_ARGUMENT);
        memset(&none, 0x5a, sizeof none);
        EXPECT(tt_attribute_int(r, &none, 1, 1) == TT_BAD_ARGUMENT);
    }
    EXPECT(tt_task_end(r, &task) == began);
    if (r)
        EXPECT(tt_attribute_int(r, &task, 1, 1) == TT_BAD_ARGUMENT);
}

/* A library of the first version has only the functions up to `last_error`. */
static void old_library(tt_recorder *r)
{
    tt_record_api old;
    struct tt_recorder handle;
    tt_recorded_task task;
    if (!r)
        return;
    old = *r->api;
    old.bytes = TT_RECORD_LEAST_BYTES;
    handle.api = &old;
    memset(&task, 0, sizeof task);
    EXPECT(tt_attribute_int(&handle, &task, 1, 1) == TT_TOO_OLD);
    EXPECT(tt_attribute_list(&handle, &task, 1, NULL, 0) == TT_TOO_OLD);
}

int main(void)
{
    tt_session *session = tt_attach();
    tt_recorder *r = tt_thread(session);
    attributes(r);
    old_library(r);
    EXPECT(tt_close(session) == (session ? TT_OK : TT_OFF));
    return surprises > 0;
}
