// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Puts a thread into the state in which an operator of a tape ran in forward.
#ifndef REPRISE_ENGINE_TAPE_TAPE_CONTEXT_H_
#define REPRISE_ENGINE_TAPE_TAPE_CONTEXT_H_

#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

#include "reprise/engine/tape/tape.h"

namespace reprise::engine_internal {

class TapeContextGuard {
 public:
  TapeContextGuard(const Tape& tape, const Tape::Context& context);
  ~TapeContextGuard();
  TapeContextGuard(const TapeContextGuard&) = delete;
  TapeContextGuard& operator=(const TapeContextGuard&) = delete;

 private:
  c10::impl::ForceDispatchKeyGuard keys_;
  c10::AutoGradMode grad_mode_;  // read by kernels
  caffe2::TypeMeta dtype_;
  std::optional<bool> is_deterministic_;
  const ComputeModes* const compute_;  // the modes that are set; null for the region's
  ComputeModes found_compute_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_TAPE_CONTEXT_H_
