// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/rng/fake_generators.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/FakeGuardImpl.h>

#include <algorithm>
#include <utility>

namespace reprise::testing {
namespace {

// The fake accelerator's answers to LibTorch.
struct FakeHooks : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 2; }
  bool hasPrimaryContext(c10::DeviceIndex index) const override {
    return FakeAccelerator::instance().is_in_use(index);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    return FakeAccelerator::instance().default_generator(index);
  }
};

}  // namespace

FakePhilox::FakePhilox(at::Device device)
    : c10::GeneratorImpl(device, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)) {}

void FakePhilox::set_current_seed(uint64_t seed) {
  ++calls.set_seed;
  seed_ = seed;
  offset_ = 0;
}

void FakePhilox::set_offset(uint64_t offset) {
  if (on_set_offset) on_set_offset();
  ++calls.set_offset;
  offset_ = offset;
}

uint64_t FakePhilox::get_offset() const {
  if (on_get_offset) on_get_offset();
  return offset_;
}

void FakePhilox::set_state(const c10::TensorImpl& new_state) {
  ++calls.set_state;
  const auto* words = static_cast<const int64_t*>(new_state.data());
  seed_ = static_cast<uint64_t>(words[0]);
  offset_ = static_cast<uint64_t>(words[1]);
}

c10::intrusive_ptr<c10::TensorImpl> FakePhilox::get_state() const {
  ++calls.get_state;
  const auto seed = static_cast<int64_t>(seed_);
  const auto offset = static_cast<int64_t>(offset_);
  return torch::tensor({seed, offset}, at::kLong).getIntrusivePtr();
}

FakeTensorGenerator::FakeTensorGenerator(at::Device device)
    : c10::GeneratorImpl(device, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      state_(torch::zeros({24}, at::kByte)) {}

void FakeTensorGenerator::set_offset(uint64_t /*offset*/) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "no offset");
}

uint64_t FakeTensorGenerator::get_offset() const {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "no offset");
}

void FakeTensorGenerator::set_state(const c10::TensorImpl& new_state) {
  const auto* bytes = static_cast<const uint8_t*>(new_state.data());
  std::copy_n(bytes, new_state.numel(), state_.data_ptr<uint8_t>());
}

c10::intrusive_ptr<c10::TensorImpl> FakeTensorGenerator::get_state() const {
  return state_.getIntrusivePtr();
}

FakeAccelerator& FakeAccelerator::instance() {
  static FakeAccelerator accelerator;
  return accelerator;
}

FakeAccelerator::FakeAccelerator() {
  static FakeHooks hooks;
  static const c10::impl::FakeGuardImpl<at::kPrivateUse1> guard;
  static const c10::impl::DeviceGuardImplRegistrar registrar(at::kPrivateUse1, &guard);
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::register_privateuse1_backend("fakeaccelerator");
  reset();
}

void FakeAccelerator::reset() {
  in_use_.clear();
  for (c10::DeviceIndex index = 0; index < 2; ++index) {
    set_default_generator(index,
                          at::make_generator<FakePhilox>(at::Device(at::kPrivateUse1, index)));
  }
}

void FakeAccelerator::set_default_generator(c10::DeviceIndex index, at::Generator generator) {
  generators_.at(static_cast<std::size_t>(index)) = std::move(generator);
}

FakePhilox& FakeAccelerator::philox(c10::DeviceIndex index) {
  return *default_generator(index).get<FakePhilox>();
}

const at::Generator& FakeAccelerator::default_generator(c10::DeviceIndex index) const {
  return generators_.at(static_cast<std::size_t>(index));
}

bool FakeAccelerator::is_in_use(c10::DeviceIndex index) const {
  TORCH_CHECK_NOT_IMPLEMENTED(tells_, "cannot tell");
  return in_use_.count(index) > 0;
}

int count_states(const RngSnapshot& snapshot, const at::Generator& generator) {
  const auto states = snapshot.states();
  return static_cast<int>(std::count_if(states.begin(), states.end(), [&](const RngState& state) {
    return state.generator() == generator;
  }));
}

std::vector<uint32_t> draw(at::Generator& generator, int count) {
  std::vector<uint32_t> drawn(static_cast<std::size_t>(count));
  auto* impl = at::check_generator<at::CPUGeneratorImpl>(generator);
  const std::scoped_lock lock(generator.mutex());
  std::generate(drawn.begin(), drawn.end(), [impl] { return impl->random(); });
  return drawn;
}

}  // namespace reprise::testing
