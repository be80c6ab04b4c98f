// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/python/bindings/python_language.h"

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/python_variable.h>

#include <stdexcept>
#include <string>
#include <vector>

#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/function/early_stop.h"
#include "reprise/engine/memory_budget.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::python {
namespace {

// Objects of reprise._errors, which live as long as the process.
struct PythonObjects {
  PyObject* early_stop;
  PyObject* checkpoint;
  PyObject* determinism;
  PyObject* mutation;
  PyObject* budget_exceeded;
  py::handle format_stack;
  py::handle take_apart;
  py::handle put_together;
};
PythonObjects g_python;

PyObject* class_of(const Error& error) {
  if (dynamic_cast<const DeterminismError*>(&error) != nullptr) {
    return g_python.determinism;
  }
  return dynamic_cast<const MutationError*>(&error) != nullptr ? g_python.mutation
                                                               : g_python.checkpoint;
}

void* release_lock() noexcept { return PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr; }

void take_lock(void* released) noexcept {
  PyEval_RestoreThread(static_cast<PyThreadState*>(released));
}

// Becomes Python's exception where LibTorch's code returns to Python, which looks for this class
// first. Until then it needs neither the interpreter's lock, as its class is borrowed, nor a local
// object here: each would cost as much as several operators to unwind.
struct PythonEarlyStop final : python_error {
  PythonEarlyStop() { type = g_python.early_stop; }
  ~PythonEarlyStop() override { type = nullptr; }
  const char* what() const noexcept override { return engine_internal::EarlyStop::kMessage; }
};

void throw_python_early_stop() { throw PythonEarlyStop(); }

void throw_error(const std::exception& error) {
  if (const auto* const ours = dynamic_cast<const Error*>(&error)) {
    const py::gil_scoped_acquire lock;
    PyErr_SetString(class_of(*ours), ours->what_without_backtrace());
    throw_python_error();
  }
}

std::string describe_stack() {
  const py::gil_scoped_acquire lock;
  try {
    const py::list lines = g_python.format_stack();
    return py::str("").attr("join")(lines).cast<std::string>();
  } catch (const py::error_already_set&) {
    return "";
  }
}

// What the class of the tensor says to torch.compile, see __tensor_flatten__ there.
bool add_parts(const py::object& tensor, std::vector<at::Tensor>& parts) {
  if (!py::hasattr(tensor, "__tensor_flatten__")) {
    return false;
  }
  const py::tuple names_and_rest = tensor.attr("__tensor_flatten__")();
  for (const py::handle name : names_and_rest[0]) {
    const py::object part = py::getattr(tensor, name);
    if (!THPVariable_Check(part.ptr())) {
      continue;
    }
    parts.push_back(THPVariable_Unpack(part.ptr()));
    if (engine_internal::is_of_language(parts.back()) && !add_parts(part, parts)) {
      return false;
    }
  }
  return true;
}

bool append_parts(const at::Tensor& tensor, std::vector<at::Tensor>& parts) {
  const py::gil_scoped_acquire lock;
  const hooks_internal::UnseenScope unseen;
  try {
    return add_parts(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)), parts);
  } catch (const py::error_already_set&) {
    return false;
  }
}

bool is_assembled(const at::Tensor& tensor) noexcept {
  const py::gil_scoped_acquire lock;
  const auto object = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
  const py::handle type(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())));
  return py::hasattr(type, "__tensor_flatten__") && py::hasattr(type, "__tensor_unflatten__");
}

// A tensor without its parts: in their places among the leaves is the description.
struct Rest {
  py::object description;
  py::list leaves;
};

class PythonAssembly final : public engine_internal::Assembly {
 public:
  explicit PythonAssembly(Rest rest) : rest_(std::move(rest)) {}
  PythonAssembly(const PythonAssembly&) = delete;
  PythonAssembly& operator=(const PythonAssembly&) = delete;
  ~PythonAssembly() override { destroy_with_lock(rest_); }

  at::Tensor make(const std::vector<at::Tensor>& parts) const override {
    const py::gil_scoped_acquire lock;
    try {
      py::list leaves;
      std::size_t next = 0;
      for (const py::handle leaf : rest_.leaves) {
        leaves.append(leaf.is(rest_.description)
                          ? py::reinterpret_steal<py::object>(THPVariable_Wrap(parts.at(next++)))
                          : py::reinterpret_borrow<py::object>(leaf));
      }
      const py::object made = g_python.put_together(rest_.description, leaves);
      return THPVariable_Unpack(made.ptr());
    } catch (py::error_already_set& error) {
      error.restore();
      throw_python_error();
    }
  }

 private:
  Rest rest_;
};

engine_internal::TakenApart take_apart(const at::Tensor& tensor,
                                       absl::FunctionRef<bool(const at::Tensor&)> is_part) {
  const py::gil_scoped_acquire lock;
  const hooks_internal::UnseenScope unseen;
  try {
    engine_internal::TakenApart apart;
    const py::tuple taken =
        g_python.take_apart(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)));
    const py::list leaves = taken[0];
    py::list others;
    for (const py::handle leaf : leaves) {
      const bool is_tensor = THPVariable_Check(leaf.ptr());
      if (is_tensor && is_part(THPVariable_Unpack(leaf.ptr()))) {
        apart.parts.push_back(THPVariable_Unpack(leaf.ptr()));
        others.append(taken[1]);  // stands for it
      } else {
        others.append(leaf);
      }
    }
    apart.assembly = c10::make_intrusive<PythonAssembly>(Rest{taken[1], std::move(others)});
    return apart;
  } catch (const py::error_already_set&) {
    return {};
  }
}

}  // namespace

void install_language(const py::module_& errors, const py::module_& parts) {
  g_python = {.early_stop = keep_object(errors, "StopRecomputation").ptr(),
              .checkpoint = keep_object(errors, "CheckpointError").ptr(),
              .determinism = keep_object(errors, "DeterminismError").ptr(),
              .mutation = keep_object(errors, "MutationError").ptr(),
              .budget_exceeded = keep_object(errors, "BudgetExceededError").ptr(),
              .format_stack = keep_object(errors, "format_stack"),
              .take_apart = keep_object(parts, "take_apart"),
              .put_together = keep_object(parts, "put_together")};
  static constexpr engine_internal::EmbeddingLanguage kPython{
      .release_lock = &release_lock,
      .take_lock = &take_lock,
      .throw_early_stop = &throw_python_early_stop,
      .throw_error = &throw_error,
      .describe_stack = &describe_stack,
      .append_parts = &append_parts,
      .is_assembled = &is_assembled,
      .take_apart = &take_apart};
  engine_internal::set_embedding_language(&kPython);
}

void throw_python_error() {
  python_error error;
  error.persist();
  throw error;  // NOLINT(misc-throw-by-value-catch-by-reference): a name is needed for persist()
}

void set_python_error(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const Error& ours) {
    PyErr_SetString(class_of(ours), ours.what_without_backtrace());
  } catch (const BudgetExceededError& exceeded) {
    PyErr_SetString(g_python.budget_exceeded, exceeded.what_without_backtrace());
  } catch (const py::cast_error& wrong) {
    PyErr_SetString(PyExc_TypeError, wrong.what());
  } catch (const py::builtin_exception& builtin) {
    builtin.set_error();
  } catch (const std::invalid_argument& invalid) {
    PyErr_SetString(PyExc_ValueError, invalid.what());
  } catch (...) {
    torch::translate_exception_to_python(error);
  }
}

}  // namespace reprise::python
