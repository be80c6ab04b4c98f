// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Graphs of torch.compile as operators.
//
// Note [Compiled graphs]: a compiled graph calls kernels on memory from LibTorch's allocator, past
// the dispatcher, so that its results have no operator. Inside a region each call of a graph is
// dispatched as a call of reprise::compiled_graph: one operator for tapes, policies and budgets,
// with the tensors that the graph reads, and those that it writes, as arguments. What is not a
// tensor, such as a dynamic size, is part of the first argument.
#ifndef REPRISE_PYTHON_BINDINGS_COMPILED_GRAPH_H_
#define REPRISE_PYTHON_BINDINGS_COMPILED_GRAPH_H_

#include "reprise/python/bindings/python_language.h"

namespace reprise::python {

// Adds call_compiled_graph(call, graph, inputs), which returns what call(graph, inputs) returns,
// and inside a region runs that as an operator. inputs: a list, which is emptied.
void add_compiled_graphs(py::module_& module);

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_COMPILED_GRAPH_H_
