// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Stores, and the guards that put tensors into them.
#ifndef REPRISE_PYTHON_BINDINGS_PYTHON_STORES_H_
#define REPRISE_PYTHON_BINDINGS_PYTHON_STORES_H_

#include "reprise/python/bindings/python_language.h"

namespace reprise::python {

void add_stores(py::module_& module);

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_PYTHON_STORES_H_
