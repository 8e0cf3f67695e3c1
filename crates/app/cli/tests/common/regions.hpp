/* A program that launches kernels inside and outside of regions: PROGRAM record|device right|wrong. The first word is the
   library that attaches first. Each suite adds the device. A wrong program runs another kernel `add`. */
#include <tensortap_record.hpp>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

enum { WORDS = 64, BUFFERS = 7 };

/* Buffer 0 has 1, 2, 3, …; the others have zeros. */
static void open_device(bool wrong);
/* Runs `scale` (y = 3 x) or `add` (y = x + 2) from one buffer to another. */
static void launch(const char *kernel, int from, int to);
/* The first word of a buffer, after all launches. */
static std::uint32_t first_word(int buffer);

static void need(long status, const char *what)
{
    if (status) {
        std::fprintf(stderr, "%s: %ld\n", what, status);
        std::exit(1);
    }
}
#define NEED(call) need((call), #call)

int main(int count, char **args)
{
    if (count != 3)
        return 2;
    const bool device_first = !std::strcmp(args[1], "device"), wrong = !std::strcmp(args[2], "wrong");
    if (device_first)
        open_device(wrong);
    tensortap::Session session;
    tensortap::Thread thread = session.thread();
    if (!device_first)
        open_device(wrong);
    launch("scale", 0, 1);
    {
        tensortap::Region step = thread.region("step");
        step.attribute("number", 7);
        {
            tensortap::Region layer = thread.region("layer");
            launch("scale", 1, 2);
            launch("add", 2, 3);
            /* A thread of its own is in no region. */
            std::thread([] { launch("scale", 0, 4); }).join();
        }
        tensortap::Task inside = thread.task("on the host");
        const float x[2] = {1, 2};
        inside.in(0, x);
        inside.end();
        launch("add", 3, 5);
    }
    launch("add", 5, 6);
    std::printf("%u %u\n", first_word(4), first_word(6));
    return session.close() < 0;
}
