// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_ENGINE_OPERATORS_CHAINED_INTERCEPTOR_H_
#define REPRISE_ENGINE_OPERATORS_CHAINED_INTERCEPTOR_H_

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "reprise/engine/operators/interception.h"

namespace reprise::engine_internal {

// Base of an interceptor that passes on to the next one further out, or, without one, to the
// operator itself.
class ChainedInterceptor : public OperatorInterceptor {
 public:
  explicit ChainedInterceptor(OperatorInterceptor* next) : next_(next) {}

  void settle() override {
    if (next_ != nullptr) {
      next_->settle();
    }
  }
  void note_recomputed(const at::Tensor& tensor, const void* saved,
                       std::uint64_t provenance) override {
    if (next_ != nullptr) {
      next_->note_recomputed(tensor, saved, provenance);
    }
  }
  at::Tensor state_before(const OperatorCall& call, const at::Tensor& argument) override {
    return next_ == nullptr ? at::Tensor() : next_->state_before(call, argument);
  }

 protected:
  OperatorInterceptor* next() const { return next_; }
  void set_next(OperatorInterceptor* next) { next_ = next; }

  void pass_on(const OperatorCall& call) const { engine_internal::pass_on(call, next_); }

 private:
  OperatorInterceptor* next_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_OPERATORS_CHAINED_INTERCEPTOR_H_
