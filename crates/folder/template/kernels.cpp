// Kernels of the scene. tensortap.hpp is found by itself; tensortap.h is the manual.
#include <tensortap.hpp>

// in x, out scaled, scalar factor
TT_KERNEL(scale)
{
    auto x = args.in<float>(0);
    auto scaled = args.out<float>(1);
    auto factor = args.scalar<float>(2);
    for (std::size_t i = 0; i < x.size(); i++)
        scaled[i] = factor * x[i];
}

// in x, out more
TT_KERNEL(increment)
{
    auto x = args.in<float>(0);
    auto more = args.out<float>(1);
    if (x.size() != more.size())
        throw std::invalid_argument("x and more differ in size");
    for (std::size_t i = 0; i < x.size(); i++)
        more[i] = x[i] + 1;
}

// What scale should compute: the same arguments, every tensor in double.
TT_KERNEL(scale_reference)
{
    auto x = args.in<double>(0);
    auto scaled = args.out<double>(1);
    for (std::size_t i = 0; i < x.size(); i++)
        scaled[i] = args.scalar<float>(2) * x[i];
}

// What the scene's tensors should hold in the end: x and y, as scene.toml lists them.
TT_KERNEL(golden)
{
    auto x = args.in<float>(0);
    auto y = args.out<float>(1);
    for (std::size_t i = 0; i < x.size(); i++)
        y[i] = 2 * x[i] + 1;
}
