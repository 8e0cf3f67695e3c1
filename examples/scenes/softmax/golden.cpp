#include <tensortap.hpp>

#include <cmath>

/* The arguments are x and y, in the order of scene.toml. Computes the softmax of each row in double precision. */
TT_KERNEL(golden)
{
    auto x = args.in<float>(0);
    auto y = args.out<float>(1);
    auto columns = static_cast<std::size_t>(args.dim(0, 1));
    for (std::size_t first = 0; first < x.size(); first += columns) {
        double total = 0;
        for (std::size_t c = 0; c < columns; c++)
            total += std::exp(static_cast<double>(x[first + c]));
        for (std::size_t c = 0; c < columns; c++)
            y[first + c] = static_cast<float>(std::exp(static_cast<double>(x[first + c])) / total);
    }
}
