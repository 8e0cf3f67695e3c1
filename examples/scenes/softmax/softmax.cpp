#include <tensortap.hpp>

#include <algorithm>
#include <cmath>

using tensortap::arguments;
using tensortap::span;

namespace {

/* One row of a matrix. */
template <class T> span<T> row(span<T> matrix, std::size_t index, std::size_t columns)
{
    return matrix.subspan(index * columns, columns);
}

std::size_t columns_of(const arguments &args, unsigned arg) { return static_cast<std::size_t>(args.dim(arg, 1)); }

} // namespace

TT_KERNEL(row_max)
{
    auto x = args.in<float>(0);
    auto greatest = args.out<float>(1);
    for (std::size_t r = 0; r < greatest.size(); r++) {
        auto values = row(x, r, columns_of(args, 0));
        greatest[r] = *std::max_element(values.begin(), values.end());
    }
}

TT_KERNEL(exp_minus)
{
    auto x = args.in<float>(0);
    auto greatest = args.in<float>(1);
    auto powers = args.out<float>(2);
    for (std::size_t i = 0; i < x.size(); i++)
        powers[i] = std::exp(x[i] - greatest[i / columns_of(args, 0)]);
}

/* Keeps four partial sums. The bug: it skips the columns that are left over after groups of four. */
TT_KERNEL(row_sum)
{
    auto powers = args.in<float>(0);
    auto total = args.out<float>(1);
    for (std::size_t r = 0; r < total.size(); r++) {
        auto values = row(powers, r, columns_of(args, 0));
        float sums[4] = {};
        for (std::size_t c = 0; c + 4 <= values.size(); c += 4)
            for (std::size_t lane = 0; lane < 4; lane++)
                sums[lane] += values[c + lane];
        total[r] = sums[0] + sums[1] + sums[2] + sums[3];
    }
}

TT_KERNEL(divide)
{
    auto powers = args.in<float>(0);
    auto total = args.in<float>(1);
    auto y = args.out<float>(2);
    for (std::size_t i = 0; i < powers.size(); i++)
        y[i] = powers[i] / total[i / columns_of(args, 0)];
}

/* References: the same arguments in double precision, written from the definition. */
TT_KERNEL(row_max_reference)
{
    auto x = args.in<double>(0);
    auto greatest = args.out<double>(1);
    for (std::size_t r = 0; r < greatest.size(); r++) {
        greatest[r] = x[r * columns_of(args, 0)];
        for (double value : row(x, r, columns_of(args, 0)))
            greatest[r] = std::max(greatest[r], value);
    }
}

TT_KERNEL(exp_minus_reference)
{
    auto x = args.in<double>(0);
    for (std::size_t i = 0; i < x.size(); i++)
        args.out<double>(2)[i] = std::exp(x[i] - args.in<double>(1)[i / columns_of(args, 0)]);
}

TT_KERNEL(row_sum_reference)
{
    auto total = args.out<double>(1);
    for (std::size_t r = 0; r < total.size(); r++) {
        total[r] = 0;
        for (double value : row(args.in<double>(0), r, columns_of(args, 0)))
            total[r] += value;
    }
}

TT_KERNEL(divide_reference)
{
    auto powers = args.in<double>(0);
    for (std::size_t i = 0; i < powers.size(); i++)
        args.out<double>(2)[i] = powers[i] / args.in<double>(1)[i / columns_of(args, 0)];
}
