// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/rng/rng_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>

#include "reprise/rng/generators/default_generators.h"
#include "reprise/rng/tracker/state_table.h"
#include "reprise/rng/tracker/tracker_snapshot.h"

namespace reprise {
namespace {

using rng_internal::current_accelerator;
using rng_internal::default_generator;
using rng_internal::is_in_use;

// Number of restored states on this thread; tells `RngSnapshot::complete` that a generator may have
// been drawn from although its state is unchanged.
thread_local std::uint64_t t_restores = 0;

const c10::TensorImpl& check_state_tensor(const c10::intrusive_ptr<c10::TensorImpl>& state,
                                          at::Device device) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      state.defined() && state->is_cpu() && state->is_contiguous(),
      "[rng.capture] the state of a generator cannot be read; the generator on ", device,
      " gave a state tensor that is not a contiguous CPU tensor; give its class get_offset() and "
      "set_offset(), or a get_state() that returns contiguous bytes on the CPU");
  return *state;
}

std::size_t byte_count(const c10::TensorImpl& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * tensor.itemsize();
}

// A copy, because a generator may return the tensor that it continues to modify; without the
// dispatcher, so that no mode observes it.
c10::intrusive_ptr<c10::TensorImpl> copy_state_tensor(const c10::GeneratorImpl& impl) {
  const auto held = impl.get_state();
  const c10::TensorImpl& state = check_state_tensor(held, impl.device());
  const at::TensorBase copy =
      at::detail::empty_cpu(state.sizes(), c10::typeMetaToScalarType(state.dtype()));
  if (byte_count(state) > 0) std::memcpy(copy.mutable_data_ptr(), state.data(), byte_count(state));
  return copy.getIntrusivePtr();
}

bool have_equal_bytes(const c10::TensorImpl& a, const c10::TensorImpl& b) {
  const std::size_t size = byte_count(a);
  return size == byte_count(b) && (size == 0 || std::memcmp(a.data(), b.data(), size) == 0);
}

bool has_state_tensor(const c10::GeneratorImpl& impl, const c10::TensorImpl& expected) {
  const auto held = impl.get_state();
  return have_equal_bytes(check_state_tensor(held, impl.device()), expected);
}

void check_defined(const at::Generator& generator, const char* verb) {
  if (!generator.defined()) {
    throw std::invalid_argument(
        std::string("[rng.") + verb +
        "] an undefined generator has no state; received at::Generator(); pass a "
        "generator such as at::detail::getDefaultCPUGenerator()");
  }
}

bool is_mt19937(const c10::GeneratorImpl& impl) {
  // Not a subclass: it may have more state than the engine.
  return typeid(impl) == typeid(at::CPUGeneratorImpl);
}

// The engine's only member, without the 2.5 KB copy that `data()` makes.
const at::mt19937_data_pod& data_of(const at::mt19937& engine) {
  static_assert(std::is_standard_layout_v<at::mt19937> &&
                sizeof(at::mt19937) == sizeof(at::mt19937_data_pod));
  return reinterpret_cast<const at::mt19937_data_pod&>(engine);
}

at::CPUGeneratorImpl& as_mt19937(c10::GeneratorImpl& impl) {
  return static_cast<at::CPUGeneratorImpl&>(impl);
}

// Keeps one freed block per thread for the next allocation. A region that draws nothing frees its
// state when its forward ends, and malloc merges and searches its lists for blocks of this size.
template <class T>
class SpareBlockAllocator {
 public:
  using value_type = T;

  SpareBlockAllocator() = default;
  template <class Other>
  explicit SpareBlockAllocator(const SpareBlockAllocator<Other>&) {}

  T* allocate(std::size_t count) {
    if (count == 1 && spare_.block != nullptr) {
      return std::exchange(spare_.block, nullptr);
    }
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* block, std::size_t count) noexcept {
    if (count == 1 && spare_.block == nullptr && !has_ended_) {
      spare_.block = block;
    } else {
      std::allocator<T>().deallocate(block, count);
    }
  }
  friend bool operator==(const SpareBlockAllocator&, const SpareBlockAllocator&) { return true; }

 private:
  struct Spare {
    ~Spare() {
      has_ended_ = true;
      if (block != nullptr) std::allocator<T>().deallocate(block, 1);
    }
    T* block = nullptr;
  };
  static constinit inline thread_local bool has_ended_ = false;  // outlives spare_
  static inline thread_local Spare spare_;
};

}  // namespace

struct RngState::CpuEngine {
  explicit CpuEngine(at::CPUGeneratorImpl& impl)
      : engine(impl.engine()),
        next_float(impl.next_float_normal_sample()),
        next_double(impl.next_double_normal_sample()) {}

  void restore(at::CPUGeneratorImpl& impl) const {
    impl.set_engine(engine);
    impl.set_next_float_normal_sample(next_float);
    impl.set_next_double_normal_sample(next_double);
  }

  friend bool operator==(const CpuEngine& a, const CpuEngine& b) {
    const at::mt19937_data_pod& x = data_of(a.engine);
    const at::mt19937_data_pod& y = data_of(b.engine);
    return x.left_ == y.left_ && x.next_ == y.next_ && x.seed_ == y.seed_ &&
           x.seeded_ == y.seeded_ &&
           std::memcmp(x.state_.data(), y.state_.data(), sizeof(x.state_)) == 0 &&
           a.next_float == b.next_float && a.next_double == b.next_double;
  }

  at::mt19937 engine;
  std::optional<float> next_float;
  std::optional<double> next_double;
};

RngState::RngState(at::Generator generator, Value value)
    : generator_(std::move(generator)), value_(std::move(value)) {}

std::optional<RngState::Philox> RngState::read_philox(const c10::GeneratorImpl& impl) {
  try {
    const std::uint64_t offset = impl.get_offset();
    return Philox{.seed = impl.current_seed(), .offset = offset};
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

RngState::Value RngState::read(c10::GeneratorImpl& impl) {
  if (is_mt19937(impl)) {
    return std::allocate_shared<const CpuEngine>(SpareBlockAllocator<CpuEngine>(),
                                                 as_mt19937(impl));
  }
  if (const auto philox = read_philox(impl)) return *philox;
  return copy_state_tensor(impl);
}

RngState RngState::capture(const at::Generator& generator) {
  check_defined(generator, "capture");
  c10::GeneratorImpl& impl = *generator.unsafeGetGeneratorImpl();
  const std::scoped_lock lock(impl.mutex_);
  return {generator, read(impl)};
}

RngState RngState::seeded(const at::Generator& generator, std::uint64_t seed) {
  check_defined(generator, "seeded");
  at::Generator clone;
  {
    const std::scoped_lock lock(generator.unsafeGetGeneratorImpl()->mutex_);
    clone = generator.clone();
  }
  clone.set_current_seed(seed);
  return {generator, read(*clone.unsafeGetGeneratorImpl())};
}

void RngState::restore() const {
  ++t_restores;
  set_generator();
}

void RngState::set_generator() const {
  c10::GeneratorImpl& impl = *generator_.unsafeGetGeneratorImpl();
  const std::scoped_lock lock(impl.mutex_);
  if (const auto* engine = std::get_if<std::shared_ptr<const CpuEngine>>(&value_)) {
    (*engine)->restore(as_mt19937(impl));
  } else if (const auto* philox = std::get_if<Philox>(&value_)) {
    if (impl.current_seed() != philox->seed) impl.set_current_seed(philox->seed);
    impl.set_offset(philox->offset);
  } else {
    impl.set_state(*std::get<StateTensor>(value_));
  }
}

bool RngState::is_current() const {
  c10::GeneratorImpl& impl = *generator_.unsafeGetGeneratorImpl();
  const std::scoped_lock lock(impl.mutex_);
  if (const auto* engine = std::get_if<std::shared_ptr<const CpuEngine>>(&value_)) {
    return **engine == CpuEngine(as_mt19937(impl));
  }
  if (const auto* philox = std::get_if<Philox>(&value_)) {
    return impl.get_offset() == philox->offset && impl.current_seed() == philox->seed;
  }
  return has_state_tensor(impl, *std::get<StateTensor>(value_));
}

bool RngState::is_same(const RngState& other) const {
  if (generator_ != other.generator_ || value_.index() != other.value_.index()) return false;
  if (const auto* engine = std::get_if<std::shared_ptr<const CpuEngine>>(&value_)) {
    return **engine == *std::get<std::shared_ptr<const CpuEngine>>(other.value_);
  }
  if (const auto* philox = std::get_if<Philox>(&value_)) {
    return *philox == std::get<Philox>(other.value_);
  }
  return have_equal_bytes(*std::get<StateTensor>(value_), *std::get<StateTensor>(other.value_));
}

RngState RngState::start_of(const at::Generator& generator) {
  const c10::GeneratorImpl& impl = *generator.unsafeGetGeneratorImpl();
  std::optional<Philox> now;
  {
    const std::scoped_lock lock(generator.unsafeGetGeneratorImpl()->mutex_);
    if (!is_mt19937(impl)) now = read_philox(impl);
  }
  TORCH_CHECK(now.has_value(), "[rng.complete] device ", impl.device(),
              " came into use inside a region, and where "
              "its generator stood before is unknown; received a generator that gives no offset; "
              "use the device once before the region (create a tensor on it), or turn "
              "preserve_rng_state off");
  return {generator, Philox{.seed = now->seed, .offset = 0}};
}

RngSnapshot RngSnapshot::capture(std::span<const at::Device> devices,
                                 std::span<const at::Generator> extra) {
  RngSnapshot snapshot;
  snapshot.restores_before_ = t_restores;
  snapshot.tracker_uses_before_ = rng_internal::tracker_uses().uses;
  snapshot.tracker_draws_before_ = rng_internal::tracker_uses().draws;
  snapshot.trackers_ = rng_internal::TrackerSnapshot::capture();
  snapshot.add(at::detail::getDefaultCPUGenerator());
  for (const at::Device device : devices) snapshot.add_default_generator(device);
  snapshot.add_accelerator_in_use();
  for (const at::Generator& generator : extra) snapshot.add(generator);
  return snapshot;
}

void RngSnapshot::add(std::span<const RngState> first_draws) {
  for (const RngState& state : first_draws) {
    if (!contains(state.generator())) {
      states_.push_back(state);
    }
  }
}

void RngSnapshot::complete(std::span<const at::Generator> drawn) {
  if (completed_) return;
  add_accelerator_that_came_into_use();
  if (t_restores == restores_before_) {
    // partition, which swaps, leaves each state valid if a generator throws.
    const auto moved = [drawn](const RngState& state) {
      return std::find(drawn.begin(), drawn.end(), state.generator()) != drawn.end() ||
             !state.is_current();
    };
    states_.erase(std::partition(states_.begin(), states_.end(), moved), states_.end());
  }
  const rng_internal::TrackerUses& now = rng_internal::tracker_uses();
  drew_from_named_ = now.draws != tracker_draws_before_;
  trackers_ = now.uses == tracker_uses_before_
                  ? nullptr
                  : rng_internal::TrackerSnapshot::completed(trackers_.get());
  completed_ = true;
}

bool RngSnapshot::contains(const at::Generator& generator) const noexcept {
  return std::any_of(states_.begin(), states_.end(),
                     [&](const RngState& state) { return state.generator() == generator; });
}

void RngSnapshot::add(const at::Generator& generator) {
  if (!generator.defined() || contains(generator)) return;
  states_.push_back(RngState::capture(generator));
}

void RngSnapshot::add_default_generator(at::Device device) {
  if (!device.is_cpu()) add(default_generator(device));
}

void RngSnapshot::add_accelerator_in_use() {
  const std::optional<at::Device> accelerator = current_accelerator();
  if (!accelerator) return;
  accelerator_was_in_use_ = is_in_use(*accelerator);
  if (accelerator_was_in_use_) {
    add_default_generator(*accelerator);
  } else {
    idle_accelerator_ = accelerator;
  }
}

void RngSnapshot::add_accelerator_that_came_into_use() {
  if (accelerator_was_in_use_) return;
  const std::optional<at::Device> accelerator =
      idle_accelerator_ ? idle_accelerator_ : current_accelerator();
  if (!accelerator || !is_in_use(*accelerator)) return;
  const at::Generator generator = default_generator(*accelerator);
  if (!generator.defined() || contains(generator)) return;
  states_.push_back(RngState::start_of(generator));
}

}  // namespace reprise
