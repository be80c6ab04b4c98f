// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/python/bindings/python_code.h"

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/function/changed_state.h"
#include "reprise/engine/function/function_replay.h"

namespace reprise::python {
namespace {

using engine_internal::Mutex;
using engine_internal::MutexLock;

// Of the list of all code: a region may end without the interpreter's lock.
constinit Mutex list_mutex;
constinit PythonCode* list_head ABSL_GUARDED_BY(list_mutex) = nullptr;

// Raises an exception, which it takes over, on the main thread.
int raise_pending(void* exception) {
  const std::unique_ptr<py::error_already_set> error(
      static_cast<py::error_already_set*>(exception));
  error->restore();
  return -1;
}

// Has the current exception raised on the main thread, as an interrupt is: soon, between two of its
// instructions.
void raise_on_main_thread() {
  auto error = std::make_unique<py::error_already_set>();
  if (Py_AddPendingCall(&raise_pending, error.get()) == 0) {
    static_cast<void>(error.release());
  } else {  // too many calls are pending
    PyErr_SetInterrupt();
  }
}

// Says at the current exception that forward has not raised it, and a likely cause.
void note_recomputation() {
  py::error_already_set error;  // first: no code of Python may run while there is one
  static const py::handle kNote =
      keep_object(py::module_::import("reprise._errors"), "note_recomputation");
  kNote(error.value(), engine_internal::kChangedState);
  error.restore();
}

// The region's code has ended with an exception. An early stop is no error, nor is one that the
// code has replaced by an exception of its own.
void handle_exception() {
  if (!engine_internal::replay_has_stopped()) {
    note_recomputation();
    throw_python_error();  // the early stop of an enclosing recomputation among them
  }
  if (PyErr_ExceptionMatches(PyExc_KeyboardInterrupt) != 0) {
    raise_on_main_thread();  // again, outside of the recomputation
  }
  PyErr_Clear();
}

// Sets whether classes of tensors handle functions of torch. Within Tensor.backward() of such a
// class they do not.
class TorchFunctionGuard {
 public:
  using State = at::impl::TorchFunctionDisabledState;
  using Tls = at::impl::PythonTorchFunctionTLS;

  explicit TorchFunctionGuard(State state) : found_(Tls::get_disabled_state()) {
    Tls::set_disabled_state(state);
  }
  ~TorchFunctionGuard() { Tls::set_disabled_state(found_); }
  TorchFunctionGuard(const TorchFunctionGuard&) = delete;
  TorchFunctionGuard& operator=(const TorchFunctionGuard&) = delete;

 private:
  const State found_;
};

py::object or_none(PyObject* borrowed) {
  return borrowed == nullptr ? py::none() : py::reinterpret_borrow<py::object>(borrowed);
}

}  // namespace

PyObject* PythonCall::run() const {
  const std::size_t named =
      names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(names));
  return PyObject_Vectorcall(function, arguments.data(), arguments.size() - named, names);
}

PythonCode::PythonCode(const PythonCall& call, bool holds_tensors, py::object recompute_context)
    : torch_function_(at::impl::PythonTorchFunctionTLS::get_disabled_state()),
      objects_{.function = py::reinterpret_borrow<py::object>(call.function),
               .names = or_none(call.names),
               .context = std::move(recompute_context),
               .arguments = {}} {
  for (PyObject* const argument : call.arguments) {
    collect_tensors(argument, tensors_);
    objects_.arguments.emplace_back(argument, holds_tensors);
  }
  const MutexLock lock(list_mutex);
  next_ = std::exchange(list_head, this);
  if (next_ != nullptr) {
    next_->previous_ = this;
  }
}

PythonCode::~PythonCode() {
  {
    const MutexLock lock(list_mutex);
    (previous_ == nullptr ? list_head : previous_->next_) = next_;
    if (next_ != nullptr) {
      next_->previous_ = previous_;
    }
  }
  destroy_with_lock(objects_);
}

void PythonCode::for_each_object(absl::FunctionRef<void(PyObject*)> visitor) {
  const MutexLock lock(list_mutex);
  for (const PythonCode* code = list_head; code != nullptr; code = code->next_) {
    const Objects& objects = code->objects_;
    for (const py::object& object : {objects.function, objects.names, objects.context}) {
      visitor(object.ptr());
    }
    for (const RegionArgument& argument : objects.arguments) {
      argument.for_each_object(visitor);
    }
  }
}

std::int64_t PythonCode::tensor_bytes() const {
  std::int64_t bytes = 0;
  for (const at::Tensor& tensor : tensors_) {
    bytes += tensor.numel() * static_cast<std::int64_t>(tensor.itemsize());
  }
  return bytes;
}

void PythonCode::take_inputs(engine_internal::RegionInputs& inputs) {
  inputs.tensors = std::move(tensors_);
}

std::vector<py::object> PythonCode::arguments_with(std::span<const at::Tensor> inputs) const {
  std::vector<py::object> arguments;
  arguments.reserve(objects_.arguments.size());
  for (const RegionArgument& argument : objects_.arguments) {
    arguments.push_back(argument.with(inputs));
  }
  return arguments;
}

void PythonCode::run(std::span<const at::Tensor> inputs) {
  const py::gil_scoped_acquire lock;
  const TorchFunctionGuard guard(torch_function_);
  const auto result = py::reinterpret_steal<py::object>(
      with_python_errors([&] { return run_with(arguments_with(inputs)); }));
  if (!result) {
    handle_exception();
  }
}

PyObject* PythonCode::run_with(const std::vector<py::object>& arguments) const {
  std::vector<PyObject*> pointers;
  pointers.reserve(arguments.size());
  for (const py::object& argument : arguments) {
    pointers.push_back(argument.ptr());
  }
  const PythonCall call{.function = objects_.function.ptr(),
                        .arguments = pointers,
                        .names = objects_.names.is_none() ? nullptr : objects_.names.ptr()};
  return run_in_context(call, objects_.context);
}

PyObject* run_in_context(const PythonCall& call, py::handle context) {
  if (!context || context.is_none()) {
    return call.run();
  }
  static const py::handle kRunIn = keep_object(py::module_::import("reprise._contexts"), "run_in");
  std::vector<PyObject*> arguments{context.ptr(), call.function};
  arguments.insert(arguments.end(), call.arguments.begin(), call.arguments.end());
  return PythonCall{.function = kRunIn.ptr(), .arguments = arguments, .names = call.names}.run();
}

}  // namespace reprise::python
