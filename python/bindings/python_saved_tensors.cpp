// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What hooks hold of a tensor that a node has saved, without a call of the hooks.
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/saved_variable.h>

#include <cstdint>

#include "reprise/engine/region/frame.h"
#include "reprise/hooks/seam/variable_hooks.h"
#include "reprise/python/bindings/python_reports.h"

namespace reprise::python {
namespace {

using engine_internal::Frame;
using engine_internal::HeldValue;
using engine_internal::HeldValues;
using torch::autograd::SavedVariable;
using torch::autograd::SavedVariableHooks;

std::uintptr_t address_of(const void* object) { return reinterpret_cast<std::uintptr_t>(object); }

py::list held_list(const HeldValues& held) {
  py::list values;
  for (const HeldValue& each : held) {
    const std::int64_t stored_bytes = each.stored ? each.stored->device_bytes() : 0;
    values.append(py::make_tuple(each.tensor.defined() ? py::cast(each.tensor) : py::none(),
                                 address_of(each.stored.get()), stored_bytes, each.why, each.op));
  }
  return values;
}

// Returns the object that Python's hooks have packed; None from LibTorch's versions that give only
// the hook.
py::object packed_by_python(const SavedVariableHooks& hooks) {
  if constexpr (requires { hooks.retrieve_unpack_hook_data(); }) {
    try {
      const auto data = hooks.retrieve_unpack_hook_data();
      return data ? py::reinterpret_borrow<py::object>(data->second.ptr(getPyInterpreter()))
                  : py::object(py::none());
    } catch (const c10::Error&) {
      return py::none();  // hooks of C++
    }
  }
  return py::none();
}

// Returns None without hooks.
py::object held_by(const SavedVariable& saved) {
  const SavedVariableHooks* const hooks = hooks_internal::hooks_of(saved);
  if (hooks == nullptr) {
    return py::none();
  }
  py::dict result;
  HeldValues held;
  if (Frame* const frame = Frame::of_slot(*hooks)) {
    result["region"] = frame->name();
    result["frame"] = address_of(frame);
    held = frame->held();
  } else {
    engine_internal::append_held(*hooks, "in a store", held);
  }
  result["held"] = held_list(held);
  result["packed"] = held.empty() ? packed_by_python(*hooks) : py::object(py::none());
  return result;
}

}  // namespace

void add_saved_tensors(py::module_& module) { module.def("held_by", &held_by, py::arg("saved")); }

}  // namespace reprise::python
