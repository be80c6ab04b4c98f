// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Where the running operator has been called, for debug mode.
#ifndef REPRISE_ENGINE_REPORT_STACK_TRACE_H_
#define REPRISE_ENGINE_REPORT_STACK_TRACE_H_

#include <c10/util/Backtrace.h>

namespace reprise::engine_internal {

// Returns the stack of the embedding language's code, which is what its users know, or else that of
// C++, less the frames of its caller in the engine and LibTorch. Symbolised on demand.
c10::Backtrace stack_trace();

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_REPORT_STACK_TRACE_H_
