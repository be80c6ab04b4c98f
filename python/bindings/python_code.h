// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A Python callable with its arguments, as a region's code.
#ifndef REPRISE_PYTHON_BINDINGS_PYTHON_CODE_H_
#define REPRISE_PYTHON_BINDINGS_PYTHON_CODE_H_

#include <ATen/PythonTorchFunctionTLS.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "reprise/engine/callable/region_code.h"
#include "reprise/python/bindings/python_language.h"
#include "reprise/python/bindings/region_argument.h"

namespace reprise::python {

// A call as CPython's vectorcall has it.
struct PythonCall {
  PyObject* function = nullptr;               // borrowed
  std::span<PyObject* const> arguments = {};  // borrowed; the last ones are named
  PyObject* names = nullptr;                  // borrowed; a tuple, or null

  // Returns the result, null with an exception.
  PyObject* run() const;
};

// The context managers of torch.utils.checkpoint's context_fn.
struct PythonContexts {
  py::object forward;
  py::object recompute;
};

// Holds the caller's objects, so that they are the same in a recomputation; or, if hooks or a store
// are to hold the tensors, what is around these. Containers have forward's contents.
class PythonCode final : public engine_internal::RegionCode {
 public:
  // recompute_context: entered around each recomputation; perhaps none.
  PythonCode(const PythonCall& call, bool holds_tensors, py::object recompute_context);
  ~PythonCode() override;

  // Of the tensors in the arguments. Before take_inputs().
  std::int64_t tensor_bytes() const;

  // With the interpreter's lock.
  void take_inputs(engine_internal::RegionInputs& inputs) override;

  // Takes the interpreter's lock.
  void run(std::span<const at::Tensor> inputs) override;

  // Calls `visitor` with each object that the code of a living region owns, once per reference. It
  // must not run Python code. With the interpreter's lock.
  static void for_each_object(absl::FunctionRef<void(PyObject*)> visitor);

 private:
  struct Objects {
    py::object function;
    py::object names;  // perhaps none
    py::object context;
    std::vector<RegionArgument> arguments;
  };

  std::vector<py::object> arguments_with(std::span<const at::Tensor> inputs) const;
  PyObject* run_with(const std::vector<py::object>& arguments) const;

  const at::impl::TorchFunctionDisabledState torch_function_;  // forward's
  Objects objects_;
  std::vector<at::Tensor> tensors_;  // until they are taken
  PythonCode* previous_ = nullptr;   // in the list of all of them
  PythonCode* next_ = nullptr;
};

// Calls the function inside the context manager; simply calls it if that is null. Returns null with
// an exception.
PyObject* run_in_context(const PythonCall& call, py::handle context);

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_PYTHON_CODE_H_
