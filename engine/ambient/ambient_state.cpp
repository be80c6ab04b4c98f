// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/ambient/ambient_state.h"

#include <ATen/Context.h>
#include <ATen/autocast_mode.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/DefaultDtype.h>
#include <c10/core/GradMode.h>
#include <c10/core/ScalarTypeToTypeMeta.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <exception>
#include <tuple>
#include <type_traits>

namespace reprise::engine_internal {
namespace {

using AutocastDevices = std::remove_cvref_t<decltype(at::autocast::_AUTOCAST_SUPPORTED_DEVICES)>;
constexpr std::size_t kAutocastDevices = std::tuple_size_v<AutocastDevices>;

constexpr std::array kAcceleratorTypes{c10::DeviceType::CUDA, c10::DeviceType::XPU,
                                       c10::DeviceType::MTIA, c10::DeviceType::HPU,
                                       c10::DeviceType::MPS,  c10::DeviceType::PrivateUse1};

// The value of a value-initialised element of autocast_dtypes_.
constexpr at::ScalarType kUnsupported{};

c10::DeviceType autocast_device(std::size_t i) {
  return at::autocast::_AUTOCAST_SUPPORTED_DEVICES.at(i);
}

// Autocast is on for a device if its dispatch key is not excluded.
bool any_autocast_key_active() {
  const auto excluded = c10::impl::tls_local_dispatch_key_set().excluded_;
  return !(c10::autocast_dispatch_keyset - excluded).empty();
}

bool is_supported(c10::DeviceType type) {
  return type == c10::DeviceType::CPU || c10::impl::hasDeviceGuardImpl(type);
}

bool has_any_context(const at::AcceleratorHooksInterface& hooks) {
  const c10::DeviceIndex count = hooks.deviceCount();
  for (c10::DeviceIndex i = 0; i < count; ++i) {
    if (hooks.hasPrimaryContext(i)) {
      return true;
    }
  }
  return false;
}

// The allocator of a device with statistics, or null. The cast is remembered: regions ask for it at
// each entry.
c10::DeviceAllocator* device_allocator(c10::DeviceType type) {
  struct Cast {
    c10::Allocator* from = nullptr;
    c10::DeviceAllocator* to = nullptr;
  };
  static constinit thread_local std::array<Cast, 2> t_casts = {};
  Cast& cast = t_casts.at(type == c10::DeviceType::CUDA ? 0 : 1);
  if (c10::Allocator* const allocator = c10::GetAllocator(type); allocator != cast.from) {
    cast = {allocator, dynamic_cast<c10::DeviceAllocator*>(allocator)};
  }
  return cast.to;
}

// Asking the driver for its current device could initialise it, and a process with an initialised
// driver cannot fork. An initialised allocator implies the same without asking.
bool is_in_use(c10::DeviceType type) {
  if (type == c10::DeviceType::PrivateUse1 && !at::isPrivateUse1HooksRegistered()) {
    return true;
  }
  if (type == c10::DeviceType::CUDA || type == c10::DeviceType::XPU) {
    if (c10::DeviceAllocator* const allocator = device_allocator(type)) {
      return allocator->initialized();
    }
  }
  return has_any_context(at::globalContext().getAcceleratorHooksInterface(type));
}

// Returns -1 if not in use. A failed driver reports its error at every query; the affected operator
// reports it better, and the guard's destructor must not.
c10::DeviceIndex current_device(c10::DeviceType type) noexcept {
  const auto* guard = c10::impl::device_guard_impl_registry[static_cast<std::size_t>(type)].load();
  if (guard == nullptr) {
    return -1;
  }
  try {
    return is_in_use(type) ? guard->getDevice().index() : c10::DeviceIndex{-1};
  } catch (const std::exception&) {
    return -1;
  }
}

}  // namespace

AmbientState AmbientState::capture() {
  static_assert(kAutocastDevices <= kMaxAutocastDevices);
  static_assert(kAcceleratorTypes.size() == kAccelerators);
  AmbientState state;
  const bool any_autocast = any_autocast_key_active();
  for (std::size_t i = 0; i < kAutocastDevices; ++i) {
    const c10::DeviceType device = autocast_device(i);
    if (is_supported(device)) {
      state.autocast_dtypes_.at(i) = at::autocast::get_autocast_dtype(device);
      const bool enabled = any_autocast && at::autocast::is_autocast_enabled(device);
      state.autocast_enabled_ |= static_cast<std::uint16_t>(enabled ? 1U << i : 0U);
    }
  }
  state.autocast_cache_enabled_ = at::autocast::is_autocast_cache_enabled();
  for (std::size_t i = 0; i < kAccelerators; ++i) {
    state.devices_.at(i) = current_device(kAcceleratorTypes.at(i));
  }
  state.default_dtype_ = c10::get_default_dtype_as_scalartype();
  state.deterministic_ = at::globalContext().deterministicAlgorithms();
  state.deterministic_warn_only_ = at::globalContext().deterministicAlgorithmsWarnOnly();
  state.compute_ = ComputeModes::current();
  return state;
}

std::optional<c10::DeviceType> AmbientState::accelerator() const noexcept {
  for (std::size_t i = 0; i < kAccelerators; ++i) {
    if (devices_.at(i) >= 0) {
      return kAcceleratorTypes.at(i);
    }
  }
  return std::nullopt;
}

void AmbientState::apply_autocast_over(const AmbientState& present) const {
  for (std::size_t i = 0; i < kAutocastDevices; ++i) {
    const at::ScalarType dtype = autocast_dtypes_.at(i);
    if (dtype == kUnsupported) {
      continue;
    }
    const auto bit = static_cast<std::uint16_t>(1U << i);
    if (((autocast_enabled_ ^ present.autocast_enabled_) & bit) != 0) {
      at::autocast::set_autocast_enabled(autocast_device(i), (autocast_enabled_ & bit) != 0);
    }
    if (dtype != present.autocast_dtypes_.at(i)) {
      at::autocast::set_autocast_dtype(autocast_device(i), dtype);
    }
  }
  if (autocast_cache_enabled_ != present.autocast_cache_enabled_) {
    at::autocast::set_autocast_cache_enabled(autocast_cache_enabled_);
  }
}

void AmbientState::apply_devices_over(const AmbientState& present) const {
  for (std::size_t i = 0; i < kAccelerators; ++i) {
    const c10::DeviceIndex wanted = devices_.at(i);
    if (wanted >= 0 && wanted != present.devices_.at(i)) {
      const c10::DeviceType type = kAcceleratorTypes.at(i);
      c10::impl::getDeviceGuardImpl(type)->uncheckedSetDevice(c10::Device(type, wanted));
    }
  }
}

void AmbientState::apply_over(const AmbientState& present) const {
  if (*this == present) {
    return;
  }
  apply_autocast_over(present);
  apply_devices_over(present);
  if (default_dtype_ != present.default_dtype_) {
    c10::set_default_dtype(c10::scalarTypeToTypeMeta(default_dtype_));
  }
  if (deterministic_ != present.deterministic_ ||
      deterministic_warn_only_ != present.deterministic_warn_only_) {
    at::globalContext().setDeterministicAlgorithms(deterministic_, deterministic_warn_only_);
  }
  compute_.apply_over(present.compute_);
}

AmbientStateGuard::AmbientStateGuard(const AmbientState& state, Body body)
    : applied_(state),
      body_(body),
      found_(AmbientState::capture()),
      found_grad_mode_(c10::GradMode::is_enabled()) {
  if (c10::InferenceMode::is_enabled()) {
    no_inference_.emplace(false);
  }
  c10::GradMode::set_enabled(true);
  applied_.apply_over(found_);
  clear_autocast_cache_if_enabled();
}

AmbientStateGuard::~AmbientStateGuard() {
  // A body that changes the state may have thrown before it restored its changes.
  const AmbientState left = body_ == Body::kMayChange ? AmbientState::capture() : applied_;
  if (applied_.is_autocast_enabled() || left.is_autocast_enabled()) {
    if (applied_.autocast_cache_enabled_ || left.autocast_cache_enabled_) {
      at::autocast::clear_cache();
    }
  }
  found_.apply_over(left);
  c10::GradMode::set_enabled(found_grad_mode_);
}

void clear_autocast_cache_if_enabled() {
  if (any_autocast_key_active() && at::autocast::is_autocast_cache_enabled()) {
    at::autocast::clear_cache();
  }
}

}  // namespace reprise::engine_internal
