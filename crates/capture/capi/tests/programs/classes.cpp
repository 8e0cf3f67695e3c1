// Records through the classes of tensortap_record.hpp, in the mode of its first argument: attached, or into the folder
// `argv[1]`. Without a recorder, every call does nothing.
#include <tensortap_record.hpp>

#include "expect.h"

#include <array>
#include <numeric>
#include <stdexcept>
#include <vector>

struct bfloat16 {
    std::uint16_t bits;
};
template <>
struct tensortap::element<bfloat16> {
    static constexpr tt_dtype dtype = TT_BFLOAT16;
};

static_assert(!std::is_copy_constructible_v<tensortap::Session> && !std::is_copy_assignable_v<tensortap::Thread>);
static_assert(!std::is_copy_constructible_v<tensortap::Task>);
static_assert(std::is_nothrow_move_constructible_v<tensortap::Session> && std::is_nothrow_move_assignable_v<tensortap::Thread>);
static_assert(std::is_nothrow_move_constructible_v<tensortap::Task> && std::is_nothrow_destructible_v<tensortap::Task>);
static_assert(tensortap::dtype_of<const long> == TT_INT64 && tensortap::dtype_of<unsigned char> == TT_UINT8);
static_assert(tensortap::dtype_of<bool> == TT_BOOL && tensortap::dtype_of<std::complex<double>> == TT_COMPLEX128);

// Task 1: every kind of argument.
static void arguments(const tensortap::Thread &thread, int ok)
{
    std::vector<float> x(6);
    std::iota(x.begin(), x.end(), 1.0f);
    std::array<double, 3> y{1, 2, 3};
    std::int16_t z[4] = {1, 2, 3, 4};
    std::vector<bfloat16> half(2, bfloat16{0x3f80});
    const std::vector<int> shape{2, 3};
    std::vector<std::complex<float>> waves{{1, 2}, {3, -4}};
    tensortap::Task task = thread.task("arguments");
    EXPECT(task.status() == ok);
    task.in(0, x)
        .in(1, {x, {2, 3}})
        .in(2, {x.data(), shape, {1, 2}})                      // column by column
        .in(3, {x.data(), {3}, {-2}, 5})                       // every second element, from the last
        .inout(4, tensortap::Tensor(y).named("state"))
        .out(5, z)
        .in(6, half)
        .in(7, {TT_INT4, x.data(), {3}})
        .in(8, waves)
        .scalar(9, 2.5f)
        .scalar(10, std::int8_t{-3}, "step")
        .scalar(11, std::complex<float>(1.5f, -2));
    y = {4, 5, 6};
    z[3] = -4;
    EXPECT(task.status() == ok && (task.id() != 0) == (ok == TT_OK));
    EXPECT(task.end() == ok && task.end() == ok && task.id() == 0);
}

// Tasks 2 and 3: moved, and ended by their destructors, the later one first.
static void moves(const tensortap::Thread &thread, int ok)
{
    std::vector<int> content{7, 8};
    tensortap::Task outer = thread.task("outer");
    {
        tensortap::Task inner = thread.task("inner");
        inner.out(0, content);
        tensortap::Task moved = std::move(inner);
        EXPECT(inner.end() == ok); // NOLINT: a moved-from task owns nothing
        content[0] = 9;
        outer.out(0, content);
    }
    content[1] = 10;
    tensortap::Task other(nullptr, tt_task_of(0));
    EXPECT(other.status() == TT_OFF);
    other = std::move(outer);
    EXPECT(other.status() == ok);
}

// Task 4: an exception unwinds it. It ends without an output. Task 5: refused arguments, which do not end it.
static void failures(const tensortap::Thread &thread, int ok)
{
    std::vector<int> content{1};
    try {
        tensortap::Task task = thread.task("throws");
        task.in(0, content).out(1, content);
        throw std::runtime_error("no result");
    } catch (const std::runtime_error &) {
    }
    tensortap::Task task = thread.task("refused");
    task.in(0, {content, {2}}).in(1, {content.data(), {1, 1, 1, 1, 1, 1, 1, 1, 1}}).in(2, content);
    EXPECT(task.status() == (ok == TT_OK ? TT_BAD_ARGUMENT : TT_OFF));
}

// Task 6: a region with attributes, and task 7 inside of it.
static void regions(const tensortap::Thread &thread, int ok)
{
    tensortap::Region region = thread.region("layer 1");
    region.attribute("axis", -1).attribute("eps", 0.5).attribute("mode", "sum").attribute("causal", true);
    region.attribute("out", TT_BFLOAT16).attribute("mask", nullptr).attribute("shape", {2, "x", 1.5});
    EXPECT(region.status() == ok);
    tensortap::Region moved = std::move(region);
    std::vector<int> content{4};
    tensortap::Task inside = thread.task("inside");
    inside.in(0, content).collective("dp", 3, TT_ALL_GATHER);
    inside.attribute("generator", tensortap::Value::uncaptured("Generator"));
    EXPECT(inside.status() == ok);
    const tensortap::Memory memory = tensortap::Memory(content.data(), 4).storage(5).pool("cache");
    EXPECT(thread.allocated(memory) == ok && thread.freed(memory) == ok);
    EXPECT(thread.allocated(tensortap::Memory(0x7000, 64, TT_DEVICE_MEMORY).queue(thread.queue("stream"), 7)) == ok);
}

int main(int argc, char **argv)
{
    tensortap::Session first = argc > 1 ? tensortap::Session(argv[1]) : tensortap::Session();
    tensortap::Session session = std::move(first);
    const int ok = session ? TT_OK : TT_OFF;
    EXPECT(!first && first.close() == TT_OFF); // NOLINT: a moved-from session owns nothing
    EXPECT(session.level() == (session ? TT_LEVEL_FULL : TT_LEVEL_OFF));
    {
        tensortap::Thread thread = session.thread();
        EXPECT(bool(thread) == bool(session));
        arguments(thread, ok);
        moves(thread, ok);
        failures(thread, ok);
        regions(thread, ok);
        EXPECT(thread.edge(2, 3) == ok && thread.flush() == ok);
        tensortap::Thread queue = session.open_thread("queue 1");
        tt_task_info info = tt_task_of(queue.kernel("copy"));
        info.operation = TT_COPY;
        info.queue = queue.queue("stream");
        info.scope = queue.scope("inner", queue.scope("outer"));
        std::vector<int> content{3};
        queue.task(info).in(0, content);
        EXPECT(queue.wrote(content.data(), sizeof(int), "file") == ok && queue.freed(content.data(), sizeof(int)) == ok);
        thread = std::move(queue);
        EXPECT(!queue && bool(thread) == bool(session)); // NOLINT: a moved-from recorder owns nothing
    }
    EXPECT(session.counters().dropped == 0);
    EXPECT(session.close() == ok);
    return surprises != 0;
}
