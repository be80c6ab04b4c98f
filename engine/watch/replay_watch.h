// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Follows the operators of a function region's replay beside those of its forward.
#ifndef REPRISE_ENGINE_WATCH_REPLAY_WATCH_H_
#define REPRISE_ENGINE_WATCH_REPLAY_WATCH_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/operator_name.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/watch/watched_forward.h"
#include "reprise/rng/rng_fork_guard.h"

namespace reprise::engine_internal {

// Lives for one replay, on its thread.
class ReplayWatch final : public OperatorInterceptor {
 public:
  // Both must outlive this. checks_outside: false if tensors from outside may have changed.
  // preserves_rng: generators are to be where they were in forward after each operator, and are put
  // back.
  ReplayWatch(const WatchedForward& forward, bool checks_outside, bool preserves_rng)
      : forward_(forward), checks_outside_(checks_outside), preserves_rng_(preserves_rng) {}

  // The region's inputs as the replay has them, and the interceptor that runs the operators.
  void start(std::span<const at::Tensor> inputs, OperatorInterceptor& next);

  void intercept(const OperatorCall& call) override;
  void settle() override { inner_->settle(); }
  void note_recomputed(const at::Tensor& tensor, StorageId saved, Provenance provenance) override {
    made_.note_recomputed(tensor, saved, provenance);
  }
  at::Tensor state_before(const OperatorCall& call, std::uint32_t argument, std::uint32_t element,
                          const at::Tensor& target) override;

  // Those that forward has not drawn from, or not yet, are as the replay found them.
  void put_generators_back() { drawn_.clear(); }

  // Of the operator that runs now.
  // Words for an error if a tensor from outside that it reads is not what forward read.
  const std::optional<std::string>& change() const { return change_; }
  // What forward's told the host; null if it told nothing of tensors from outside.
  const std::vector<c10::IValue>* told() const;
  // Forward, which runs still, has not come to it; or it is none of forward's, as what is saved of
  // its results will tell.
  bool is_ahead() const { return !matched_ && !forward_.is_complete; }
  // The state that forward's found in a tensor from outside; undefined if it is not known.
  at::Tensor before(std::uint32_t argument, std::uint32_t element) const;

  // Of a tensor that is saved now.
  Provenance provenance_of(const at::Tensor& tensor);
  // Which operator has made it another one than forward saved, in words for an error.
  std::string origin_of(const at::Tensor& tensor) const;

 private:
  // Of an operator that is about to run.
  struct Draw {
    at::Generator generator;
    std::uint64_t position_after;  // in forward
    std::vector<at::Tensor> written;
  };

  std::optional<std::uint32_t> match(Provenance hash);
  std::optional<std::uint32_t> find(Provenance hash);
  at::Tensor before_of(std::optional<std::uint32_t> op, std::uint32_t argument,
                       std::uint32_t element) const;
  void intercept_hidden(const OperatorCall& call);
  ProvenanceMap::Call describe(const OperatorCall& call);
  // True if it is one, and was not known yet.
  bool add_left_over(const at::Tensor& tensor);
  std::optional<Draw> draw_of(const OperatorCall& call);
  void compare_draw(const OperatorCall& call, const Draw& draw);
  void compare_wrapped(const OperatorCall& call, const std::vector<at::Tensor>& written);
  std::uint32_t new_origin(std::string words);
  std::string words_for(const OperatorCall& call) const;
  void compare_reads(const OperatorCall& call, const ProvenanceMap::Call& described);
  std::uint32_t origin_for(const OperatorCall& call, const ProvenanceMap::Call& described);

  const WatchedForward& forward_;
  const bool checks_outside_;
  const bool preserves_rng_;
  OperatorInterceptor* inner_ = nullptr;
  ProvenanceMap made_;
  WrappedWrites writes_;
  std::uint32_t calls_ = 0;
  std::uint32_t next_ = 0;  // of forward's operators
  std::optional<std::uint32_t> matched_;
  std::optional<std::string> change_;
  std::optional<absl::flat_hash_map<Provenance, std::vector<std::uint32_t>>> positions_;
  // By the generator, each held.
  absl::flat_hash_map<const c10::GeneratorImpl*, std::unique_ptr<RngForkGuard>> drawn_;
  std::vector<std::string> origins_;  // why a tensor is not one of forward's
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_WATCH_REPLAY_WATCH_H_
