// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What a replay finds around it as forward did, random numbers apart: autocast, the default dtype,
// deterministic mode, the current devices, and how operators compute (ComputeModes). None of it is
// carried to the threads of a backward by LibTorch as it was in forward.
#ifndef REPRISE_ENGINE_AMBIENT_AMBIENT_STATE_H_
#define REPRISE_ENGINE_AMBIENT_AMBIENT_STATE_H_

#include <c10/core/Device.h>
#include <c10/core/InferenceMode.h>
#include <c10/core/ScalarType.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "reprise/base/export.h"
#include "reprise/engine/ambient/compute_modes.h"

namespace reprise::engine_internal {

// A small value. Thread-compatible.
class REPRISE_API AmbientState {
 public:
  // Of the calling thread, and of the process for default dtype, deterministic mode and MathModes.
  // Wakes no device: one that the process has not used yet is left out.
  static AmbientState capture();

  [[nodiscard]] bool is_autocast_enabled() const noexcept { return autocast_enabled_ != 0; }

  // One that was in use, if any was: a process has no more than one.
  [[nodiscard]] std::optional<c10::DeviceType> accelerator() const noexcept;

  friend bool operator==(const AmbientState&, const AmbientState&) = default;

 private:
  friend class AmbientStateGuard;

  static constexpr std::size_t kMaxAutocastDevices = 16;
  static constexpr std::size_t kAccelerators = 6;

  void apply_over(const AmbientState& present) const;
  void apply_autocast_over(const AmbientState& present) const;
  void apply_devices_over(const AmbientState& present) const;

  // Bit and element i stand for element i of at::autocast::_AUTOCAST_SUPPORTED_DEVICES. The dtype
  // is kept for a device that is off as well: the region's own code may turn it on. Byte, which
  // autocast cannot have, stands for a device that this process has no support for.
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

// While alive, the thread is as `state` says, with grad mode on and inference mode off; the
// destructor puts back what the constructor found. What agrees already is not written. Default
// dtype, deterministic mode and MathModes are the process's: other threads see them changed for
// that long.
//
// The cache of autocast's weight casts is cold when the body starts, and what the body put there is
// dropped after it (clear_autocast_cache_if_enabled).
class [[nodiscard]] REPRISE_API AmbientStateGuard {
 public:
  explicit AmbientStateGuard(const AmbientState& state);
  ~AmbientStateGuard();
  AmbientStateGuard(const AmbientStateGuard&) = delete;
  AmbientStateGuard& operator=(const AmbientStateGuard&) = delete;

 private:
  const AmbientState applied_;
  const AmbientState found_;
  const bool found_grad_mode_;
  // Destroyed last: it puts back the dispatch keys that it found, autocast's among them.
  std::optional<c10::InferenceMode> no_inference_;
};

// Empties autocast's cache of weight casts if autocast is on for any device and uses the cache. A
// cast saves no tensor, so it does not matter to a replay that forward may have found casts there
// which the replay runs; but casts of the temporary graph must not be found by others. The cache is
// one for the process: a replay costs other code under autocast its cached casts, never its
// correctness. Forward leaves the cache alone, because two uses of a weight that share a cast add
// their gradients in the lower precision, as they do without a region. Nesting is not touched.
REPRISE_API void clear_autocast_cache_if_enabled();

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_AMBIENT_AMBIENT_STATE_H_
