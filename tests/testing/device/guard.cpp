// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/device/guard.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/torch.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/testing/device/memory.h"
#include "tests/testing/device/streams.h"

namespace reprise::testing {
namespace {

thread_local c10::DeviceIndex device_of_thread = 0;

using Event = std::shared_ptr<Milestone>;

Event& event_of(void* event) { return *static_cast<Event*>(event); }

class Guard final : public c10::impl::DeviceGuardImplInterface {
 public:
  c10::DeviceType type() const override { return kDeviceType; }
  c10::Device exchangeDevice(c10::Device device) const override {
    return {kDeviceType, std::exchange(device_of_thread, device.index())};
  }
  c10::Device getDevice() const override { return {kDeviceType, device_of_thread}; }
  void setDevice(c10::Device device) const override { uncheckedSetDevice(device); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    device_of_thread = device.index();
  }

  c10::Stream getStream(c10::Device device) const override {
    return stream(device.index(), current_stream(device.index()));
  }
  c10::Stream getDefaultStream(c10::Device device) const override {
    return stream(device.index(), 0);
  }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool /*high*/) const override {
    return getNewStream(device, 0);
  }
  c10::Stream getNewStream(c10::Device device, int /*priority*/) const override {
    const c10::DeviceIndex index = device.has_index() ? device.index() : device_of_thread;
    return stream(index, stream_from_pool(index));
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    return stream(next.device_index(), exchange_stream(next.device_index(), next.id()));
  }
  bool queryStream(const c10::Stream& stream) const override {
    return is_reached(*testing::record(stream.device_index(), stream.id()));
  }
  void synchronizeStream(const c10::Stream& stream) const override {
    wait_for_stream(stream.device_index(), stream.id());
  }
  void synchronizeDevice(const c10::DeviceIndex device) const override { wait_for_device(device); }

  void record(void** event, const c10::Stream& stream, const c10::DeviceIndex /*device*/,
              const c10::EventFlag /*flag*/) const override {
    if (*event == nullptr) {
      *event = new Event;
    }
    event_of(*event) = testing::record(stream.device_index(), stream.id());
  }
  void block(void* event, const c10::Stream& stream) const override {
    if (event != nullptr) {
      enqueue_wait(stream.device_index(), stream.id(), event_of(event));
    }
  }
  bool queryEvent(void* event) const override {
    return event == nullptr || is_reached(*event_of(event));
  }
  void synchronizeEvent(void* event) const override {
    if (event != nullptr) {
      wait(*event_of(event));
    }
  }
  double elapsedTime(void* first, void* second, const c10::DeviceIndex /*device*/) const override {
    const std::chrono::duration<double, std::milli> elapsed =
        time_between(*event_of(first), *event_of(second));
    return elapsed.count();
  }
  void destroyEvent(void* event, const c10::DeviceIndex /*device*/) const noexcept override {
    delete static_cast<Event*>(event);
  }

  void recordDataPtrOnStream(const c10::DataPtr& data, const c10::Stream& stream) const override {
    record_use(data, stream.id());
  }

  c10::DeviceIndex deviceCount() const noexcept override { return kDeviceCount; }

 private:
  static c10::Stream stream(c10::DeviceIndex device, c10::StreamId id) {
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDeviceType, device), id);
  }
};

class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  explicit DeviceGenerator(c10::DeviceIndex device)
      : GeneratorImpl(c10::Device(kDeviceType, device),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

  void set_current_seed(std::uint64_t seed) override { state_ = {seed, 0}; }
  std::uint64_t current_seed() const override { return state_[0]; }
  std::uint64_t seed() override {
    set_current_seed(c10::detail::getNonDeterministicRandom());
    return current_seed();
  }
  void set_offset(std::uint64_t offset) override { state_[1] = offset; }
  std::uint64_t get_offset() const override { return state_[1]; }
  void set_state(const c10::TensorImpl& state) override {
    std::memcpy(state_.data(), state.data(), sizeof(state_));
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    const at::Tensor state = at::empty({static_cast<std::int64_t>(sizeof(state_))},
                                       at::TensorOptions(at::kByte).device(at::kCPU));
    std::memcpy(state.data_ptr(), state_.data(), sizeof(state_));
    return state.getIntrusivePtr();
  }

 private:
  DeviceGenerator* clone_impl() const override {
    auto* const clone = new DeviceGenerator(device().index());
    clone->state_ = state_;
    return clone;
  }

  std::array<std::uint64_t, 2> state_{c10::default_rng_seed_val, 0};  // seed and offset
};

class GeneratorWithoutOffset final : public at::CPUGeneratorImpl {
 public:
  GeneratorWithoutOffset(c10::DeviceIndex device, std::uint64_t seed) : CPUGeneratorImpl(seed) {
    device_ = c10::Device(kDeviceType, device);
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
};

class Hooks final : public at::PrivateUse1HooksInterface {
 public:
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex device) const override { return is_device_awake(device); }
  c10::DeviceIndex deviceCount() const override { return kDeviceCount; }
  c10::DeviceIndex getCurrentDevice() const override { return device_of_thread; }
  void setCurrentDevice(c10::DeviceIndex device) const override { device_of_thread = device; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return std::exchange(device_of_thread, device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<DeviceGenerator>(device < 0 ? device_of_thread : device);
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  at::Device getDeviceFromPtr(void* /*data*/) const override {
    return {kDeviceType, device_of_thread};
  }
};

}  // namespace

c10::DeviceIndex current_device() { return device_of_thread; }

const at::Generator& default_generator(c10::DeviceIndex device) {
  static auto& generators =
      *new std::vector<at::Generator>{at::make_generator<DeviceGenerator>(c10::DeviceIndex{0}),
                                      at::make_generator<DeviceGenerator>(c10::DeviceIndex{1})};
  return generators.at(static_cast<std::size_t>(device < 0 ? device_of_thread : device));
}

at::Generator generator_without_offset(c10::DeviceIndex device, std::uint64_t seed) {
  return at::make_generator<GeneratorWithoutOffset>(device, seed);
}

void draw_from(const at::Generator& generator, const std::function<void(at::Generator&)>& draw) {
  constexpr std::uint64_t kSpread = 0x9E3779B97F4A7C15;
  constexpr std::uint64_t kStep = 4;
  auto& impl = *generator.unsafeGetGeneratorImpl();
  const std::lock_guard lock(impl.mutex_);
  auto* const counted = dynamic_cast<DeviceGenerator*>(&impl);
  at::Generator cpu = at::detail::createCPUGenerator();
  if (counted != nullptr) {
    cpu.set_current_seed(counted->current_seed() + kSpread * counted->get_offset());
  } else {
    cpu.set_state(generator.get_state());
  }
  draw(cpu);
  if (counted != nullptr) {
    counted->set_offset(counted->get_offset() + kStep);
  } else {
    impl.set_state(*cpu.get_state().unsafeGetTensorImpl());
  }
}

void register_device() {
  static const bool kOnce = [] {
    c10::register_privateuse1_backend("testdevice");
    static Guard guard;
    static c10::impl::DeviceGuardImplRegistrar registrar(kDeviceType, &guard);
    c10::SetAllocator(kDeviceType, device_allocator());
    at::RegisterPrivateUse1HooksInterface(new Hooks);
    return true;
  }();
  static_cast<void>(kOnce);
}

}  // namespace reprise::testing
