// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint_options.h"
#include "reprise/hooks/activation_store.h"
#include "reprise/python/bindings/python_language.h"
#include "reprise/python/bindings/python_policy.h"
#include "reprise/python/bindings/python_region.h"

namespace reprise::python {
namespace {

// Describes a tensor with a Python function, whose result is compared as text.
class PythonDescription {
 public:
  explicit PythonDescription(py::object function) : function_(share_object(std::move(function))) {}

  std::string operator()(const at::Tensor& tensor) const {
    const py::gil_scoped_acquire lock;
    return py::str((*function_)(tensor));
  }

 private:
  std::shared_ptr<py::object> function_;
};

ReplayMode replay_mode(const std::string& name) {
  if (name != "function" && name != "tape") {
    throw py::value_error("replay should be one of [function, tape] but got '" + name + "'");
  }
  return name == "tape" ? ReplayMode::kTape : ReplayMode::kFunction;
}

std::string name_of(ReplayMode mode) { return mode == ReplayMode::kTape ? "tape" : "function"; }

std::string name_of(DeterminismCheck check) {
  switch (check) {
    case DeterminismCheck::kNone:
      return "none";
    case DeterminismCheck::kMetadata:
      return "metadata";
    case DeterminismCheck::kValues:
      return "values";
    case DeterminismCheck::kCallback:
      return "callback";
  }
  return {};
}

void set_determinism_check(CheckpointOptions& options, py::handle check) {
  if (PyCallable_Check(check.ptr()) != 0) {
    options.determinism_check = DeterminismCheck::kCallback;
    options.determinism_fn = PythonDescription(py::reinterpret_borrow<py::object>(check));
  } else {
    const auto name = py::cast<std::string>(check);
    if (name == name_of(DeterminismCheck::kCallback)) {
      throw py::value_error("determinism_check takes the function itself, not 'callback'");
    }
    options.determinism_check = determinism_check_from_string(name);
    options.determinism_fn = {};
  }
}

}  // namespace

void add_options(py::module_& module) {
  py::class_<CheckpointOptions>(module, "CheckpointOptions")
      .def(py::init<>())
      .def_readwrite("name", &CheckpointOptions::name)
      .def_property(
          "replay", [](const CheckpointOptions& options) { return name_of(options.replay); },
          [](CheckpointOptions& options, const std::string& name) {
            options.replay = replay_mode(name);
          })
      .def_property(
          "determinism_check",
          [](const CheckpointOptions& options) { return name_of(options.determinism_check); },
          &set_determinism_check)
      .def_readwrite("min_input_bytes", &CheckpointOptions::min_input_bytes)
      .def_readwrite("prefetch_depth", &CheckpointOptions::prefetch_depth)
      .def_readwrite("synchronize_boundary", &CheckpointOptions::synchronize_boundary)
      .def_readwrite("allow_external_mutation", &CheckpointOptions::allow_external_mutation)
      .def_readwrite("copied_state_limit_bytes", &CheckpointOptions::copied_state_limit_bytes)
      .def_readwrite("preserve_rng_state", &CheckpointOptions::preserve_rng_state)
      .def_readwrite("early_stop", &CheckpointOptions::early_stop)
      .def_readwrite("watch_operators", &CheckpointOptions::watch_operators)
      .def_readwrite("debug", &CheckpointOptions::debug)
      .def_readwrite("allow_cache_entry_mutation", &CheckpointOptions::allow_cache_entry_mutation)
      .def_readwrite("respect_saved_tensors_hooks", &CheckpointOptions::respect_saved_tensors_hooks)
      .def("assign",
           [](CheckpointOptions& options, const CheckpointOptions& other) { options = other; })
      .def("set_policy", [](CheckpointOptions& options,
                            py::handle policy) { options.policy = to_policy(policy); })
      .def("set_input_store",
           [](CheckpointOptions& options, std::shared_ptr<ActivationStore> store) {
             options.input_store = std::move(store);
           });
}

}  // namespace reprise::python
