// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Runs a piece of code as it is and as a region under policies of many kinds, and expects the same
// bits.
#ifndef REPRISE_TESTS_ENGINE_UNDER_POLICIES_H_
#define REPRISE_TESTS_ENGINE_UNDER_POLICIES_H_

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <array>

#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/testing/sanitized.h"

namespace reprise::testing {

struct OperatorCase {
  std::string name;
  std::vector<std::vector<std::int64_t>> shapes;       // of the leaves
  std::function<Tensors(const Tensors& leaves)> code;  // results without graph are compared as well
  bool saves_unset_memory = false;                     // whose values cannot be checked
};

// Autocast to bfloat16 on the CPU, if enabled. An early stop leaves it as any exception does.
class [[nodiscard]] AutocastScope {
 public:
  explicit AutocastScope(bool enabled) : found_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    at::autocast::set_autocast_enabled(at::kCPU, found_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  const bool found_;
};

// The same in a store, and with answers that leave no choice where `must`.
inline PolicyHolder by_ordinal_in(std::shared_ptr<ActivationStore> store, std::uint64_t bits,
                                  bool must) {
  return [store = std::move(store), bits, must](const PolicyContext& context) {
    const auto bit = static_cast<std::uint64_t>(context.ordinal()) % 64;
    const bool is_saved = (bits >> bit & 1U) != 0;
    if (!is_saved) {
      return PolicyAnswer(CheckpointPolicy::PREFER_RECOMPUTE);
    }
    return PolicyAnswer(must ? CheckpointPolicy::MUST_SAVE : CheckpointPolicy::PREFER_SAVE, store);
  };
}

struct NamedOptions {
  std::string name;
  CheckpointOptions options;
};

// Saves, where that can be, the operators whose ordinal has a set bit. The others are recomputed,
// with `insist` even where a write in place could be left out.
inline PolicyHolder by_ordinal(std::uint64_t bits, bool insist = false) {
  return [bits, insist](const PolicyContext& context) {
    const auto bit = static_cast<std::uint64_t>(context.ordinal()) % 64;
    const auto recompute =
        insist ? CheckpointPolicy::MUST_RECOMPUTE : CheckpointPolicy::PREFER_RECOMPUTE;
    return (bits >> bit & 1U) != 0 ? CheckpointPolicy::PREFER_SAVE : recompute;
  };
}

inline constexpr std::array<std::uint64_t, 4> kBitPatterns = {
    0x5555555555555555U, 0xaaaaaaaaaaaaaaaaU, 0x3333333333333333U, 0xf0f0f0f0f0f0f0f0U};

// One that shares the memory of the results.
inline PolicyHolder in_a_store() {
  return policies::keep_in(stores::device(), policies::save_everything());
}

inline PolicyHolder in_a_store_that_packs() {
  return policies::keep_in(stores::packed({.min_bytes = 0, .find_constants = true}),
                           policies::save_everything());
}

// With a tape instead of a function.
inline void add_tapes(std::vector<NamedOptions>& all) {
  const auto add = [&all](std::string name, CheckpointOptions options) {
    options.replay = ReplayMode::kTape;
    all.push_back({"tape, " + std::move(name), std::move(options)});
  };
  add("no policy", {});
  add("no policy, filled at once", {.early_stop = false});
  add("no policy, values checked", {.determinism_check = DeterminismCheck::kValues});
  add("everything", {.policy = policies::save_everything()});
  add("everything offloaded", {.policy = policies::offload(policies::save_everything())});
  add("everything in a store", {.policy = in_a_store()});
  add("everything in a store that packs", {.policy = in_a_store_that_packs()});
  for (const std::uint64_t bits : kBitPatterns) {
    add(c10::str("bits ", bits), {.policy = by_ordinal(bits)});
    add(c10::str("bits ", bits, ", insisting"),
        {.policy = by_ordinal(bits, true), .allow_cache_entry_mutation = true});
  }
}

inline constexpr auto kSingledOut = cases<std::uint64_t>(12, 2);

// None, all, and matmuls; each of the first operators alone; all but one of them; and patterns.
inline std::vector<NamedOptions> options_of_many_kinds() {
  std::vector<NamedOptions> all = {
      {"nothing", {.policy = policies::save_nothing()}},
      {"nothing, values checked",
       {.policy = policies::save_nothing(), .determinism_check = DeterminismCheck::kValues}},
      {"everything", {.policy = policies::save_everything()}},
      {"everything, values checked",
       {.policy = policies::save_everything(), .determinism_check = DeterminismCheck::kValues}},
      {"matmuls", {.policy = policies::save_matmuls()}},
      {"everything offloaded", {.policy = policies::offload(policies::save_everything())}},
      {"everything in a store", {.policy = in_a_store()}},
      {"everything in a store that packs", {.policy = in_a_store_that_packs()}}};
  const auto add = [&all](std::uint64_t bits) {
    const std::string name = c10::str("bits ", bits);
    all.push_back({name, {.policy = by_ordinal(bits)}});
    all.push_back({name + ", insisting",
                   {.policy = by_ordinal(bits, true), .allow_cache_entry_mutation = true}});
  };
  for (std::uint64_t ordinal = 0; ordinal < kSingledOut; ++ordinal) {
    add(std::uint64_t{1} << ordinal);
    add(~(std::uint64_t{1} << ordinal));
  }
  for (const std::uint64_t bits : kBitPatterns) {
    add(bits);
  }
  add_tapes(all);
  return all;
}

class UnderPolicies : public ConformanceTest {
 protected:
  // The tensors are too small for several threads, which would wait for each other on a busy
  // machine.
  UnderPolicies() { at::set_num_threads(1); }
  ~UnderPolicies() override { at::set_num_threads(threads_); }

  struct Outcome {
    Tensors outputs;
    Tensors gradients;
    at::Tensor generator_after_forward;
    at::Tensor generator_after_backward;
  };

  // Of a function of the outputs that gives each element a weight of its own.
  Tensors weighted_gradients(const Tensors& outputs, const Tensors& leaves, bool retain) {
    Tensors roots;
    Tensors weights;
    for (const at::Tensor& output : outputs) {
      if (output.requires_grad()) {
        roots.push_back(watch(output));
        weights.push_back(
            at::linspace(1, 2, output.numel(), output.options()).reshape(output.sizes()));
      }
    }
    return torch::autograd::grad(roots, leaves, weights, retain, false, /*allow_unused=*/true);
  }

  template <class Run>
  Outcome outcome_of(const OperatorCase& tested, bool twice, const Run& run) {
    torch::manual_seed(3);
    Tensors leaves;
    for (const auto& shape : tested.shapes) {
      leaves.push_back(leaf(shape));
    }
    torch::manual_seed(17);
    const Tensors outputs = run(tested.code, leaves);
    Outcome found;
    found.generator_after_forward = cpu_generator_state();
    if (twice) {
      weighted_gradients(outputs, leaves, /*retain=*/true);
    }
    found.gradients = weighted_gradients(outputs, leaves, /*retain=*/false);
    found.generator_after_backward = cpu_generator_state();
    for (const at::Tensor& output : outputs) {
      found.outputs.push_back(output.detach());
    }
    return found;
  }

  void expect_as_plain(const OperatorCase& tested, const CheckpointOptions& options,
                       const Outcome& expected) {
    const std::int64_t bytes = live_cpu_bytes();
    for (const bool twice : {false, true}) {
      SCOPED_TRACE(twice ? "two backwards" : "one backward");
      try {
        const Outcome got = outcome_of(tested, twice, InRegion{options});
        expect_same_bits(got.outputs, expected.outputs);
        expect_same_bits(got.gradients, expected.gradients);
        EXPECT_TRUE(bitwise_equal(got.generator_after_forward, expected.generator_after_forward));
        EXPECT_TRUE(bitwise_equal(got.generator_after_backward, expected.generator_after_backward));
      } catch (const c10::Error& error) {
        ADD_FAILURE() << error.what_without_backtrace();
      }
      EXPECT_EQ(live_frames(), 0);
      EXPECT_EQ(nodes_alive(), 0U);  // also lets go of watched nodes, and they of their tensors
      EXPECT_EQ(live_cpu_bytes(), bytes);
    }
  }

  void expect_as_plain(const OperatorCase& tested) {
    outcome_of(tested, false, Plain{});  // fills what LibTorch caches at first use
    const Outcome expected = outcome_of(tested, false, Plain{});
    for (const NamedOptions& named : options_of_many_kinds()) {
      SCOPED_TRACE(c10::str(tested.name, " under ", named.name));
      if (tested.saves_unset_memory &&
          named.options.determinism_check == DeterminismCheck::kValues) {
        continue;
      }
      expect_as_plain(tested, named.options, expected);
    }
  }

  void expect_as_plain(const std::vector<OperatorCase>& cases) {
    for (const OperatorCase& tested : cases) {
      expect_as_plain(tested);
    }
  }

 private:
  const int threads_ = at::get_num_threads();
};

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_ENGINE_UNDER_POLICIES_H_
