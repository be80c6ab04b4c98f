// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <chrono>
#include <string>

#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/debug_mode.h"
#include "reprise/engine/memory_report.h"
#include "reprise/python/bindings/python_reports.h"

namespace reprise::python {
namespace {

double in_seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

void add_figures(py::module_& module) {
  py::class_<DeviceMemory>(module, "DeviceMemory")
      .def_readonly("device", &DeviceMemory::device)
      .def_readonly("current_bytes", &DeviceMemory::current_bytes)
      .def_readonly("peak_bytes", &DeviceMemory::peak_bytes);
  py::class_<OperatorReport>(module, "OperatorReport")
      .def_readonly("name", &OperatorReport::name)
      .def_property_readonly(
          "decision", [](const OperatorReport& op) { return std::string(to_string(op.decision)); })
      .def_readonly("calls", &OperatorReport::calls)
      .def_readonly("kept_bytes", &OperatorReport::kept_bytes)
      .def_readonly("dropped_bytes", &OperatorReport::dropped_bytes)
      .def_readonly("replays", &OperatorReport::replays)
      .def_property_readonly("replay_seconds",
                             [](const OperatorReport& op) { return in_seconds(op.replay_time); });
  py::class_<RegionReport>(module, "RegionReport")
      .def_readonly("name", &RegionReport::name)
      .def_readonly("runs", &RegionReport::runs)
      .def_property_readonly(
          "forward_seconds",
          [](const RegionReport& region) { return in_seconds(region.forward_time); })
      .def_readonly("saved_tensors", &RegionReport::saved_tensors)
      .def_readonly("dropped_bytes", &RegionReport::dropped_bytes)
      .def_readonly("kept_bytes", &RegionReport::kept_bytes)
      .def_readonly("replays", &RegionReport::replays)
      .def_property_readonly(
          "replay_seconds",
          [](const RegionReport& region) { return in_seconds(region.replay_time); })
      .def_readonly("tape_operators", &RegionReport::tape_operators)
      .def_readonly("tape_bytes", &RegionReport::tape_bytes)
      .def_readonly("untracked_bytes", &RegionReport::untracked_bytes)
      .def_readonly("operators", &RegionReport::operators)
      .def_readonly("unmatched", &RegionReport::unmatched)
      .def("keeps_more_than_autograd", &RegionReport::keeps_more_than_autograd);
}

}  // namespace

void add_memory_report(py::module_& module) {
  add_figures(module);
  py::class_<MemoryReport>(module, "MemoryReport")
      .def_readonly("devices", &MemoryReport::devices)
      .def_readonly("regions", &MemoryReport::regions)
      .def("explain", &MemoryReport::explain)
      .def("__str__", &MemoryReport::to_string);
  module.def("memory_report", &memory_report);
  module.def("explain_policies", &explain_policies);
  py::class_<CpuMemory>(module, "CpuMemory")
      .def_readonly("current_bytes", &CpuMemory::current_bytes)
      .def_readonly("peak_bytes", &CpuMemory::peak_bytes)
      .def_readonly("allocations", &CpuMemory::allocations);
  module.def("cpu_memory", &cpu_memory);
  module.def("install_cpu_memory_counter", &install_cpu_memory_counter);
  module.def("reset_peak_cpu_memory", &reset_peak_cpu_memory);
  module.def("set_cpu_memory_limit", &set_cpu_memory_limit, py::arg("limit_bytes"));
  module.def("set_debug_enabled", &set_checkpoint_debug_enabled);
}

}  // namespace reprise::python
