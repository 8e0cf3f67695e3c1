/*
 * tensortap.hpp: a thin C++17 layer over tensortap.h. `args.words()` is the argument array of the C ABI.
 *
 *     #include <tensortap.hpp>
 *
 *     TT_KERNEL(softmax)                               // extern "C" void softmax(uint64_t *)
 *     {
 *         auto x = args.in<float>(0);                  // tensortap::span<const float>, checked: dtype, contiguous
 *         auto y = args.out<float>(1);
 *         if (x.size() != y.size())
 *             throw std::invalid_argument("x and y differ in size");
 *         ...
 *     }
 *
 * An exception fails the task, not the process: it is caught at the entry, and the error names kernel, type and text.
 */
#ifndef TENSORTAP_HPP
#define TENSORTAP_HPP

#include "tensortap.h"

#include <cxxabi.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>

namespace tensortap {

/* bfloat16 and float16 elements, as bits. */
struct bf16 {
    std::uint16_t bits;
    operator float() const { return tt_bf16_to_f32(bits); }
    static bf16 from(float value) { return bf16{tt_f32_to_bf16(value)}; }
};
struct f16 {
    std::uint16_t bits;
};

/* The dtype of a C++ type. */
template <class T> struct dtype_of;
#define TT_DTYPE_OF(type, dtype)                                                                                       \
    template <> struct dtype_of<type> {                                                                                \
        static constexpr tt_dtype value = dtype;                                                                       \
    }
TT_DTYPE_OF(double, TT_FLOAT64);
TT_DTYPE_OF(float, TT_FLOAT32);
TT_DTYPE_OF(f16, TT_FLOAT16);
TT_DTYPE_OF(bf16, TT_BFLOAT16);
TT_DTYPE_OF(std::int64_t, TT_INT64);
TT_DTYPE_OF(std::int32_t, TT_INT32);
TT_DTYPE_OF(std::int16_t, TT_INT16);
TT_DTYPE_OF(std::int8_t, TT_INT8);
TT_DTYPE_OF(std::uint64_t, TT_UINT64);
TT_DTYPE_OF(std::uint32_t, TT_UINT32);
TT_DTYPE_OF(std::uint16_t, TT_UINT16);
TT_DTYPE_OF(std::uint8_t, TT_UINT8);
TT_DTYPE_OF(bool, TT_BOOL);
#undef TT_DTYPE_OF

static_assert(sizeof(bf16) == 2 && sizeof(f16) == 2 && sizeof(float) == 4 && sizeof(double) == 8, "widths of elements");
static_assert(std::is_standard_layout<tt_tensor_desc>::value, "descriptors cross to C");

/* Contiguous elements. */
template <class T> class span {
  public:
    span(T *data, std::size_t size) : data_(data), size_(size) {}
    T *data() const { return data_; }
    std::size_t size() const { return size_; }
    T *begin() const { return data_; }
    T *end() const { return data_ + size_; }
    T &operator[](std::size_t place) const { return data_[place]; }
    span subspan(std::size_t first, std::size_t count) const { return span(data_ + first, count); }

  private:
    T *data_;
    std::size_t size_;
};

/* The arguments of a kernel call. */
class arguments {
  public:
    explicit arguments(std::uint64_t *words) : words_(words) {}

    std::uint64_t *words() const { return words_; }
    const tt_tensor_desc &tensor(unsigned arg) const { return *tt_tensor_at(words_, arg); }
    std::uint64_t dim(unsigned arg, unsigned dim) const { return tt_dim(words_, arg, dim); }
    tt_block_context block() const { return tt_block(words_); }
    tt_subtask_context subtask() const { return tt_subtask(words_); }

    /* The elements of an input tensor, which must be contiguous. */
    template <class T> span<const T> in(unsigned arg) const { return span<const T>(checked<T>(arg), numel(arg)); }

    /* The elements of an output or in-out tensor, which must be contiguous. */
    template <class T> span<T> out(unsigned arg) const { return span<T>(checked<T>(arg), numel(arg)); }
    template <class T> span<T> inout(unsigned arg) const { return out<T>(arg); }

    /* A scalar. */
    template <class T> T scalar(unsigned arg) const
    {
        static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= 8, "a scalar fits a word");
        T value;
        std::memcpy(&value, &words_[arg], sizeof value);
        return value;
    }

  private:
    std::size_t numel(unsigned arg) const { return static_cast<std::size_t>(tt_numel(words_, arg)); }

    template <class T> T *checked(unsigned arg) const
    {
        if (tensor(arg).dtype != dtype_of<T>::value)
            throw std::invalid_argument("argument " + std::to_string(arg) + " has a different dtype than the kernel takes");
        if (!tt_is_contiguous(words_, arg))
            throw std::invalid_argument("argument " + std::to_string(arg) + " is not contiguous; use tt_offset");
        return static_cast<T *>(tt_data(words_, arg, sizeof(T)));
    }

    std::uint64_t *words_;
};

/* Calls `body`. An exception becomes a failure of the kernel. */
template <class Body> void guarded(std::uint64_t *words, Body body) noexcept
{
    try {
        body(arguments(words));
    } catch (const std::exception &error) {
        int status = 0;
        char *type = abi::__cxa_demangle(typeid(error).name(), nullptr, nullptr, &status);
        tt_fail("threw %s: %s", type ? type : typeid(error).name(), error.what());
        std::free(type);
    } catch (...) {
        tt_fail("threw an object that is not a std::exception");
    }
}

} // namespace tensortap

/* Defines a kernel, a reference or a golden. Its body has `args`, a tensortap::arguments. */
#define TT_KERNEL(name)                                                                                                \
    static void name##_body(const ::tensortap::arguments &args);                                                       \
    extern "C" TT_EXPORT void name(uint64_t *words) { ::tensortap::guarded(words, name##_body); }                      \
    static void name##_body([[maybe_unused]] const ::tensortap::arguments &args)

#endif
