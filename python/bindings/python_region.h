// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Regions from Python: checkpoint(), the scope, keep(), their options.
#ifndef REPRISE_PYTHON_BINDINGS_PYTHON_REGION_H_
#define REPRISE_PYTHON_BINDINGS_PYTHON_REGION_H_

#include "reprise/python/bindings/python_language.h"

namespace reprise::python {

void add_options(py::module_& module);
void add_checkpoint(py::module_& module);
void add_scope(py::module_& module);
void add_keep(py::module_& module);

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_PYTHON_REGION_H_
