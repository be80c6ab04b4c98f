// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/region/forward_region.h"

#include <ATen/SavedTensorHooks.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/ambient/boundary.h"
#include "reprise/engine/function/function_recomputation.h"
#include "reprise/engine/kept/input_group.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/region_scope.h"
#include "reprise/engine/recomputing.h"
#include "reprise/engine/region/configuration.h"
#include "reprise/engine/region/frame.h"
#include "reprise/engine/region/group_state.h"
#include "reprise/engine/region/settings.h"
#include "reprise/engine/report/profiler_range.h"
#include "reprise/engine/tape_replay/tape_recomputation.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

using hooks_internal::HookProvider;
using hooks_internal::HookScope;

class ForwardHooks : public HookProvider, public SharedInterception {
 public:
  explicit ForwardHooks(std::shared_ptr<Frame> frame) : frame_(std::move(frame)) {}
  std::unique_ptr<hooks_internal::SavedVariableHooks> make_hooks() override {
    if (OperatorInterceptor* const outer = InterceptionScope::current(); outer != nullptr) {
      outer->settle();  // before LibTorch notes the version of what it saves
    }
    return frame_->make_slot();
  }
  bool recomputes() const override { return true; }
  bool may_copy() const override { return frame_->is_in_hooks(); }

 private:
  std::shared_ptr<Frame> frame_;
};

class FunctionHooks final : public ForwardHooks, public InputGroup::Count {
 public:
  using ForwardHooks::ForwardHooks;
};

std::shared_ptr<ForwardHooks> make_hooks(const std::shared_ptr<Frame>& frame, ReplayMode replay) {
  if (replay == ReplayMode::kTape) {
    return std::make_shared<ForwardHooks>(frame);
  }
  return std::make_shared<FunctionHooks>(frame);
}

void check_options(const CheckpointOptions& options) {
  const bool has_fn = static_cast<bool>(options.determinism_fn);
  if ((options.determinism_check == DeterminismCheck::kCallback) != has_fn) {
    throw std::invalid_argument(
        has_fn ? "[checkpoint] determinism_fn is set, but determinism_check is not kCallback, so "
                 "it would never be called"
               : "[checkpoint] determinism_check is kCallback, but determinism_fn is empty");
  }
  if (options.prefetch_depth < 0) {
    throw std::invalid_argument("[checkpoint] prefetch_depth is negative: " +
                                std::to_string(options.prefetch_depth));
  }
  if (options.min_input_bytes < 0) {
    throw std::invalid_argument("[checkpoint] min_input_bytes is negative: " +
                                std::to_string(options.min_input_bytes));
  }
  if (options.copied_state_limit_bytes < 0) {
    throw std::invalid_argument("[checkpoint] copied_state_limit_bytes is negative: " +
                                std::to_string(options.copied_state_limit_bytes));
  }
}

std::string name_or_number(std::string name) {
  static std::atomic<std::int64_t> next{0};
  return name.empty() ? "region #" + std::to_string(next.fetch_add(1)) : std::move(name);
}

std::vector<at::Device> devices_of(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Device> devices;
  for (const at::Tensor& tensor : tensors) {
    if (tensor.defined() && !tensor.is_cpu() &&
        std::find(devices.begin(), devices.end(), tensor.device()) == devices.end()) {
      devices.push_back(tensor.device());
    }
  }
  return devices;
}

// Returns whether the innermost hooks belong to an enclosing region.
bool is_nested() {
  const HookProvider* const around = hooks_internal::innermost_provider();
  return around != nullptr && around->recomputes();
}

// Returns whether hooks of the user's see what autograd saves.
bool is_in_hooks() {
  const bool has_own = hooks_internal::has_open_provider() &&
                       hooks_internal::find_open_provider(&HookProvider::may_copy) != nullptr;
  return has_own || !at::SavedTensorDefaultHooks::get_tls_state().stack.empty();
}

// For results that a policy saves, hooks of an enclosing region are not used: their number depends
// on their other owners when the region ends, and a replay of the enclosing region must save as
// many tensors as forward. Inputs do go there.
bool keeps_through_hooks(const CheckpointOptions& options) {
  return options.respect_saved_tensors_hooks && !is_nested();
}

// Within a replay of an enclosing region no result is retained.
bool asks_policy(const CheckpointOptions& options) { return options.policy && !is_recomputing(); }

// A region inside a replay compares no contents: the policy of the enclosing region may skip
// operators whose results are not needed. The region that forward made compares the tensors that
// matter.
DeterminismCheck check_for(const CheckpointOptions& options) {
  const DeterminismCheck check = options.determinism_check;
  const bool has_contents =
      check == DeterminismCheck::kValues || check == DeterminismCheck::kCallback;
  return has_contents && is_recomputing() ? DeterminismCheck::kMetadata : check;
}

RegionRecord make_record(const CheckpointOptions& options) {
  RegionRecord record;
  record.name = name_or_number(options.name);
  record.early_stop = effective_early_stop(options.early_stop);
  record.allow_external_mutation = options.allow_external_mutation;
  record.statistics = is_in_hooks() ? std::make_unique<SavedStatistics>() : nullptr;
  record.copied_state_limit_bytes = options.copied_state_limit_bytes;
  record.check = check_for(options);
  record.describe = options.determinism_fn;
  record.input_store = options.input_store;
  record.prefetch_depth = options.prefetch_depth;
  record.synchronizes = options.synchronize_boundary;
  record.stats = stats_for(record.name);
  if (record.stats) {
    record.stats->runs.fetch_add(1);
  }
  if (options.policy && record.stats) {
    record.stats->set_policy(options.policy.get());
  }
  if (effective_debug(options.debug)) {
    record.operators = std::make_unique<OperatorLog>();
  }
  record.state.ambient = AmbientState::capture();
  record.state.streams = RegionStreams::capture(record.state.ambient);
  return record;
}

// The only function that knows all forms of recomputation.
std::unique_ptr<Recomputation> make_recomputation(RegionRecord& record, const RegionEntry& entry,
                                                  std::unique_ptr<RegionCode> code,
                                                  const std::vector<at::Tensor>& tensors,
                                                  std::optional<RngSnapshot> rng) {
  if (entry.options.replay == reprise::ReplayMode::kTape) {
    return make_tape_recomputation(record, entry);
  }
  return make_function_recomputation(record, entry, std::move(code), tensors, std::move(rng));
}

}  // namespace

// Members are made in this order and destroyed in the reverse order.
class ForwardRegion::Impl {
 public:
  Impl(CheckpointOptions options, std::unique_ptr<RegionCode> code,
       std::shared_ptr<TapeRetention> retention)
      : preserves_rng_(options.preserve_rng_state) {
    RegionInputs inputs;
    if (code) {
      code->take_inputs(inputs);
    }
    RegionContexts contexts = options.context_fn ? options.context_fn() : RegionContexts{};
    std::optional<RngSnapshot> rng =
        RngSnapshot::capture(devices_of(inputs.tensors), inputs.generators);
    const std::shared_ptr<Policy> policy =
        asks_policy(options) ? options.policy.get() : std::shared_ptr<Policy>();
    frame_ = std::make_shared<Frame>(make_record(options));
    RegionRecord& record = frame_->record_of_forward();
    record.state.recompute_context = std::move(contexts.recompute);
    if (!preserves_rng_) {
      unpreserved_rng_.swap(rng);
    }
    const RegionEntry entry{.options = options,
                            .asks_policy = asks_policy(options),
                            .is_nested = is_nested(),
                            .through_hooks = keeps_through_hooks(options),
                            .retention = std::move(retention)};
    frame_->set_recomputation(
        make_recomputation(record, entry, std::move(code), inputs.tensors, std::move(rng)));
    OperatorLog* const log = record.operators.get();
    const std::shared_ptr<GroupState> group = GroupState::entered();
    if (group && !is_recomputing()) {
      group->add_forward(frame_);
    }
    synchronizes_ = record.synchronizes;
    wait_at_boundary(synchronizes_);
    range_.emplace("reprise::forward", frame_->name());
    if (record.stats) {
      start_ = std::chrono::steady_clock::now();
    }
    context_.emplace(std::move(contexts.forward));
    if (log != nullptr) {
      logging_.emplace(*log);
    }
    const std::shared_ptr<ForwardHooks> hooks = make_hooks(frame_, options.replay);
    hooks_.emplace(hooks);
    recording_ = frame_->recomputation().begin_forward(policy_of_region(policy),
                                                       RegionScope::innermost_policy_region());
    scope_.emplace(frame_->name(), recording_->policy_region());
    shared_.emplace(*hooks);
  }

  RegionScope& scope() { return *scope_; }
  const std::shared_ptr<Frame>& frame() const { return frame_; }

  void refuse_replays() {
    frame_->refuse_replays(c10::str(
        "[checkpoint] region ", scope_->why_not(),
        ". Regions and scopes end on their thread, in the reverse order of their beginning; what "
        "this one has saved cannot be recomputed"));
  }

  void finish() {
    shared_.reset();
    scope_.reset();
    recording_->stop();
    hooks_.reset();
    logging_.reset();
    context_.reset();
    const bool may_pack = std::uncaught_exceptions() == exceptions_at_start_;
    if (may_pack) {
      wait_at_boundary(synchronizes_);
    }
    range_.reset();
    if (const auto& stats = frame_->record_of_forward().stats) {
      stats->forward_nanoseconds.fetch_add(
          std::chrono::nanoseconds(std::chrono::steady_clock::now() - start_).count());
    }
    const bool has_slots = frame_->complete_forward(may_pack);
    if (!preserves_rng_ && has_slots) {
      unpreserved_rng_->complete();
      if (unpreserved_rng_->drew_random_numbers()) {
        TORCH_WARN_ONCE(
            "reprise: region '", frame_->name(),
            "' drew random numbers, but preserve_rng_state is off: its recomputation draws others, "
            "and the gradients do not belong to the forward pass. Further regions are not named");
      }
    }
    if (PolicyRegion* const policy_region = recording_->policy_region();
        may_pack && policy_region != nullptr) {
      policy_region->rethrow_failure();
    }
  }

 private:
  static std::shared_ptr<Policy> policy_of_region(const std::shared_ptr<Policy>& policy) {
    if (policy) {
      const hooks_internal::UnseenScope unseen;
      if (auto of_region = policy->begin_region()) {
        return of_region;
      }
    }
    return policy;
  }

  const bool preserves_rng_;
  const int exceptions_at_start_ = std::uncaught_exceptions();
  bool synchronizes_ = false;
  std::chrono::steady_clock::time_point start_;
  std::optional<RngSnapshot> unpreserved_rng_;
  std::shared_ptr<Frame> frame_;
  std::optional<ProfilerRange> range_;
  std::optional<ContextScope> context_;
  std::optional<OperatorLogGuard> logging_;
  std::optional<HookScope> hooks_;
  std::unique_ptr<ForwardRecording> recording_;
  std::optional<RegionScope> scope_;
  std::optional<SharedInterception::Scope> shared_;
};

bool ForwardRegion::prepare(const CheckpointOptions& options) {
  check_options(options);
  if (!c10::GradMode::is_enabled()) {
    if (options.context_fn) {
      options.context_fn();  // made, not entered, as torch.utils.checkpoint does
    }
    return false;
  }
  if (at::SavedTensorDefaultHooks::get_tls_state().is_tracing) {
    return false;  // a compiler records the operators; hooks are none of its business
  }
  hooks_internal::check_hooks_enabled();
  hooks_internal::ensure_engine_installed();
  return true;
}

bool ForwardRegion::prepare() { return prepare(CheckpointOptions{}); }

ForwardRegion::ForwardRegion(CheckpointOptions* options, std::unique_ptr<RegionCode> code)
    : ForwardRegion(options != nullptr ? std::move(*options) : CheckpointOptions{}, std::move(code),
                    nullptr) {}

ForwardRegion::ForwardRegion(CheckpointOptions options)
    : ForwardRegion(std::move(options), nullptr, nullptr) {}

ForwardRegion::ForwardRegion(CheckpointOptions options, std::shared_ptr<TapeRetention> retention)
    : ForwardRegion(std::move(options), nullptr, std::move(retention)) {}

ForwardRegion::ForwardRegion(CheckpointOptions options, std::unique_ptr<RegionCode> code,
                             std::shared_ptr<TapeRetention> retention) {
  apply_configuration(options);
  impl_ = std::make_shared<Impl>(std::move(options), std::move(code), std::move(retention));
}

std::weak_ptr<Frame> ForwardRegion::frame() const { return impl_->frame(); }

ForwardRegion::~ForwardRegion() {
  if (impl_ == nullptr || abandon_unless_innermost()) {
    return;
  }
  try {  // forward has failed: what it has recorded must not own the graph that owns the frame
    impl_->finish();
  } catch (...) {  // the failure matters more
  }
  impl_.reset();
  RegionScope::end_abandoned();
}

void ForwardRegion::finish() {
  if (abandon_unless_innermost()) {
    return;
  }
  const std::shared_ptr<Impl> ended = std::move(impl_);
  const absl::Cleanup of_others = [] { RegionScope::end_abandoned(); };
  ended->finish();
}

bool ForwardRegion::abandon_unless_innermost() noexcept {
  if (impl_->scope().may_end()) {
    return false;
  }
  impl_->refuse_replays();
  RegionScope& scope = impl_->scope();
  scope.abandon(std::move(impl_));
  return true;
}

}  // namespace reprise::engine_internal
