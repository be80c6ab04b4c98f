// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// DeepSpeed's configuration of activation checkpointing, as JSON.
#ifndef REPRISE_PYTHON_BINDINGS_PYTHON_CONFIGURATION_H_
#define REPRISE_PYTHON_BINDINGS_PYTHON_CONFIGURATION_H_

#include "reprise/python/bindings/python_language.h"

namespace reprise::python {

void add_configuration(py::module_& module);

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_PYTHON_CONFIGURATION_H_
