// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Policies from Python: ours, which ask nothing of Python, and functions as
// torch.utils.checkpoint's selective mode takes them.
#ifndef REPRISE_PYTHON_BINDINGS_PYTHON_POLICY_H_
#define REPRISE_PYTHON_BINDINGS_PYTHON_POLICY_H_

#include "reprise/policies/checkpoint_policy.h"
#include "reprise/python/bindings/python_language.h"

namespace reprise::python {

// Returns the policy that `object` means: None, a Policy of reprise.policies, a list of operators
// to save, or a function policy(context, op, *args, **kwargs).
//
// Throws: Python's TypeError for other objects, ValueError for other elements of the list.
PolicyHolder to_policy(py::handle object);

// Adds Policy, and reprise.policies' functions, to the module.
void add_policies(py::module_& module);

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_PYTHON_POLICY_H_
