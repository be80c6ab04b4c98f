// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/memory_budget.h"
#include "reprise/planner/trace_format.h"
#include "reprise/python/bindings/python_reports.h"

namespace reprise::python {
namespace {

// Leaves the scope as C++ leaves it by an exception.
void abandon(std::optional<BudgetScope>& scope) {
  struct Unwinding {
    ~Unwinding() noexcept(false) { scope.reset(); }

    std::optional<BudgetScope>& scope;
  };
  struct PythonError {};
  try {
    const Unwinding unwinding{scope};
    throw PythonError();
  } catch (const PythonError&) {
  }
}

// A BudgetScope over the block of a with statement.
class PythonBudgetScope {
 public:
  explicit PythonBudgetScope(std::shared_ptr<MemoryBudget> budget) : budget_(std::move(budget)) {}

  void enter() {
    if (scope_) {
      throw std::runtime_error("this scope is entered already; make one for each step");
    }
    const py::gil_scoped_release unlocked;  // it may plan, or run a backward of its own
    scope_.emplace(*budget_);
  }

  void exit(bool has_failed) {
    if (!scope_) {
      throw std::runtime_error("this scope has not been entered");
    }
    if (has_failed) {
      abandon(scope_);
    } else {
      std::move(*scope_).close();
      scope_.reset();
    }
  }

 private:
  const std::shared_ptr<MemoryBudget> budget_;
  std::optional<BudgetScope> scope_;
};

void add_step(py::module_& module) {
  py::class_<BudgetedStep>(module, "BudgetedStep")
      .def_readonly("peak_bytes", &BudgetedStep::peak_bytes)
      .def_readonly("limit_bytes", &BudgetedStep::limit_bytes)
      .def_readonly("evicted_bytes", &BudgetedStep::evicted_bytes)
      .def_readonly("shortage_bytes", &BudgetedStep::shortage_bytes)
      .def_readonly("stored_bytes", &BudgetedStep::stored_bytes)
      .def_readonly("seconds", &BudgetedStep::seconds)
      .def_readonly("is_recorded", &BudgetedStep::is_recorded)
      .def_readonly("plans", &BudgetedStep::plans)
      .def_readonly("planning_seconds", &BudgetedStep::planning_seconds)
      .def_readonly("has_other_sizes", &BudgetedStep::has_other_sizes)
      .def_readonly("predicted_peak_bytes", &BudgetedStep::predicted_peak_bytes)
      .def_readonly("predicted_seconds", &BudgetedStep::predicted_seconds)
      .def_readonly("plain_seconds", &BudgetedStep::plain_seconds)
      .def_readonly("bound_seconds", &BudgetedStep::bound_seconds)
      .def_property_readonly("is_planned", &BudgetedStep::is_planned);
}

std::shared_ptr<MemoryBudget> make_budget(
    std::optional<std::int64_t> peak_bytes, std::optional<double> max_overhead,
    std::optional<double> fraction, std::optional<std::int64_t> reserve_bytes, at::Device device,
    std::vector<std::shared_ptr<ActivationStore>> stores, bool plans_in_background) {
  return std::make_shared<MemoryBudget>(
      MemoryBudgetOptions{.peak_bytes = peak_bytes,
                          .max_overhead = max_overhead,
                          .fraction = fraction,
                          .reserve_bytes = reserve_bytes,
                          .device = device,
                          .stores = std::move(stores),
                          .plans_in_background = plans_in_background});
}

}  // namespace

void add_memory_budget(py::module_& module) {
  add_step(module);
  module.def("largest_batches", &largest_batches, py::arg("paths"), py::arg("batches"),
             py::arg("peak_bytes"), py::arg("overheads"));
  py::class_<PythonBudgetScope>(module, "BudgetScope")
      .def(py::init<std::shared_ptr<MemoryBudget>>())
      .def("__enter__", &PythonBudgetScope::enter)
      .def("__exit__", [](PythonBudgetScope& scope, py::handle error, py::handle, py::handle) {
        scope.exit(!error.is_none());
      });
  py::class_<MemoryBudget, std::shared_ptr<MemoryBudget>>(module, "MemoryBudget")
      .def(py::init(&make_budget), py::kw_only(), py::arg("peak_bytes") = py::none(),
           py::arg("max_overhead") = py::none(), py::arg("fraction") = py::none(),
           py::arg("reserve_bytes") = py::none(), py::arg("device") = at::Device(at::kCPU),
           py::arg("stores") = std::vector<std::shared_ptr<ActivationStore>>(),
           py::arg("plans_in_background") = false)
      .def("last_step", &MemoryBudget::last_step)
      .def("report", &MemoryBudget::report)
      .def("explain", &MemoryBudget::explain)
      .def("_picture_data",
           [](const MemoryBudget& budget) -> py::object {
             const std::optional<planner::StepReport> report = budget.step_report();
             return report ? py::object(picture_data(*report)) : py::none();
           })
      .def("_frontier", &frontier_of, py::arg("points"))
      .def("_write_report_data", &MemoryBudget::write_report)
      .def("_save_plans", &MemoryBudget::save_plans, py::call_guard<py::gil_scoped_release>())
      .def("_load_plans", &MemoryBudget::load_plans, py::call_guard<py::gil_scoped_release>())
      .def("write_trace", [](const MemoryBudget& budget, const std::string& path) {
        const std::optional<planner::Trace> trace = budget.trace();
        if (!trace) {
          throw py::value_error("no step is known yet");
        }
        planner::write_trace(*trace, path);
      });
}

}  // namespace reprise::python
