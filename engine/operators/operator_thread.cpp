// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/operator_thread.h"

namespace reprise::engine_internal {
namespace {

constinit thread_local OperatorThread t_thread;

}  // namespace

OperatorThread& OperatorThread::current() noexcept { return t_thread; }

}  // namespace reprise::engine_internal
