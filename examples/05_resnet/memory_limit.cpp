// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "memory_limit.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>

#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/memory_budget.h"
#include "trainer.h"

namespace resnet {
namespace {

class LimitGuard {
 public:
  explicit LimitGuard(std::int64_t limit_bytes) { reprise::set_cpu_memory_limit(limit_bytes); }
  ~LimitGuard() { reprise::set_cpu_memory_limit(std::nullopt); }
  LimitGuard(const LimitGuard&) = delete;
  LimitGuard& operator=(const LimitGuard&) = delete;
};

bool is_step_possible(Trainer& trainer, std::int64_t batch, reprise::MemoryBudget* budget) {
  try {
    trainer.try_step(batch, budget);
    return true;
  } catch (const c10::OutOfMemoryError&) {
    // Of a backward that has failed, LibTorch's engine holds parts until the next one.
    torch::zeros({1}, torch::requires_grad()).sum().backward();
    return false;
  }
}

bool fits(const Options& options, const ImageSet& images, StepKind kind, std::int64_t limit_bytes,
          std::int64_t batch) {
  const LimitGuard limit(limit_bytes);
  Trainer trainer(options, images);
  if (kind == StepKind::kBudgeted) {
    reprise::MemoryBudget budget({.peak_bytes = limit_bytes});
    // The first step has no plan yet, and may fail where the second one fits.
    return is_step_possible(trainer, batch, &budget) || is_step_possible(trainer, batch, &budget);
  }
  if (kind == StepKind::kCheckpointed) {
    trainer.checkpoint_blocks();
  }
  return is_step_possible(trainer, batch, nullptr);
}

}  // namespace

std::int64_t find_largest_batch(const Options& options, const ImageSet& images, StepKind kind,
                                std::int64_t limit_bytes) {
  const std::int64_t unit = std::max<std::int64_t>(1, options.batch / 8);
  const auto is_possible = [&](std::int64_t units) {
    return fits(options, images, kind, limit_bytes, units * unit);
  };
  std::int64_t possible = 0;
  std::int64_t impossible = images.size() / unit + 1;
  while (impossible - possible > 1) {
    // Doubles at first: trials far beyond the limit are slow to find that out.
    const std::int64_t doubled = possible == 0 ? options.batch / unit : 2 * possible;
    const std::int64_t units =
        doubled < impossible ? doubled : possible + (impossible - possible) / 2;
    (is_possible(units) ? possible : impossible) = units;
  }
  return possible * unit;
}

}  // namespace resnet
