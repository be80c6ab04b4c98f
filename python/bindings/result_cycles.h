// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Results that a module of a region keeps as attributes: a cycle of the module, its result, the
// result's graph and the region, of which Python's collector sees only the first edge.
#ifndef REPRISE_PYTHON_BINDINGS_RESULT_CYCLES_H_
#define REPRISE_PYTHON_BINDINGS_RESULT_CYCLES_H_

#include "reprise/python/bindings/python_language.h"

namespace reprise::python {

// Adds release_unreachable_results(): takes the graph from each tensor that Python's code can reach
// through the callables of regions alone. A replay still finds such a tensor, with its contents;
// the graph is freed, and with it regions, their callables and these tensors. To be called at the
// beginning of a full collection.
void add_result_cycles(py::module_& module);

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_RESULT_CYCLES_H_
