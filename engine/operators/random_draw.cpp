// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/random_draw.h"

#include <ATen/CPUGeneratorImpl.h>
#include <c10/util/StringUtil.h>

#include <mutex>

#include "absl/hash/hash.h"

namespace reprise::engine_internal {

// The words of the CPU's engine all change at once, when they have been used up.
std::uint64_t position_of(const at::Generator& generator) {
  c10::GeneratorImpl& impl = *generator.unsafeGetGeneratorImpl();
  const std::scoped_lock lock(impl.mutex_);
  if (generator.device().is_cpu()) {
    auto* const cpu = dynamic_cast<at::CPUGeneratorImpl*>(&impl);
    if (cpu == nullptr) {
      return 0;
    }
    const at::mt19937_data_pod data = cpu->engine().data();
    return absl::HashOf(data.left_, data.next_, data.state_[0], data.state_[1],
                        cpu->next_float_normal_sample(), cpu->next_double_normal_sample());
  }
  if (!generator.device().is_cuda() && !generator.device().is_xpu()) {
    return 0;
  }
  try {
    return absl::HashOf(impl.current_seed(), impl.get_offset());
  } catch (const c10::Error&) {  // while a graph is captured
    return 0;
  }
}

RandomDraw DrawRecorder::begin(const at::Generator& generator) {
  const bool stands_there = last_ && last_->generator() == generator && last_->is_current();
  return {stands_there ? *last_ : RngState::capture(generator), std::nullopt};
}

void DrawRecorder::end(RandomDraw& draw) {
  last_ = RngState::capture(draw.before.generator());
  draw.after = last_;
}

std::string describe_shared_draw(const at::Generator& generator) {
  return c10::str("draws other numbers from the generator of ", generator.device(),
                  " than in forward: another thread has drawn from that generator while the region "
                  "ran, or while it is recomputed. Give each thread a generator of its own");
}

}  // namespace reprise::engine_internal
