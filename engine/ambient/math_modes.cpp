// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Note [Private members]: at::Context does not expose all of its state. Its table of precisions
// returns inherited values, and the older precision settings throw if the table has been set
// otherwise. Twenty calls per operator, to check for changes, are too expensive as well. An
// explicit instantiation of a template may name private members: state without getters is read and
// set there. The flags are adjacent; the words of memory that they occupy show whether one has
// changed. A test changes each of them.
#include "reprise/engine/ambient/math_modes.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace reprise::engine_internal {
namespace {

template <class Tag, auto kMember>
struct Opened {
  friend auto& member_of(at::Context& context, Tag) { return context.*kMember; }
};

struct FirstFlag {};
struct LastFlag {};
struct MatmulPrecision {};
struct Tf32InCudnn {};
struct PrecisionTable {};
auto& member_of(at::Context& context, FirstFlag);
auto& member_of(at::Context& context, LastFlag);
auto& member_of(at::Context& context, MatmulPrecision);
auto& member_of(at::Context& context, Tf32InCudnn);
auto& member_of(at::Context& context, PrecisionTable);
template struct Opened<FirstFlag, &at::Context::enabled_cudnn>;
template struct Opened<LastFlag, &at::Context::allow_fp16_reduction_cpu>;
template struct Opened<MatmulPrecision, &at::Context::float32_matmul_precision>;
template struct Opened<Tf32InCudnn, &at::Context::allow_tf32_cudnn>;
template struct Opened<PrecisionTable, &at::Context::fp32_precision>;

struct Flag {
  bool (at::Context::*get)() const;
  void (at::Context::*set)(bool);
};

// The flags that not all versions have.
template <class Context>
void add_newer_flags(std::vector<Flag>& flags) {
  if constexpr (requires { &Context::userEnabledFA3SDP; }) {
    flags.push_back({&Context::userEnabledFA3SDP, &Context::setSDPUseFA3});
  }
  if constexpr (requires { &Context::userEnabledFA4SDP; }) {
    flags.push_back({&Context::userEnabledFA4SDP, &Context::setSDPUseFA4});
  }
}

const std::vector<Flag>& flags() {
  static const std::vector<Flag> kFlags = [] {
    using C = at::Context;
    std::vector<Flag> flags = {
        {&C::userEnabledCuDNN, &C::setUserEnabledCuDNN},
        {&C::benchmarkCuDNN, &C::setBenchmarkCuDNN},
        {&C::deterministicCuDNN, &C::setDeterministicCuDNN},
        {&C::immediateMiopen, &C::setImmediateMiopen},
        {&C::userEnabledMkldnn, &C::setUserEnabledMkldnn},
        {&C::deterministicMkldnn, &C::setDeterministicMkldnn},
        {&C::allowTF32OneDNN, &C::setAllowTF32OneDNN},
        {&C::userEnabledNNPACK, &C::setUserEnabledNNPACK},
        {&C::userEnabledFlashSDP, &C::setSDPUseFlash},
        {&C::userEnabledMemEfficientSDP, &C::setSDPUseMemEfficient},
        {&C::userEnabledMathSDP, &C::setSDPUseMath},
        {&C::userEnabledCuDNNSDP, &C::setSDPUseCuDNN},
        {&C::userEnabledOverrideableSDP, &C::setSDPUseOverrideable},
        {&C::allowFP16BF16ReductionMathSDP, &C::setAllowFP16BF16ReductionMathSDP},
        {&C::allowFP16AccumulationCuBLAS, &C::setAllowFP16AccumulationCuBLAS},
        {&C::allowFP16ReductionCPU, &C::setAllowFP16ReductionCPU},
        {&C::deterministicFillUninitializedMemory, &C::setDeterministicFillUninitializedMemory}};
    add_newer_flags<C>(flags);
    return flags;
  }();
  return kFlags;
}

// Up to 2.9 a flag; later 0 allows reduced precision, 1 does not, 2 also forbids splitting.
template <class Setter>
void set_reduction(at::Context& context, std::uint8_t value, Setter set) {
  if constexpr (std::is_invocable_v<Setter, at::Context&, bool, bool>) {
    (context.*set)(value == 0, value < 2);
  } else {
    (context.*set)(value != 0);
  }
}

// Unused from 2.10 on.
[[maybe_unused]] const std::array<std::string, 5>& precision_names() {
  static const std::array<std::string, 5> kNames = {"none", "ieee", "tf32", "bf16", "default"};
  return kNames;
}

// Up to 2.9 precisions are names.
template <class Precision>
std::uint8_t code_of(const Precision& precision) {
  if constexpr (std::is_enum_v<Precision>) {
    return static_cast<std::uint8_t>(precision);
  } else {
    const auto& names = precision_names();
    return static_cast<std::uint8_t>(std::find(names.begin(), names.end(), precision) -
                                     names.begin());
  }
}

template <class Precision>
void set_code(Precision& precision, std::uint8_t code) {
  if constexpr (std::is_enum_v<Precision>) {
    precision = static_cast<Precision>(code);
  } else {
    precision = precision_names().at(code);
  }
}

// The entries of the table, in a fixed order: the map receives no further keys.
template <class Table>
auto entries_of(Table& table) {
  if constexpr (requires { table.begin()->second.begin(); }) {
    std::vector<decltype(&table.begin()->second.begin()->second)> entries;
    for (auto& [backend, operators] : table) {
      for (auto& [op, precision] : operators) {
        entries.push_back(&precision);
      }
    }
    return entries;
  } else {
    std::vector<decltype(&table.begin()->second)> entries;
    for (auto& [key, precision] : table) {
      entries.push_back(&precision);
    }
    return entries;
  }
}

const auto& precisions() {
  static const auto kEntries = entries_of(member_of(at::globalContext(), PrecisionTable()));
  return kEntries;
}

// The memory of all flags, in whole words: the bytes after the last one belong to the context as
// well.
struct FlagWords {
  const std::byte* first;
  std::size_t count;

  std::uint64_t word(std::size_t i) const {
    std::uint64_t value = 0;
    std::memcpy(&value, first + i * sizeof(value), sizeof(value));
    return value;
  }
};

FlagWords find_flag_words() {
  at::Context& context = at::globalContext();
  const auto* const first = reinterpret_cast<const std::byte*>(&member_of(context, FirstFlag()));
  auto& last = member_of(context, LastFlag());
  const auto* const end = reinterpret_cast<const std::byte*>(&last) + sizeof(last);
  const std::size_t count = (static_cast<std::size_t>(end - first) + 7) / sizeof(std::uint64_t);
  const auto* const end_of_context = reinterpret_cast<const std::byte*>(&context + 1);
  TORCH_INTERNAL_ASSERT(first < end && first + count * sizeof(std::uint64_t) <= end_of_context);
  return {first, count};
}

const FlagWords& flag_words() {
  static const FlagWords kWords = find_flag_words();
  return kWords;
}

}  // namespace

bool MathModes::is_current() const {
  const FlagWords& now = flag_words();
  std::uint64_t difference = 0;
  for (std::size_t i = 0; i < now.count; ++i) {
    difference |= now.word(i) ^ words_[i];
  }
  const std::uint8_t* code = values_.precisions.data();
  for (const auto* const precision : precisions()) {
    difference |= static_cast<std::uint64_t>(code_of(*precision) ^ *code++);
  }
  return difference == 0;
}

const MathModes::Ptr& MathModes::current() {
  thread_local Ptr t_known;
  if (!t_known || !t_known->is_current()) {
    t_known = std::make_shared<const MathModes>(read());
  }
  return t_known;
}

MathModes MathModes::read() {
  at::Context& context = at::globalContext();
  MathModes modes;
  for (std::size_t i = 0; i < flags().size(); ++i) {
    modes.values_.flags |= static_cast<std::uint32_t>((context.*flags()[i].get)()) << i;
  }
  modes.values_.attention_order = context.sDPPriorityOrder();
  modes.values_.half_reduction = static_cast<std::uint8_t>(context.allowFP16ReductionCuBLAS());
  modes.values_.bfloat16_reduction = static_cast<std::uint8_t>(context.allowBF16ReductionCuBLAS());
  modes.values_.linalg = context.linalgPreferredBackend();
  modes.values_.blas = context.blasPreferredBackend();
  modes.values_.matmul_precision = member_of(context, MatmulPrecision());
  modes.values_.allows_tf32_in_cudnn = member_of(context, Tf32InCudnn());
  for (const auto* const precision : precisions()) {
    modes.values_.precisions.push_back(code_of(*precision));
  }
  // Last: a getter may determine a setting that was undetermined before.
  for (std::size_t i = 0; i < flag_words().count; ++i) {
    modes.words_.push_back(flag_words().word(i));
  }
  return modes;
}

void MathModes::apply_over(const MathModes& present) const {
  at::Context& context = at::globalContext();
  const Values& here = values_;
  const Values& there = present.values_;
  for (std::size_t i = 0; i < flags().size(); ++i) {
    const std::uint32_t bit = 1U << i;
    if (((here.flags ^ there.flags) & bit) != 0) {
      (context.*flags()[i].set)((here.flags & bit) != 0);
    }
  }
  if (here.attention_order != there.attention_order) {
    std::vector<std::int64_t> order;
    for (const at::SDPBackend backend : here.attention_order) {
      order.push_back(static_cast<std::int64_t>(backend));
    }
    context.setSDPPriorityOrder(order);
  }
  if (here.half_reduction != there.half_reduction) {
    set_reduction(context, here.half_reduction, &at::Context::setAllowFP16ReductionCuBLAS);
  }
  if (here.bfloat16_reduction != there.bfloat16_reduction) {
    set_reduction(context, here.bfloat16_reduction, &at::Context::setAllowBF16ReductionCuBLAS);
  }
  if (here.linalg != there.linalg) {
    context.setLinalgPreferredBackend(here.linalg);
  }
  if (here.blas != there.blas) {
    context.setBlasPreferredBackend(here.blas);
  }
  member_of(context, MatmulPrecision()) = here.matmul_precision;
  member_of(context, Tf32InCudnn()) = here.allows_tf32_in_cudnn;
  for (std::size_t i = 0; i < here.precisions.size(); ++i) {
    if (here.precisions[i] != code_of(*precisions()[i])) {
      set_code(*precisions()[i], here.precisions[i]);
    }
  }
}

}  // namespace reprise::engine_internal
