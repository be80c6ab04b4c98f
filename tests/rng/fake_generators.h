// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: fake_generators.h
//
// Generators whose every call can be counted or made to fail, and an accelerator (PrivateUse1) that
// hands them out as its default generators and comes into use when a test says so.
//
// Thread-safety: none; for the test's own thread.
#ifndef REPRISE_TESTS_RNG_FAKE_GENERATORS_H_
#define REPRISE_TESTS_RNG_FAKE_GENERATORS_H_

#include <torch/torch.h>

#include <array>
#include <functional>
#include <set>
#include <stdexcept>
#include <vector>

#include "reprise/rng/rng_state.h"

namespace reprise::testing {

// How often each function of a fake generator was called.
struct GeneratorCalls {
  int set_seed = 0;
  int set_offset = 0;
  int set_state = 0;
  int get_state = 0;
};

// Keeps its state as seed and offset, as a CUDA generator does.
class FakePhilox : public c10::GeneratorImpl {
 public:
  explicit FakePhilox(at::Device device = at::Device(at::kPrivateUse1, 0));

  void draw() { offset_ += 4; }

  void set_current_seed(uint64_t seed) override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override { return seed_; }
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

  mutable GeneratorCalls calls;
  // Run, if set, before anything else; throw from it.
  std::function<void()> on_get_offset;
  std::function<void()> on_set_offset;

 private:
  FakePhilox* clone_impl() const override { return new FakePhilox(device()); }

  uint64_t seed_ = 7;
  uint64_t offset_ = 0;
};

// Has no offset, and hands out the very tensor that it goes on changing.
class FakeTensorGenerator : public c10::GeneratorImpl {
 public:
  explicit FakeTensorGenerator(at::Device device = at::Device(at::kPrivateUse1, 0));

  void draw() { state_.add_(1); }
  const at::Tensor& state() const { return state_; }
  void set_state_tensor(at::Tensor state) { state_ = std::move(state); }

  void set_current_seed(uint64_t seed) override { state_.fill_(static_cast<int64_t>(seed)); }
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  uint64_t current_seed() const override { return 0; }
  uint64_t seed() override { return 0; }
  void set_state(const c10::TensorImpl& new_state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

 private:
  FakeTensorGenerator* clone_impl() const override { return new FakeTensorGenerator(device()); }

  at::Tensor state_;
};

// The process's PrivateUse1 backend, registered at the first use. Its current device is 0 unless a
// device guard changes it.
class FakeAccelerator {
 public:
  static FakeAccelerator& instance();

  // No device in use, fresh Philox generators.
  void reset();
  void set_default_generator(c10::DeviceIndex index, at::Generator generator);
  void bring_into_use(c10::DeviceIndex index) { in_use_.insert(index); }
  // From now on the backend answers the question whether a device is in use by NotImplementedError.
  void stop_telling_what_is_in_use() { tells_ = false; }

  FakePhilox& philox(c10::DeviceIndex index);
  const at::Generator& default_generator(c10::DeviceIndex index) const;
  bool is_in_use(c10::DeviceIndex index) const;

 private:
  FakeAccelerator();

  std::array<at::Generator, 2> generators_;
  std::set<c10::DeviceIndex> in_use_;
  bool tells_ = true;
};

// How many states of `snapshot` belong to `generator`.
int count_states(const RngSnapshot& snapshot, const at::Generator& generator);

// The next `count` 32-bit draws.
std::vector<uint32_t> draw(at::Generator& generator, int count);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_RNG_FAKE_GENERATORS_H_
