// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/rng/generators/default_generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/detail/AcceleratorHooksInterface.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <utility>

namespace reprise::rng_internal {
namespace {

using Hooks = at::AcceleratorHooksInterface;

// Returns null if `type` has no generators: not an accelerator, or a backend without hooks.
const Hooks* find_hooks(at::DeviceType type) {
  if (!at::accelerator::isAccelerator(type)) return nullptr;
  if (type == at::kPrivateUse1 && !at::isPrivateUse1HooksRegistered()) return nullptr;
  return &at::globalContext().getAcceleratorHooksInterface(type);
}

// Returns `device` with the index of the current device if it has none.
at::Device with_index(at::Device device) {
  if (device.has_index() || !c10::impl::hasDeviceGuardImpl(device.type())) return device;
  return c10::impl::getDeviceGuardImpl(device.type())->getDevice();
}

// In a build with CUDA, on a machine without a GPU, c10 may have installed a guard that reports
// devices (for fake tensors). Hooks of other backends need not count theirs.
bool only_pretends_to_have_devices(at::DeviceType type) {
  return type == at::kCUDA &&
         at::globalContext().getAcceleratorHooksInterface(type).deviceCount() == 0;
}

}  // namespace

std::optional<at::Device> current_accelerator() {
  const std::optional<at::DeviceType> type = at::accelerator::getAccelerator();
  if (!type || !c10::impl::hasDeviceGuardImpl(*type)) return std::nullopt;
  const auto* guard = c10::impl::getDeviceGuardImpl(*type);
  if (guard->deviceCount() == 0 || only_pretends_to_have_devices(*type)) return std::nullopt;
  return guard->getDevice();
}

// The last backend that could not answer is cached, since each refusal is an exception and each
// region asks.
bool is_in_use(at::Device device) {
  static std::atomic<const Hooks*> without_answer = nullptr;
  const Hooks* hooks = find_hooks(device.type());
  if (hooks == nullptr) return false;
  if (without_answer.load(std::memory_order_relaxed) == hooks) return true;
  try {
    return hooks->hasPrimaryContext(device.index());
  } catch (const c10::NotImplementedError&) {
    without_answer.store(hooks, std::memory_order_relaxed);
    return true;
  }
}

at::Generator default_generator(at::Device device) {
  static std::atomic<const Hooks*> has_none = nullptr;
  const Hooks* hooks = find_hooks(device.type());
  if (hooks == nullptr || has_none.load(std::memory_order_relaxed) == hooks) return {};
  try {
    return hooks->getDefaultGenerator(with_index(device).index());
  } catch (const c10::NotImplementedError&) {
    has_none.store(hooks, std::memory_order_relaxed);
    return {};
  }
}

c10::SmallVector<at::Generator, 2> default_generators_here() {
  c10::SmallVector<at::Generator, 2> generators{at::detail::getDefaultCPUGenerator()};
  if (const std::optional<at::Device> device = current_accelerator()) {
    if (at::Generator generator = default_generator(*device); generator.defined()) {
      generators.push_back(std::move(generator));
    }
  }
  return generators;
}

std::vector<at::Generator> all_default_generators() {
  std::vector<at::Generator> generators{at::detail::getDefaultCPUGenerator()};
  const std::optional<at::DeviceType> type = at::accelerator::getAccelerator();
  const Hooks* hooks = type ? find_hooks(*type) : nullptr;
  const c10::DeviceIndex count = hooks == nullptr ? c10::DeviceIndex{0} : hooks->deviceCount();
  for (c10::DeviceIndex index = 0; index < count; ++index) {
    if (at::Generator generator = default_generator({*type, index}); generator.defined()) {
      generators.push_back(std::move(generator));
    }
  }
  return generators;
}

}  // namespace reprise::rng_internal
