// A picture of tiles, computed by a thread pool: `fill` computes each tile, `blend` mixes each tile with the
// one to its right.
//
//     c++ -std=c++17 -O2 -pthread -I ../../../include pool.cpp -o pool
//     ./pool 1      # one thread: the right picture
//     ./pool 4      # four threads: sometimes another one
//
// It has a typical bug: the `blend` of a tile waits for that tile, but not for the one to its right. With one
// thread, the order of the queue hides the bug. README.md shows how to find it with two recordings.
#include <tensortap_record.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr std::size_t tiles = 8, width = 256;
using Tile = float[width];

Tile picture[tiles + 1]; // the last one is the black border
Tile blended[tiles];

// Runs jobs in order of submission, on several threads.
class Pool {
public:
    Pool(unsigned count, tt_session *session)
    {
        for (unsigned number = 0; number < count; number++)
            threads.emplace_back([this, session] { work(tt_thread(session)); });
    }

    void submit(std::function<void(tt_recorder *)> job)
    {
        std::lock_guard<std::mutex> lock(mutex);
        jobs.push_back(std::move(job));
        open++;
        changed.notify_all();
    }

    // Waits until all jobs are done, including jobs submitted by jobs.
    void finish()
    {
        std::unique_lock<std::mutex> lock(mutex);
        changed.wait(lock, [this] { return open == 0; });
        closed = true;
        changed.notify_all();
        lock.unlock();
        for (std::thread &thread : threads)
            thread.join();
    }

private:
    void work(tt_recorder *recorder)
    {
        std::unique_lock<std::mutex> lock(mutex);
        for (;;) {
            changed.wait(lock, [this] { return closed || !jobs.empty(); });
            if (jobs.empty())
                return;
            std::function<void(tt_recorder *)> job = std::move(jobs.front());
            jobs.pop_front();
            lock.unlock();
            job(recorder);
            lock.lock();
            open--;
            changed.notify_all();
        }
    }

    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void(tt_recorder *)>> jobs;
    std::vector<std::thread> threads;
    std::size_t open = 0;
    bool closed = false;
};

// Runs `run` as one task: records its inputs before and its output after it.
template <class Run>
void task(tt_recorder *recorder, const char *kernel, std::size_t number, std::vector<tt_view> reads, tt_view write, Run run)
{
    tt_task_info info = tt_task_of(tt_kernel_id(recorder, kernel));
    info.name = tt_string(recorder, ("tile " + std::to_string(number)).c_str());
    tt_recorded_task recorded;
    tt_task_begin(recorder, &recorded, &info);
    tt_record(recorder, &recorded, TT_BEFORE, reads.data(), static_cast<uint32_t>(reads.size()));
    run();
    tt_record(recorder, &recorded, TT_AFTER, &write, 1);
    tt_task_end(recorder, &recorded);
}

tt_view tile_view(uint16_t arg, enum tt_role role, const Tile &tile)
{
    const uint64_t shape[1] = {width};
    return tt_dense(arg, role, tile, TT_FLOAT32, 1, shape);
}

// Odd tiles take two passes and more time, as real work does.
void fill(std::size_t number)
{
    for (std::size_t x = 0; x < width; x++)
        picture[number][x] = static_cast<float>(x % 16);
    if (number % 2 == 1)
        std::this_thread::sleep_for(std::chrono::milliseconds(20 * number));
    for (std::size_t x = 0; x < width; x++)
        picture[number][x] += static_cast<float>(number) * 100;
}

void blend(std::size_t number)
{
    for (std::size_t x = 0; x < width; x++)
        blended[number][x] = (3 * picture[number][x] + picture[number + 1][x]) / 4;
}

} // namespace

int main(int argc, char **argv)
{
    const unsigned threads = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 4;
    tt_session *session = tt_attach();
    {
        Pool pool(threads > 0 ? threads : 1, session);
        for (std::size_t number = 0; number < tiles; number++) {
            pool.submit([&pool, number](tt_recorder *recorder) {
                task(recorder, "fill", number, {}, tile_view(0, TT_OUT, picture[number]), [number] { fill(number); });
                // The bug: the tile to the right may not be complete.
                pool.submit([number](tt_recorder *recorder) {
                    task(recorder, "blend", number,
                         {tile_view(0, TT_IN, picture[number]), tile_view(1, TT_IN, picture[number + 1])},
                         tile_view(2, TT_OUT, blended[number]), [number] { blend(number); });
                });
            });
        }
        pool.finish();
    }
    tt_close(session);
    double sum = 0;
    for (const Tile &tile : blended)
        for (float value : tile)
            sum += static_cast<double>(value);
    std::printf("%.0f\n", sum);
}
