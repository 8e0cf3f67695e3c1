// Launches on the fake CUDA device inside and outside of regions.
#include "../common/regions.hpp"

extern "C" {
#include "fake.h"
}

#include <numeric>

static CUstream stream;
static CUfunction kernels[2];
static CUdeviceptr buffers[BUFFERS];
static std::uint32_t added;

static std::uint32_t *words(void *parameter) { return *static_cast<std::uint32_t **>(parameter); }
static void scale(void **parameters)
{
    for (int at = 0; at < WORDS; at++)
        words(parameters[1])[at] = words(parameters[0])[at] * 3;
}
static void add(void **parameters)
{
    for (int at = 0; at < WORDS; at++)
        words(parameters[1])[at] = words(parameters[0])[at] + added;
}

static void open_device(bool wrong)
{
    const size_t offsets[2] = {0, 8}, sizes[2] = {8, 8};
    added = wrong ? 102 : 2;
    NEED(cuInit(0));
    NEED(cuStreamCreate(&stream, 0));
    kernels[0] = fake_define("scale", 2, offsets, sizes, 100, scale);
    kernels[1] = fake_define("add", 2, offsets, sizes, 100 + added, add);
    for (CUdeviceptr &buffer : buffers) {
        std::uint32_t words[WORDS] = {};
        if (&buffer == buffers)
            std::iota(words, words + WORDS, 1u);
        NEED(cuMemAlloc_v2(&buffer, sizeof words));
        NEED(cuMemcpyHtoD_v2(buffer, words, sizeof words));
    }
}

static void launch(const char *name, int from, int to)
{
    void *parameters[2] = {&buffers[from], &buffers[to]};
    NEED(cuLaunchKernel(kernels[*name == 'a'], 2, 1, 1, 32, 1, 1, 0, stream, parameters, nullptr));
}

static std::uint32_t first_word(int buffer)
{
    std::uint32_t word = 0;
    NEED(cuMemcpyDtoHAsync_v2(&word, buffers[buffer], sizeof word, stream));
    NEED(cuStreamSynchronize(stream));
    return word;
}
