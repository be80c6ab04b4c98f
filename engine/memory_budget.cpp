// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/memory_budget.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "reprise/engine/allocation/memory_source.h"
#include "reprise/engine/budget/backward_nodes.h"
#include "reprise/engine/budget/budget_state.h"
#include "reprise/engine/budget/budget_step.h"
#include "reprise/engine/budget/memory_guard.h"
#include "reprise/engine/budget/step_limit.h"
#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/region/forward_region.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/torchscript_errors.h"
#include "reprise/planner/format/saved_plans.h"
#include "reprise/planner/format/text_file.h"

namespace reprise {

using engine_internal::BudgetAim;
using engine_internal::BudgetState;
using engine_internal::BudgetStep;
using engine_internal::DeviceShare;
using engine_internal::ForwardRegion;

namespace {

c10::Device with_index(c10::Device device) {
  if (device.is_cpu()) {
    return c10::Device(c10::kCPU);
  }
  return device.has_index() ? device : c10::impl::VirtualGuardImpl(device.type()).getDevice();
}

template <class Number>
void check_number(const char* option, const std::optional<Number>& number, bool is_right,
                  const char* rule) {
  if (number && !is_right) {
    throw std::invalid_argument(
        c10::str("[memory_budget] ", option, " is ", *number, "; it must ", rule));
  }
}

void check_numbers(const MemoryBudgetOptions& options) {
  const auto& [peak_bytes, max_overhead, fraction, reserve_bytes, device, stores, in_background] =
      options;
  if (peak_bytes.has_value() + max_overhead.has_value() + fraction.has_value() > 1) {
    throw std::invalid_argument(
        "[memory_budget] at most one of peak_bytes, max_overhead and fraction may be set");
  }
  if (reserve_bytes && (peak_bytes || max_overhead)) {
    throw std::invalid_argument(
        "[memory_budget] reserve_bytes is for a part of the memory that the device has to give: "
        "leave it out with peak_bytes or max_overhead");
  }
  check_number("peak_bytes", peak_bytes, peak_bytes > 0, "be above 0");
  check_number("max_overhead", max_overhead, max_overhead >= 0.0, "not be negative");
  check_number("fraction", fraction, fraction > 0.0 && fraction <= 1.0, "be above 0 and at most 1");
  check_number("reserve_bytes", reserve_bytes, reserve_bytes >= 0, "not be negative");
}

std::optional<DeviceShare> share_of(const MemoryBudgetOptions& options) {
  if (options.peak_bytes || options.max_overhead) {
    return std::nullopt;
  }
  return DeviceShare{.fraction = options.fraction.value_or(1),
                     .reserve_bytes = options.reserve_bytes};
}

}  // namespace

BudgetExceededError::BudgetExceededError(std::string message)
    : c10::OutOfMemoryError({__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)},
                            std::move(message)),
      passes_torchscript_(hooks_internal::pass_exceptions_through_torchscript()) {}

MemoryBudget::MemoryBudget(MemoryBudgetOptions options) {
  check_numbers(options);
  if (std::count(options.stores.begin(), options.stores.end(), nullptr) > 0) {
    throw std::invalid_argument("[memory_budget] a store is null");
  }
  const c10::Device device = with_index(options.device);
  if (device.is_cpu()) {
    install_cpu_memory_counter();
  }
  const std::int64_t bytes_in_use = engine_internal::memory_source(device).bytes_in_use();
  engine_internal::observe_backwards();
  state_ = std::make_shared<BudgetState>(
      BudgetAim{.peak_bytes = options.peak_bytes.value_or(0), .max_overhead = options.max_overhead},
      share_of(options), device, std::move(options.stores), options.plans_in_background);
  static_cast<void>(state_->limit_for(bytes_in_use));  // or it throws
}

// What its steps wait for is no longer held to it; their backwards are.
MemoryBudget::~MemoryBudget() {
  if (state_ != nullptr) {
    for (const auto& step : engine_internal::MemoryGuard::of(state_->device()).steps()) {
      if (step->is_of(*state_)) {
        step->end_wait();
      }
    }
    state_->end_keeping();
    state_->finish_planning();
  }
}

std::optional<BudgetedStep> MemoryBudget::last_step() const { return state_->last_step(); }

std::string MemoryBudget::report() const { return state_->report(); }

std::string MemoryBudget::explain(const std::string& op) const { return state_->explain(op); }

std::optional<planner::Trace> MemoryBudget::trace() const { return state_->trace(); }

std::optional<planner::StepReport> MemoryBudget::step_report() const {
  return state_->step_report();
}

void MemoryBudget::write_report(const std::string& path) const {
  const std::optional<planner::StepReport> report = step_report();
  if (!report) {
    throw std::runtime_error("[memory_budget] cannot write " + path +
                             ": no step of the budget is known yet");
  }
  planner::write_report(*report, path);
}

void MemoryBudget::save_plans(const std::string& path) const {
  const planner_internal::SavedPlans plans = state_->saved_plans();
  if (plans.steps.empty()) {
    throw std::runtime_error("[memory_budget] cannot save plans to " + path +
                             ": no step of the budget is known yet");
  }
  planner_internal::write_file(planner_internal::to_text(plans), path);
}

void MemoryBudget::load_plans(const std::string& path) {
  state_->load(planner_internal::saved_plans_from_text(planner_internal::read_file(path)));
}

BudgetScope::BudgetScope(MemoryBudget& budget) : exceptions_at_start_(std::uncaught_exceptions()) {
  // What a plan retains may change between forward and backward, and is then computed again.
  CheckpointOptions options{
      .name = "memory budget", .replay = ReplayMode::kTape, .allow_cache_entry_mutation = true};
  if (!ForwardRegion::prepare(options)) {
    return;
  }
  const hooks_internal::HookProvider* const around = hooks_internal::innermost_provider();
  if (around != nullptr && around->recomputes()) {
    throw CheckpointError(
        "[memory_budget] a BudgetScope begins inside a region or another BudgetScope. Begin it "
        "around them: the plan decides for their operators, too");
  }
  if (budget.state_->take_failure()) {
    // The tensors of that step would count against this one.
    hooks_internal::release_nodes_of_failed_backward();
  }
  step_ = std::make_shared<BudgetStep>(budget.state_);
  region_ = std::make_unique<ForwardRegion>(std::move(options), step_);
  step_->begin_forward(region_->frame());
}

BudgetScope::~BudgetScope() noexcept(false) { std::move(*this).close(); }

void BudgetScope::close() && {
  if (const auto region = std::exchange(region_, nullptr)) {
    const bool is_whole = std::uncaught_exceptions() == exceptions_at_start_;
    try {
      region->finish();
    } catch (...) {
      std::exchange(step_, nullptr)->end_forward(/*is_whole=*/false);
      throw;
    }
    std::exchange(step_, nullptr)->end_forward(is_whole);
  }
}

}  // namespace reprise
