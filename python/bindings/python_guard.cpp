// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/python/bindings/python_guard.h"

#include <torch/csrc/autograd/python_variable.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/debug_mode.h"
#include "reprise/engine/graph_exec_group.h"
#include "reprise/engine/memory_report.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/policy_bypass.h"
#include "reprise/engine/recomputing.h"
#include "reprise/engine/region/framework_code.h"
#include "reprise/engine/value_annotations.h"
#include "reprise/hooks/seam/backward_scope.h"
#include "reprise/policies/name_scope.h"
#include "reprise/python/bindings/python_language.h"
#include "reprise/rng/rng_state_tracker.h"

namespace reprise::python {
namespace {

// A fork of a named state while it is alive.
struct RngFork {
  RngFork(RngStateTracker& tracker, const std::string& name) : guard(tracker.fork(name)) {}

  RngTrackerForkGuard guard;
};

using TrackerHolder = std::shared_ptr<RngStateTracker>;

// A group, entered or not.
class PythonGroup {
 public:
  void enter() { entered_ = std::make_unique<GraphExecGroupGuard>(group_); }
  void exit() { entered_.reset(); }
  void recompute_now() { group_.recompute_now(); }
  void release() { group_.release(); }

 private:
  GraphExecGroup group_;
  std::unique_ptr<GraphExecGroupGuard> entered_;
};

// Around a backward that Python runs, which the default engine does not see.
class ObservedBackward {
 public:
  ObservedBackward(py::handle roots, bool accumulates) : accumulates_(accumulates) {
    if (THPVariable_Check(roots.ptr())) {
      roots_.push_back(THPVariable_Unpack(roots.ptr()));
      return;
    }
    for (const py::handle root : roots) {  // a GradientEdge among them has no tensor
      if (THPVariable_Check(root.ptr())) {
        roots_.push_back(THPVariable_Unpack(root.ptr()));
      }
    }
  }
  void enter() {
    scope_ = hooks_internal::begin_backward(roots_, accumulates_);
    roots_.clear();
  }
  void exit() { scope_.reset(); }

 private:
  std::vector<at::Tensor> roots_;
  const bool accumulates_;
  std::shared_ptr<void> scope_;
};

void add_generators(py::module_& module) {
  using States = RngStateTracker::States;
  py::class_<States>(module, "RngStates").def("names", [](const States& states) {
    std::vector<std::string> names;
    for (const auto& [name, state] : states) {
      names.push_back(name);
    }
    return names;
  });
  py::class_<RngStateTracker, TrackerHolder>(module, "RngStateTracker")
      .def(py::init<>())
      .def("add", &RngStateTracker::add, py::arg("name"), py::arg("seed"))
      .def(
          "fork",
          [](const TrackerHolder& tracker, std::string name) {
            return PythonGuard([tracker, name = std::move(name)] {
              return std::make_shared<RngFork>(*tracker, name);
            });
          },
          py::arg("name") = std::string(kModelParallelRng))
      .def("states", &RngStateTracker::states)
      .def("set_states", &RngStateTracker::set_states, py::arg("states"))
      .def("reset", &RngStateTracker::reset);
  module.def("default_rng_state_tracker",
             [] { return TrackerHolder(&default_rng_state_tracker(), [](RngStateTracker*) {}); });
  module.def(
      "model_parallel_manual_seed",
      [](std::uint64_t seed, std::int64_t rank, const TrackerHolder& tracker) {
        model_parallel_manual_seed(seed, rank, tracker ? *tracker : default_rng_state_tracker());
      },
      py::arg("seed"), py::arg("tensor_parallel_rank"), py::arg("tracker") = py::none());
}

// While alive, no region sees the operators of this thread.
class UnobservedGuard final : engine_internal::InterceptionScope {
 public:
  UnobservedGuard() : InterceptionScope(nullptr) {}
};

void add_annotations(py::module_& module) {
  module.def("is_recomputing", &is_recomputing);
  module.def("must_save", &must_save);
  module.def("must_recompute", &must_recompute);
  module.def("checkpoint_name", [](const at::Tensor& tensor, const std::string& name) {
    return checkpoint_name(tensor, name);
  });
  module.def("name_scope", [](std::string name) { return guard_of<NameScope>(std::move(name)); });
  module.def("policy_bypass", [] { return guard_of<PolicyBypassGuard>(); });
  module.def("unobserved", [] { return guard_of<UnobservedGuard>(); });
  module.def("framework_code", [] { return guard_of<engine_internal::FrameworkCodeGuard>(); });
  module.def(
      "set_refillable",
      [](const std::vector<at::Tensor>& tensors, py::object refill, py::object start) {
        const auto call = [](py::object function) -> std::function<void()> {
          return [function = share_object(std::move(function))] {
            const py::gil_scoped_acquire lock;
            (*function)();
          };
        };
        engine_internal::set_refillable(tensors, call(std::move(refill)), call(std::move(start)));
      },
      py::arg("tensors"), py::arg("refill"), py::arg("start"));
  module.def("set_in_use", &engine_internal::set_in_use);
}

}  // namespace

void add_guards(py::module_& module) {
  py::class_<PythonGuard>(module, "Guard")
      .def("__enter__", &PythonGuard::enter)
      .def("__exit__", [](PythonGuard& guard, const py::args&) { guard.exit(); });
  py::class_<PythonGroup>(module, "GraphExecGroup", py::dynamic_attr())
      .def(py::init<>())
      .def("enter", &PythonGroup::enter)
      .def("exit", &PythonGroup::exit)
      .def("recompute_now", &PythonGroup::recompute_now)
      .def("release", &PythonGroup::release);
  py::class_<ObservedBackward>(module, "ObservedBackward")
      .def(py::init<py::handle, bool>())
      .def("__enter__", &ObservedBackward::enter)
      .def("__exit__", [](ObservedBackward& backward, const py::args&) { backward.exit(); });
  module.def("debug_mode", [](bool enabled) { return guard_of<DebugModeGuard>(enabled); });
  module.def("early_stop", [](bool enabled) { return guard_of<EarlyStopGuard>(enabled); });
  module.def("collect_memory_report", [] { return guard_of<MemoryReportGuard>(); });
  add_annotations(module);
  add_generators(module);
}

}  // namespace reprise::python
