// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Programs made up from a seed: operators of most kinds and pieces with a state, in regions of a
// setting, with one backward or several; and a run of one, plain or not.
#ifndef REPRISE_TESTS_PROPERTY_OPERATOR_PROGRAM_H_
#define REPRISE_TESTS_PROPERTY_OPERATOR_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "reprise/engine/memory_budget.h"
#include "tests/property/kinds.h"
#include "tests/property/late_write.h"
#include "tests/property/operator_families.h"
#include "tests/property/piece.h"
#include "tests/property/random_setting.h"

namespace reprise::testing {

enum class Backward : std::uint8_t {
  kOnce,
  kTwice,
  kCreateGraph,
  kOnAnotherThread,
  kOneLeafAtATime,
  kInAGroup,
  kAfterTwoForwards,
  kNever,
  // With Kind::kTwoForwards and Kind::kTwoSteps only.
  kOfTwoForwards,
  kOfTheFirstFirst,
};

// What a program works on, made anew for each run.
struct World {
  World(std::uint64_t seed, std::vector<std::shared_ptr<Piece>> its_pieces)
      : around(seed), pieces(std::move(its_pieces)) {}

  std::vector<at::Tensor> leaves() const;
  std::vector<at::Tensor> kept() const;

  Surroundings around;
  std::vector<std::shared_ptr<Piece>> pieces;
};

class OperatorProgram {
 public:
  // Of operators alone if `kinds` is empty.
  OperatorProgram(std::uint64_t seed, const std::vector<Kind>& kinds);

  // Regions inside are of the setting's inner form; none for a plain run. round: which forward.
  at::Tensor run(World& world, const at::Tensor& x, const Setting* setting,
                 std::size_t round) const;

  World world(std::uint64_t seed, bool is_plain) const;
  // Leaves out checks that the program cannot have.
  void restrict_checks(CheckpointOptions& options) const;

  // One that the program can have.
  Backward random_backward(std::mt19937_64& random) const;
  // Its graph holds itself until a backward frees it: an error in between leaves it behind.
  bool must_be_freed() const { return has(&Family::must_be_freed); }
  // setting: null for none. A step within a budget is a tape.
  bool may_end_in_error(const Setting* setting, bool has_budget = false) const;
  std::string words() const;

  // Of forward, in the setting, and of the whole of it with its user's hooks.
  at::Tensor forward(World& world, const at::Tensor& x, const Setting* setting,
                     std::size_t round) const;

 private:
  struct Step {
    bool is_piece;
    std::size_t index;
  };

  bool has(bool Family::*property, bool value = true) const;
  bool has_double_backward() const;
  bool has_piece(Kind kind) const;
  at::Tensor run_steps(World& world, at::Tensor x, std::size_t from, std::size_t to,
                       std::size_t round) const;

  std::vector<Step> steps_;
  std::vector<std::pair<Kind, std::uint64_t>> pieces_;  // and their seeds
  std::size_t inner_;
  std::optional<LateWrite> late_write_;
  bool has_user_hooks_ = false;
};

struct Found {
  std::vector<at::Tensor> tensors;  // results, gradients, what is kept, generators' states
  std::string error;
  bool is_checkpoint_error = false;
  bool is_refused = false;  // by the budget
  // CPU bytes: before the run's own tensors were made, before its step, and at its step's peak.
  std::int64_t entry_bytes = 0;
  std::int64_t start_bytes = 0;
  std::int64_t peak_bytes = 0;  // if there is no error
  // The most CPU bytes in use by an allocation of the step's own thread, forwards and between, or
  // of a thread that runs a backward. Others are not refused (a store's threads, those of a
  // program, the step's own after the first backward): see Note [A limit belongs to its step].
  std::int64_t held_bytes = 0;
};

// budget: null for none; with one, each forward is a scope of it.
Found outcome(std::uint64_t seed, const OperatorProgram& program, Backward kind,
              const Setting* setting, MemoryBudget* budget = nullptr);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PROPERTY_OPERATOR_PROGRAM_H_
