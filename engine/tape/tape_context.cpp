// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape/tape_context.h"

#include <ATen/Context.h>

#include "reprise/engine/operators/python_key.h"

namespace reprise::engine_internal {
namespace {

// Python's modes belong to the thread's present state: those of forward may have ended.
constexpr c10::DispatchKeySet kPython({c10::DispatchKey::Python,
                                       c10::DispatchKey::PythonTLSSnapshot,
                                       c10::DispatchKey::PythonDispatcher});

// The keys that forward had included, and the keys included here to intercept operators.
c10::DispatchKeySet included_keys(const Tape::Context& context) {
  return (context.keys.included_ - kPython) | c10::impl::tls_local_dispatch_key_set().included_;
}

// Operators enter the dispatcher below the key where forward has recorded them; but Python's modes
// see them, unless forward ran them with Python's dispatch off, as the mode of fake tensors does.
c10::DispatchKeySet excluded_keys(const Tape::Context& context) {
  c10::DispatchKeySet below(c10::DispatchKeySet::FULL_AFTER, kInterceptedKey);
  if (kIsPythonAbove && !context.keys.excluded_.has(c10::DispatchKey::Python)) {
    below = below.add(c10::DispatchKey::Python);
  }
  const c10::DispatchKeySet now = c10::impl::tls_local_dispatch_key_set().excluded_;
  return (context.keys.excluded_ - kPython) | (now & kPython) |
         (c10::DispatchKeySet(c10::DispatchKeySet::FULL) - below);
}

}  // namespace

TapeContextGuard::TapeContextGuard(const Tape& tape, const Tape::Context& context)
    : keys_(included_keys(context), excluded_keys(context)),
      grad_mode_(context.is_grad_enabled),
      dtype_(c10::get_default_dtype()),
      compute_(context.compute == Tape::kNone ? nullptr : &tape.compute[context.compute]) {
  if (c10::typeMetaToScalarType(dtype_) != context.default_dtype) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(context.default_dtype));
  }
  at::Context& global = at::globalContext();
  if (global.deterministicAlgorithms() != context.is_deterministic) {
    is_deterministic_ = global.deterministicAlgorithms();
    global.setDeterministicAlgorithms(context.is_deterministic,
                                      global.deterministicAlgorithmsWarnOnly());
  }
  if (compute_ != nullptr) {
    found_compute_ = ComputeModes::current();
    compute_->apply_over(found_compute_);
  }
}

TapeContextGuard::~TapeContextGuard() {
  if (c10::get_default_dtype() != dtype_) {
    c10::set_default_dtype(dtype_);
  }
  if (is_deterministic_) {
    at::Context& global = at::globalContext();
    global.setDeterministicAlgorithms(*is_deterministic_, global.deterministicAlgorithmsWarnOnly());
  }
  if (compute_ != nullptr) {
    found_compute_.apply_over(*compute_);
  }
}

}  // namespace reprise::engine_internal
