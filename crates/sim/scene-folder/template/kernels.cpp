// The kernels of the scene. tensortap.hpp is on the include path. The manual is in tensortap.h.
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

// The reference of scale: the same arguments, but every tensor has elements of type double.
TT_KERNEL(scale_reference)
{
    auto x = args.in<double>(0);
    auto scaled = args.out<double>(1);
    for (std::size_t i = 0; i < x.size(); i++)
        scaled[i] = args.scalar<float>(2) * x[i];
}

// The expected content of the scene's tensors x and y, in the order of scene.toml.
TT_KERNEL(golden)
{
    auto x = args.in<float>(0);
    auto y = args.out<float>(1);
    for (std::size_t i = 0; i < x.size(); i++)
        y[i] = 2 * x[i] + 1;
}
