// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The ambient state of forward that a replay restores, apart from random numbers: autocast, the
// default dtype, deterministic mode, the current devices, and ComputeModes. LibTorch propagates
// none of it to the threads of a backward as it was in forward.
#ifndef REPRISE_ENGINE_AMBIENT_AMBIENT_STATE_H_
#define REPRISE_ENGINE_AMBIENT_AMBIENT_STATE_H_

#include <c10/core/Device.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "reprise/engine/ambient/compute_modes.h"

namespace reprise::engine_internal {

// A small value. Thread-compatible.
class AmbientState {
 public:
  // Returns the state of the calling thread, and of the process for default dtype, deterministic
  // mode and MathModes. Does not initialise an idle device, which is omitted.
  static AmbientState capture();

  [[nodiscard]] bool is_autocast_enabled() const noexcept { return autocast_enabled_ != 0; }

  // The accelerator that was in use, if any: a process has at most one.
  [[nodiscard]] std::optional<c10::DeviceType> accelerator() const noexcept;

  friend bool operator==(const AmbientState&, const AmbientState&) = default;

 private:
  friend class AmbientStateGuard;

  static constexpr std::size_t kMaxAutocastDevices = 16;
  static constexpr std::size_t kAccelerators = 6;

  void apply_over(const AmbientState& present) const;
  void apply_autocast_over(const AmbientState& present) const;
  void apply_devices_over(const AmbientState& present) const;

  // Bit and element i belong to element i of at::autocast::_AUTOCAST_SUPPORTED_DEVICES. The dtype
  // is recorded for a device that is off as well: the region's own code may turn it on. Byte, which
  // autocast cannot have, marks a device that this process does not support.
  std::uint16_t autocast_enabled_ = 0;
  std::array<at::ScalarType, kMaxAutocastDevices> autocast_dtypes_{};
  // -1: not in use.
  std::array<c10::DeviceIndex, kAccelerators> devices_{};
  at::ScalarType default_dtype_ = at::ScalarType::Float;
  bool autocast_cache_enabled_ = true;
  bool deterministic_ = false;
  bool deterministic_warn_only_ = false;
  ComputeModes compute_;
};

// Sets the thread to `state`, with grad mode on and inference mode off; the destructor restores the
// previous state. Values that agree already are not written. Default dtype, deterministic mode and
// MathModes belong to the process: other threads see them changed meanwhile.
//
// Autocast's cache of weight casts is empty when the body starts, and entries of the body are
// dropped after it (clear_autocast_cache_if_enabled).
class [[nodiscard]] AmbientStateGuard {
 public:
  // Whether the body may change the state, which must then be queried again after it.
  enum class Body : std::uint8_t { kMayChange, kRestores };

  explicit AmbientStateGuard(const AmbientState& state, Body body = Body::kMayChange);
  ~AmbientStateGuard();
  AmbientStateGuard(const AmbientStateGuard&) = delete;
  AmbientStateGuard& operator=(const AmbientStateGuard&) = delete;

 private:
  const AmbientState applied_;
  const Body body_;
  const AmbientState found_;
  const bool found_grad_mode_;
  // Destroyed last: it restores the dispatch keys, including autocast's.
  std::optional<c10::InferenceMode> no_inference_;
};

// Empties autocast's cache of weight casts if autocast is on for any device and uses the cache. A
// cast saves no tensor, so a replay may run casts that forward found in the cache; but other code
// must not find casts of the temporary graph. The cache belongs to the process: a replay costs
// other code under autocast its cached casts, never its correctness. Forward uses the cache
// unchanged, because two uses of a weight that share a cast add their gradients in the lower
// precision, as without a region. The nesting count is unchanged.
void clear_autocast_cache_if_enabled();

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_AMBIENT_AMBIENT_STATE_H_
