// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Regions inside of transforms of torch.func, for which reprise._transforms has the rules.
#ifndef REPRISE_PYTHON_BINDINGS_TRANSFORMS_H_
#define REPRISE_PYTHON_BINDINGS_TRANSFORMS_H_

#include <c10/core/impl/LocalDispatchKeySet.h>

#include "reprise/python/bindings/python_language.h"

namespace reprise::python {

// Returns whether a transform is at work on this thread. Each region asks.
inline bool is_in_transform() {
  return c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::FuncTorchDynamicLayerFrontMode);
}

// Returns what reprise._transforms.runs_plainly() says of a region that begins in a transform.
inline bool runs_plainly(bool is_tape) {
  return py::module_::import("reprise._transforms").attr("runs_plainly")(is_tape).cast<bool>();
}

}  // namespace reprise::python

#endif  // REPRISE_PYTHON_BINDINGS_TRANSFORMS_H_
