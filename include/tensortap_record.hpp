/*
 * tensortap_record.hpp: the calls of tensortap_record.h as C++17 classes.
 *
 *     #include <tensortap_record.hpp>
 *
 *     tensortap::Session session;                        // once per process
 *     tensortap::Thread thread = session.thread();       // once per recording thread
 *
 *     void step(std::vector<float> &x, std::vector<float> &y, float a)
 *     {
 *         tensortap::Task task = thread.task("saxpy");
 *         task.in(0, x).inout(1, y).scalar(2, a);        // records x, y and a
 *         saxpy(x, y, a);
 *     }                                                  // records y again and ends the task
 *
 * - The program links nothing and runs under `tensortap record`. Without it, every call returns at once. Define TT_LINKED to
 *   link the library; the beginning of tensortap_record.h explains both.
 * - Objects are moved and not copied. A destructor ends or closes what its object owns. A moved-from object owns nothing.
 * - Nothing here throws, and nothing allocates while nothing records. Statuses are those of tensortap_record.h. A call that
 *   returns an object never fails: without a session or a free lane, the object records nothing.
 * - A Thread and its tasks must not outlive their Session. Only one thread at a time may use a Thread.
 */
#ifndef TENSORTAP_RECORD_HPP
#define TENSORTAP_RECORD_HPP

#include <tensortap_record.h>

#include <complex>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <initializer_list>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>

namespace tensortap {

/* ---- Elements ----------------------------------------------------------------------------------------------------- */

/* The dtype of a C++ type. Specialize it for types of the program:
 *
 *     template <> struct tensortap::element<my::bfloat16> { static constexpr tt_dtype dtype = TT_BFLOAT16; };
 */
template <typename T, typename = void>
struct element;

template <>
struct element<float> {
    static constexpr tt_dtype dtype = TT_FLOAT32;
};
template <>
struct element<double> {
    static constexpr tt_dtype dtype = TT_FLOAT64;
};
template <>
struct element<bool> {
    static constexpr tt_dtype dtype = TT_BOOL;
};
template <>
struct element<std::complex<float>> {
    static constexpr tt_dtype dtype = TT_COMPLEX64;
};
template <>
struct element<std::complex<double>> {
    static constexpr tt_dtype dtype = TT_COMPLEX128;
};
template <>
struct element<std::byte> {
    static constexpr tt_dtype dtype = TT_UINT8;
};
template <typename T>
struct element<T, std::enable_if_t<std::is_integral<T>::value && !std::is_same<T, bool>::value && sizeof(T) <= 8>> {
    static constexpr tt_dtype dtype = std::is_signed<T>::value
        ? (sizeof(T) == 8 ? TT_INT64 : sizeof(T) == 4 ? TT_INT32 : sizeof(T) == 2 ? TT_INT16 : TT_INT8)
        : (sizeof(T) == 8 ? TT_UINT64 : sizeof(T) == 4 ? TT_UINT32 : sizeof(T) == 2 ? TT_UINT16 : TT_UINT8);
};

template <typename T>
inline constexpr tt_dtype dtype_of = element<std::remove_cv_t<T>>::dtype;

/* ---- Tensors ------------------------------------------------------------------------------------------------------ */

/* Sizes of dimensions, or strides in elements: a list in braces, or a container of integers with data() and size(). */
template <typename T>
class Extents {
  public:
    Extents(std::initializer_list<T> list) noexcept : Extents(list.begin(), list.size()) {}
    template <typename Container, typename = decltype(std::data(std::declval<const Container &>()))>
    Extents(const Container &list) noexcept : Extents(std::data(list), std::size(list))
    {
    }

    const T *data() const noexcept { return values_; }
    std::size_t size() const noexcept { return size_; }

  private:
    template <typename Integer>
    Extents(const Integer *values, std::size_t size) noexcept : size_(size)
    {
        for (std::size_t at = 0; at < size && at < TT_MAX_DIMS; at++)
            values_[at] = static_cast<T>(values[at]);
    }

    T values_[TT_MAX_DIMS] = {};
    std::size_t size_;
};

using Shape = Extents<std::uint64_t>;
using Strides = Extents<std::int64_t>;

/* A tensor in host memory, as an argument of a task. Its memory must stay valid until the task ends. */
class Tensor {
  public:
    /* Contiguous elements at a pointer. */
    template <typename T>
    Tensor(const T *data, Shape shape) noexcept : Tensor(dtype_of<T>, data, shape)
    {
    }

    /* Contiguous elements of a dtype that C++ has no type for, such as TT_BFLOAT16. */
    Tensor(tt_dtype dtype, const void *data, Shape shape) noexcept
        : view_(tt_dense(0, TT_IN, data, dtype, static_cast<std::uint32_t>(shape.size()), shape.data()))
    {
    }

    /* A view with strides in elements, which may be zero or negative. `data` is the first element of the buffer, and `start`
       the first element of the view. The buffer ends where the view ends. */
    template <typename T>
    Tensor(const T *data, Shape shape, Strides strides, std::uint64_t start = 0) noexcept
        : Tensor(dtype_of<T>, data, shape, strides, start)
    {
    }

    Tensor(tt_dtype dtype, const void *data, Shape shape, Strides strides, std::uint64_t start = 0) noexcept
        : Tensor(dtype, data, shape)
    {
        view_.start = start;
        if (shape.size() > TT_MAX_DIMS || strides.size() != shape.size()) {
            view_.ndims = 255; /* listed as uncaptured when it is recorded */
            return;
        }
        std::uint64_t last = start;
        bool empty = false;
        for (std::size_t dim = 0; dim < shape.size(); dim++) {
            view_.strides[dim] = strides.data()[dim];
            empty = empty || shape.data()[dim] == 0;
            if (shape.data()[dim] > 1 && strides.data()[dim] > 0)
                last += (shape.data()[dim] - 1) * static_cast<std::uint64_t>(strides.data()[dim]);
        }
        view_.bytes = empty ? 0 : ((last + 1) * tt_dtype_bits(view_.dtype) + 7) / 8;
    }

    /* A container with data() and size(): std::vector, std::array, std::span. One dimension, or the given ones, whose product
       must be its size. */
    template <typename Container, typename = decltype(std::data(std::declval<const Container &>()))>
    Tensor(const Container &content) noexcept
        : Tensor(std::data(content), {static_cast<std::uint64_t>(std::size(content))})
    {
    }
    template <typename Container, typename = decltype(std::data(std::declval<const Container &>()))>
    Tensor(const Container &content, Shape shape) noexcept : Tensor(std::data(content), shape)
    {
        /* The view must be inside of the container: a larger shape is refused when it is recorded. */
        view_.bytes = static_cast<std::uint64_t>(std::size(content)) * sizeof(*std::data(content));
    }

    /* The name of the argument, instead of the one that the kernel declares. Only borrowed. */
    Tensor &named(const char *name) noexcept
    {
        name_ = name;
        return *this;
    }

    /* Marks the argument, for level `marked`. */
    Tensor &marked() noexcept
    {
        view_.flags = static_cast<std::uint16_t>(view_.flags | TT_VIEW_MARKED);
        return *this;
    }

    /* The view for the calls of tensortap_record.h. */
    tt_view view(tt_recorder *recorder, std::uint16_t arg, tt_role role) const noexcept
    {
        tt_view view = view_;
        view.arg = arg;
        view.role = static_cast<std::uint8_t>(role);
        view.name = name_ ? tt_string(recorder, name_) : 0;
        return view;
    }

  private:
    tt_view view_;
    const char *name_ = nullptr;
};

/* ---- Attributes --------------------------------------------------------------------------------------------------- */

/* The value of an attribute: a text, number, boolean or dtype, or nothing. A text is only borrowed. */
class Value {
  public:
    Value(std::nullptr_t) noexcept : value_(tt_value_none()) {}
    Value(const char *text) noexcept : value_(text ? tt_value_text(text) : tt_value_none()) {}
    Value(const std::string &text) noexcept : value_(tt_value_text(text.c_str())) {}
    Value(bool value) noexcept : value_(tt_value_bool(value)) {}
    Value(tt_dtype value) noexcept : value_(tt_value_dtype(value)) {}
    /* A value that has none of these types. Only the name of its type is recorded. */
    static Value uncaptured(const char *type_name) noexcept
    {
        Value value(nullptr);
        value.value_ = tt_value_uncaptured(type_name);
        return value;
    }
    template <typename T, std::enable_if_t<std::is_integral<T>::value, int> = 0>
    Value(T value) noexcept : value_(tt_value_int(static_cast<std::int64_t>(value)))
    {
    }
    template <typename T, std::enable_if_t<std::is_floating_point<T>::value, int> = 0>
    Value(T value) noexcept : value_(tt_value_float(static_cast<double>(value)))
    {
    }
    const tt_value &get() const noexcept { return value_; }

  private:
    tt_value value_;
};
static_assert(sizeof(Value) == sizeof(tt_value), "a list of values is an array of tt_value");

/* ---- Tasks -------------------------------------------------------------------------------------------------------- */

/* A task that is running. The destructor ends it. */
class Task {
  public:
    Task(tt_recorder *recorder, const tt_task_info &info) noexcept
        : recorder_(recorder), exceptions_(std::uncaught_exceptions())
    {
        note(tt_task_begin(recorder_, &task_, &info));
    }
    Task(const Task &) = delete;
    Task &operator=(const Task &) = delete;
    Task(Task &&other) noexcept { take(other); }
    Task &operator=(Task &&other) noexcept
    {
        if (this != &other) {
            end();
            take(other);
        }
        return *this;
    }
    ~Task() { end(); }

    /* Records an input, now. */
    Task &in(std::uint16_t arg, const Tensor &tensor) noexcept
    {
        return recorder_ ? record(TT_BEFORE, tensor.view(recorder_, arg, TT_IN)) : *this;
    }

    /* Records an argument that the task changes: now, and when the task ends. */
    Task &inout(std::uint16_t arg, const Tensor &tensor) noexcept
    {
        if (!recorder_)
            return *this;
        const tt_view view = tensor.view(recorder_, arg, TT_INOUT);
        return record(TT_BEFORE, view).keep(view);
    }

    /* Records an output when the task ends. */
    Task &out(std::uint16_t arg, const Tensor &tensor) noexcept
    {
        return recorder_ ? keep(tensor.view(recorder_, arg, TT_OUT)) : *this;
    }

    /* Records a scalar of at most 64 bits. */
    template <typename T>
    Task &scalar(std::uint16_t arg, T value, const char *name = nullptr) noexcept
    {
        static_assert(sizeof(T) <= 8, "a scalar has at most 64 bits: record a tensor without dimensions instead");
        std::uint64_t bits = 0;
        std::memcpy(&bits, &value, sizeof value);
        if (recorder_)
            note(tt_record_scalar(recorder_, &task_, arg, dtype_of<T>, bits, name ? tt_string(recorder_, name) : 0));
        return *this;
    }

    /* Records an attribute: a name with a value, or with a list of values. */
    Task &attribute(const char *name, const Value &value) noexcept
    {
        if (recorder_)
            note(tt_attribute(recorder_, &task_, tt_string(recorder_, name), value.get()));
        return *this;
    }
    Task &attribute(const char *name, std::initializer_list<Value> values) noexcept
    {
        const tt_value *first = values.size() > 0 ? &values.begin()->get() : nullptr;
        if (recorder_)
            note(tt_attribute_list(recorder_, &task_, tt_string(recorder_, name), first,
                                   static_cast<std::uint32_t>(values.size())));
        return *this;
    }

    /* Records that the task is this process's part of a collective operation. `group` has the same name in every process of
       the group, and `sequence` is the number of the operation in the group. */
    Task &collective(const char *group, std::uint64_t sequence, tt_collective_kind kind) noexcept
    {
        if (recorder_)
            note(tt_collective(recorder_, &task_, tt_string(recorder_, group), sequence, kind));
        return *this;
    }

    /* Records the outputs and ends the task. While an exception unwinds the stack, outputs are not recorded: the task did not
       complete them. Returns the first failure of the task, or its last status. */
    int end() noexcept
    {
        if (!recorder_)
            return status_;
        if (outputs_.size > 0 && std::uncaught_exceptions() <= exceptions_)
            note(tt_record(recorder_, &task_, TT_AFTER, outputs_.views, outputs_.size));
        note(tt_task_end(recorder_, &task_));
        outputs_.clear();
        recorder_ = nullptr;
        return status_;
    }

    /* The first failure (negative), or the last status. */
    int status() const noexcept { return status_; }

    /* The id of the task; 0 if nothing records. */
    std::uint64_t id() const noexcept { return recorder_ ? tt_task_id(&task_) : 0; }

    /* For the calls of tensortap_record.h; null if nothing records. */
    tt_recorder *recorder() const noexcept { return recorder_; }
    tt_recorded_task *get() noexcept { return &task_; }

  private:
    /* The views of outputs, which are recorded when the task ends. */
    struct Outputs {
        tt_view *views = nullptr;
        std::uint32_t size = 0;
        std::uint32_t room = 0;

        bool push(const tt_view &view) noexcept
        {
            if (size == room) {
                const std::uint32_t more = room ? 2 * room : 4;
                void *grown = std::realloc(views, more * sizeof(tt_view));
                if (!grown)
                    return false;
                views = static_cast<tt_view *>(grown);
                room = more;
            }
            views[size++] = view;
            return true;
        }
        void clear() noexcept
        {
            std::free(views);
            *this = Outputs();
        }
    };

    Task &record(tt_stage stage, const tt_view &view) noexcept
    {
        note(tt_record(recorder_, &task_, stage, &view, 1));
        return *this;
    }
    Task &keep(const tt_view &view) noexcept
    {
        if (!outputs_.push(view))
            note(TT_DROPPED); /* no memory: the output is not recorded */
        return *this;
    }
    void note(int status) noexcept { status_ = status_ < 0 ? status_ : status; }
    void take(Task &other) noexcept
    {
        recorder_ = std::exchange(other.recorder_, nullptr);
        outputs_ = std::exchange(other.outputs_, Outputs());
        task_ = other.task_;
        status_ = other.status_;
        exceptions_ = other.exceptions_;
    }

    tt_recorder *recorder_ = nullptr;
    tt_recorded_task task_ = {};
    Outputs outputs_ = {};
    int status_ = TT_OFF;
    int exceptions_ = 0;
};

/* A region: a task that contains the tasks that begin on this thread until it ends. Regions nest; destroy them on the thread
   that began them. */
class Region : public Task {
  public:
    Region(tt_recorder *recorder, const tt_task_info &info) noexcept : Task(recorder, region_of(info)) {}

  private:
    static tt_task_info region_of(tt_task_info info) noexcept
    {
        info.flags |= TT_TASK_REGION;
        return info;
    }
};

/* ---- Memory ------------------------------------------------------------------------------------------------------- */

/* Memory that was allocated or freed, with what is known about it. */
class Memory {
  public:
    /* Memory of the host. */
    Memory(const void *start, std::size_t bytes) noexcept
        : Memory(static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(start)), bytes, TT_HOST_MEMORY)
    {
    }
    Memory(std::uint64_t address, std::uint64_t bytes, tt_space_kind space) noexcept
    {
        info_.address = address;
        info_.bytes = bytes;
        info_.space = static_cast<std::uint32_t>(space);
    }

    /* Identity of the storage, the same for its allocation and its release. */
    Memory &storage(std::uint64_t id) noexcept
    {
        info_.storage = id;
        return *this;
    }

    /* The name of the pool or allocator that it came from. Only borrowed. */
    Memory &pool(const char *name) noexcept
    {
        pool_ = name;
        return *this;
    }

    /* The queue in whose order it takes effect, and the last task that was submitted there before it (0 for none). */
    Memory &queue(std::uint32_t queue, std::uint64_t after_task = 0) noexcept
    {
        info_.queue = queue;
        info_.after_task = after_task;
        return *this;
    }

    /* The event for the calls of tensortap_record.h. */
    tt_allocation_info event(tt_recorder *recorder, bool freed) const noexcept
    {
        tt_allocation_info event = info_;
        event.freed = freed;
        event.pool = pool_ ? tt_string(recorder, pool_) : 0;
        return event;
    }

  private:
    tt_allocation_info info_ = {};
    const char *pool_ = nullptr;
};

/* ---- Threads ------------------------------------------------------------------------------------------------------ */

/* A recorder: that of the calling thread, which closes when the thread ends, or one of its own, which this object closes. */
class Thread {
  public:
    Thread() noexcept = default;
    explicit Thread(tt_recorder *recorder, bool is_owned = false) noexcept : recorder_(recorder), is_owned_(is_owned) {}
    Thread(const Thread &) = delete;
    Thread &operator=(const Thread &) = delete;
    Thread(Thread &&other) noexcept
        : recorder_(std::exchange(other.recorder_, nullptr)), is_owned_(std::exchange(other.is_owned_, false))
    {
    }
    Thread &operator=(Thread &&other) noexcept
    {
        if (this != &other) {
            close();
            recorder_ = std::exchange(other.recorder_, nullptr);
            is_owned_ = std::exchange(other.is_owned_, false);
        }
        return *this;
    }
    ~Thread() { close(); }

    /* Whether it records. */
    explicit operator bool() const noexcept { return recorder_ != nullptr; }

    /* Begins a task that runs a kernel. */
    Task task(const char *kernel) const noexcept { return task(tt_task_of(tt_kernel_id(recorder_, kernel))); }
    Task task(const tt_task_info &info) const noexcept { return Task(recorder_, info); }

    /* Begins a region with a name: a step, a module call, an operator around its launches. */
    Region region(const char *name) const noexcept
    {
        tt_task_info info = tt_task_of(0);
        info.name = tt_string(recorder_, name);
        return region(info);
    }
    Region region(const tt_task_info &info) const noexcept { return Region(recorder_, info); }

    /* Numbers for tt_task_info, the same in every thread. */
    std::uint32_t string(const char *text) const noexcept { return tt_string(recorder_, text); }
    std::uint32_t kernel(const char *name) const noexcept { return tt_kernel_id(recorder_, name); }
    std::uint32_t scope(const char *name, std::uint32_t parent = 0) const noexcept
    {
        return tt_scope_id(recorder_, name, parent);
    }
    std::uint32_t queue(const char *name) const noexcept { return tt_queue_id(recorder_, name); }
    std::uint32_t step(const char *name) const noexcept { return tt_step_id(recorder_, name); }

    /* Records that one task waits for another. */
    int edge(std::uint64_t producer, std::uint64_t consumer, tt_edge_cause cause = TT_EXPLICIT, std::uint16_t arg = 0) const noexcept
    {
        return tt_record_edge(recorder_, producer, consumer, cause, arg);
    }

    /* Records that unrecorded code wrote, freed or allocated these bytes. */
    int wrote(const void *start, std::size_t bytes, const char *name = nullptr) const noexcept
    {
        return tt_wrote(recorder_, start, bytes, name ? tt_string(recorder_, name) : 0);
    }
    int freed(const void *start, std::size_t bytes) const noexcept { return tt_freed(recorder_, start, bytes); }
    int allocated(const void *start, std::size_t bytes) const noexcept { return tt_allocated(recorder_, start, bytes); }
    int freed(const Memory &memory) const noexcept { return event(memory, true); }
    int allocated(const Memory &memory) const noexcept { return event(memory, false); }

    /* Waits until all records of this recorder are in files. */
    int flush() const noexcept { return tt_flush(recorder_); }
    int set_max_wait(std::uint64_t milliseconds) const noexcept { return tt_set_max_wait(recorder_, milliseconds); }

    /* Closes a recorder of its own. A thread's recorder stays open until the thread ends. */
    int close() noexcept
    {
        tt_recorder *recorder = std::exchange(recorder_, nullptr);
        return std::exchange(is_owned_, false) ? tt_recorder_close(recorder) : recorder ? TT_OK : TT_OFF;
    }

    tt_recorder *get() const noexcept { return recorder_; }

  private:
    int event(const Memory &memory, bool freed) const noexcept
    {
        if (!recorder_)
            return TT_OFF;
        const tt_allocation_info event = memory.event(recorder_, freed);
        return tt_allocation(recorder_, &event);
    }

    tt_recorder *recorder_ = nullptr;
    bool is_owned_ = false;
};

/* ---- Sessions ----------------------------------------------------------------------------------------------------- */

/* The recording of this process. The destructor closes it. */
class Session {
  public:
    /* Attaches to the `tensortap record` process that runs this program, if there is one. */
    Session() noexcept : session_(tt_attach()) {}
    /* A session of its own folder, which must not exist or must be empty. */
    explicit Session(const char *folder, const tt_folder_options *options = nullptr) noexcept
        : session_(tt_open_folder(folder, options))
    {
    }
    Session(const Session &) = delete;
    Session &operator=(const Session &) = delete;
    Session(Session &&other) noexcept : session_(std::exchange(other.session_, nullptr)) {}
    Session &operator=(Session &&other) noexcept
    {
        if (this != &other) {
            close();
            session_ = std::exchange(other.session_, nullptr);
        }
        return *this;
    }
    ~Session() { close(); }

    /* Whether it records. */
    explicit operator bool() const noexcept { return session_ != nullptr; }

    /* The recorder of the calling thread. Store it instead of calling this for every task. */
    Thread thread() const noexcept { return Thread(tt_thread(session_)); }
    /* A recorder that stays open until the object is destroyed, for example for a queue or a pool. */
    Thread open_thread(const char *name) const noexcept { return Thread(tt_recorder_open(session_, name), true); }

    tt_counts counters() const noexcept
    {
        tt_counts counts;
        tt_counters(session_, &counts);
        return counts;
    }
    int level() const noexcept { return tt_session_level(session_); }
    int close() noexcept { return tt_close(std::exchange(session_, nullptr)); }
    tt_session *get() const noexcept { return session_; }

  private:
    tt_session *session_;
};

} // namespace tensortap

#endif
