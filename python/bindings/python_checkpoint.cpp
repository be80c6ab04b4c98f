// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// checkpoint(), without pybind11 between the interpreter and the engine: a call has to cost little
// beside a region.
#include <ATen/SavedTensorHooks.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <memory>
#include <utility>

#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/region/configuration.h"
#include "reprise/engine/region/forward_region.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/python/bindings/python_code.h"
#include "reprise/python/bindings/python_language.h"
#include "reprise/python/bindings/python_region.h"
#include "reprise/python/bindings/transforms.h"

namespace reprise::python {
namespace {

using engine_internal::ForwardRegion;

// Whether hooks or a store are to hold the tensors of a region's arguments.
bool are_inputs_packed(const CheckpointOptions& options) {
  if (options.input_store != nullptr || hooks_internal::has_open_provider() ||
      !at::SavedTensorDefaultHooks::get_tls_state().stack.empty()) {
    return true;
  }
  const auto configuration = engine_internal::current_configuration();
  return configuration != nullptr && configuration->input_store != nullptr;
}

// Within forward-mode AD the arguments may be dual numbers, whose tangents no hook or store
// returns.
bool may_have_tangents() { return torch::autograd::ForwardADLevel::try_get_by_idx(0) != nullptr; }

// Returns the result of the call, null with an exception.
PyObject* run_region(const CheckpointOptions& options, const PythonCall& call,
                     PythonContexts contexts) {
  const auto run = [&] { return run_in_context(call, contexts.forward); };
  const bool is_tape = options.replay == ReplayMode::kTape;
  if (is_in_transform() && runs_plainly(is_tape)) {
    return run();
  }
  if (!ForwardRegion::prepare(options)) {
    return call.run();  // without contexts, as torch.utils.checkpoint does
  }
  const bool holds_tensors = !are_inputs_packed(options) || may_have_tangents();
  auto code = std::make_unique<PythonCode>(call, holds_tensors, std::move(contexts.recompute));
  if (options.min_input_bytes > 0 && code->tensor_bytes() < options.min_input_bytes) {
    return run();
  }
  CheckpointOptions own = options;
  ForwardRegion region =
      is_tape ? ForwardRegion(std::move(own)) : ForwardRegion(&own, std::move(code));
  return region
      .run([&] {
        auto result = py::reinterpret_steal<py::object>(run());
        if (!result) {
          throw_python_error();
        }
        return result;
      })
      .release()
      .ptr();
}

const CheckpointOptions& to_options(py::handle object) {
  try {
    return py::cast<const CheckpointOptions&>(object);
  } catch (const py::cast_error&) {
    throw py::type_error(c10::str(
        "[checkpoint] options have to be a CheckpointOptions; received a ",
        Py_TYPE(object.ptr())->tp_name, "; write options=reprise.CheckpointOptions(policy=...)"));
  }
}

// run_region(options, contexts, function, *arguments, **named): contexts is None, or a pair of
// context managers.
PyObject* run_region_from_python(PyObject* /*module*/, PyObject* const* arguments, Py_ssize_t count,
                                 PyObject* names) {
  return with_python_errors([&]() -> PyObject* {
    constexpr std::size_t kOwn = 3;
    const auto positional = static_cast<std::size_t>(PyVectorcall_NARGS(count));
    if (positional < kOwn) {
      throw py::type_error("run_region() takes options, contexts and a function");
    }
    const std::size_t named =
        names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(names));
    PythonContexts contexts{py::none(), py::none()};
    if (arguments[1] != Py_None) {
      const auto pair = py::reinterpret_borrow<py::tuple>(arguments[1]);
      contexts = {pair[0], pair[1]};
    }
    const PythonCall call{.function = arguments[2],
                          .arguments = {arguments + kOwn, positional + named - kOwn},
                          .names = names};
    return run_region(to_options(arguments[0]), call, std::move(contexts));
  });
}

}  // namespace

void add_checkpoint(py::module_& module) {
  static PyMethodDef methods[] = {
      {"run_region", as_method(&run_region_from_python), METH_FASTCALL | METH_KEYWORDS, nullptr},
      {nullptr, nullptr, 0, nullptr}};
  if (PyModule_AddFunctions(module.ptr(), methods) != 0) {
    throw py::error_already_set();
  }
}

}  // namespace reprise::python
