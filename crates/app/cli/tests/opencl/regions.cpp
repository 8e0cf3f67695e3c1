// Launches on an OpenCL device inside and outside of regions. TENSORTAP_OPENCL names the loader.
#include "../common/regions.hpp"

#include <dlfcn.h>

#include <numeric>

using Handle = void *;

template <class Function> static Function call(const char *name)
{
    static Handle library = dlopen(std::getenv("TENSORTAP_OPENCL"), RTLD_NOW | RTLD_GLOBAL);
    Handle found = library ? dlsym(library, name) : nullptr;
    need(!found, name);
    return reinterpret_cast<Function>(found);
}
#define CL(result, name, ...) call<result (*)(__VA_ARGS__)>(#name)

static Handle queue, kernels[2], buffers[BUFFERS];

static void open_device(bool wrong)
{
    const char *source = "__kernel void scale(__global const uint *x, __global uint *y) { y[get_global_id(0)] = x[get_global_id(0)] * 3; }"
                         "__kernel void add(__global const uint *x, __global uint *y) { y[get_global_id(0)] = x[get_global_id(0)] + ADDED; }";
    const unsigned long any_device = 0xffffffff, read_write_copy = 1 | 1 << 5;
    Handle platform, device;
    int status;
    NEED(CL(int, clGetPlatformIDs, unsigned, Handle *, unsigned *)(1, &platform, nullptr));
    NEED(CL(int, clGetDeviceIDs, Handle, unsigned long, unsigned, Handle *, unsigned *)(platform, any_device, 1, &device, nullptr));
    Handle context = CL(Handle, clCreateContext, const void *, unsigned, Handle *, void *, void *, int *)(nullptr, 1, &device, nullptr, nullptr, &status);
    NEED(status);
    queue = CL(Handle, clCreateCommandQueue, Handle, Handle, unsigned long, int *)(context, device, 0, &status);
    NEED(status);
    Handle program = CL(Handle, clCreateProgramWithSource, Handle, unsigned, const char **, const size_t *, int *)(context, 1, &source, nullptr, &status);
    NEED(status);
    NEED(CL(int, clBuildProgram, Handle, unsigned, const Handle *, const char *, void *, void *)(program, 0, nullptr, wrong ? "-DADDED=102" : "-DADDED=2", nullptr, nullptr));
    const char *names[2] = {"scale", "add"};
    for (int at = 0; at < 2; at++)
        kernels[at] = CL(Handle, clCreateKernel, Handle, const char *, int *)(program, names[at], &status);
    NEED(status);
    for (Handle &buffer : buffers) {
        std::uint32_t words[WORDS] = {};
        if (&buffer == buffers)
            std::iota(words, words + WORDS, 1u);
        buffer = CL(Handle, clCreateBuffer, Handle, unsigned long, size_t, void *, int *)(context, read_write_copy, sizeof words, words, &status);
        NEED(status);
    }
}

static void launch(const char *name, int from, int to)
{
    Handle kernel = kernels[*name == 'a'];
    const size_t words = WORDS;
    for (unsigned arg = 0; arg < 2; arg++)
        NEED(CL(int, clSetKernelArg, Handle, unsigned, size_t, const void *)(kernel, arg, sizeof(Handle), &buffers[arg ? to : from]));
    NEED(CL(int, clEnqueueNDRangeKernel, Handle, Handle, unsigned, const size_t *, const size_t *, const size_t *, unsigned, const Handle *, Handle *)(queue, kernel, 1, nullptr, &words, nullptr, 0, nullptr, nullptr));
}

static std::uint32_t first_word(int buffer)
{
    std::uint32_t word = 0;
    NEED(CL(int, clEnqueueReadBuffer, Handle, Handle, unsigned, size_t, size_t, void *, unsigned, const Handle *, Handle *)(queue, buffers[buffer], 1, 0, sizeof word, &word, 0, nullptr, nullptr));
    return word;
}
