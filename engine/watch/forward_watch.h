// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_ENGINE_WATCH_FORWARD_WATCH_H_
#define REPRISE_ENGINE_WATCH_FORWARD_WATCH_H_

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include "reprise/engine/checks/provenance.h"
#include "reprise/engine/checks/saved_statistics.h"
#include "reprise/engine/operators/chained_interceptor.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/engine/watch/watched_forward.h"

namespace reprise::engine_internal {

// Writes the record of the operators of a function region, while forward runs. On its thread.
class ForwardWatch final : public ChainedInterceptor {
 public:
  // statistics: see RegionRecord; may be null. outer: the next interceptor further out, or null.
  ForwardWatch(WatchedForward& forward, SavedStatistics* statistics, OperatorInterceptor* outer)
      : ChainedInterceptor(outer), forward_(forward), statistics_(statistics) {}

  void intercept(const OperatorCall& call) override;
  void note_recomputed(const at::Tensor& tensor, StorageId saved, Provenance provenance) override;

 private:
  void intercept_hidden(const OperatorCall& call);
  void note_reads(const OperatorCall& call, const ProvenanceMap::Call& described);
  // See OperatorInterceptor::state_before(): the present contents as well.
  at::Tensor contents_before(const OperatorCall& call, const at::Tensor& argument);
  void note_targets(const OperatorCall& call);
  void note_befores(const OperatorCall& call);
  void note_statistics(const OperatorCall& call);
  void note_generator(const at::Generator& generator);
  bool is_outside(const at::Tensor& tensor) const;

  WatchedForward& forward_;
  SavedStatistics* const statistics_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_WATCH_FORWARD_WATCH_H_
