// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Reports and budgets of memory.
#ifndef REPRISE_PYTHON_BINDINGS_PYTHON_REPORTS_H_
#define REPRISE_PYTHON_BINDINGS_PYTHON_REPORTS_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "reprise/engine/memory_budget.h"
#include "reprise/planner/step_report.h"
#include "reprise/python/bindings/python_language.h"

namespace reprise::python {

void add_memory_report(py::module_& module);
void add_memory_budget(py::module_& module);
void add_saved_tensors(py::module_& module);

// Returns the planner's frontier of a budget's last known step, in bytes and seconds; None if no
// step is known.
py::object frontier_of(const MemoryBudget& budget, int points);

// Returns, for each overhead, the largest batch whose step fits into so many bytes, predicted from
// the files of the traces of two batches (planner/largest_batch.h): its batch, peak and times. None
// where no batch fits.
py::list largest_batches(const std::array<std::string, 2>& paths,
                         const std::array<std::int64_t, 2>& batches, std::int64_t peak_bytes,
                         const std::vector<double>& overheads);

// Returns what a picture of the step needs, as Python's own types.
py::dict picture_data(const planner::StepReport& report);

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_PYTHON_REPORTS_H_
