// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// What random programs mix in besides operators: code that keeps things, memory that is used again,
// layers with state, and so on. A failing program's message names its kinds;
// REPRISE_PROGRAM_KINDS=members,workspaces runs these alone.
#ifndef REPRISE_TESTS_PROPERTY_KINDS_H_
#define REPRISE_TESTS_PROPERTY_KINDS_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace reprise::testing {

enum class Kind : std::uint8_t {
  // Pieces, see piece.h.
  kMembers,
  kAccumulated,
  kSetData,
  kDetached,
  kMemberSwaps,
  kDataSwaps,
  kUnused,
  kWorkspaces,
  kLazyState,
  kLazyBuffer,
  kUnits,
  kStreamed,
  kStreamedInTurn,
  kPointers,
  kOutsidePointers,
  kReadBack,
  kLayersWithState,
  kUncounted,
  kSameArgument,
  kUntaggedDraws,
  kOneBuffer,
  kSavedFirst,
  kOddTensors,
  kWrappers,
  kThreads,
  kForeignThreads,
  // Settings of a whole program.
  kTwoForwards,
  kTwoSteps,
  kUserHooks,
};

// Where an error that names the cause is as right as plain's bits.
enum class AllowedError : std::uint8_t { kNone, kInFunctions, kInTapes, kAnywhere };

struct KindRow {
  Kind kind;
  std::string_view name;
  AllowedError allowed_error = AllowedError::kNone;
  // Without a check or a watch, a function region is wrong, as documented.
  bool needs_check = false;
  bool has_double_backward = true;
  bool is_piece = true;
};

const KindRow& row_of(Kind kind);

// Those of REPRISE_PROGRAM_KINDS; otherwise all.
const std::vector<Kind>& chosen_kinds();
// By that variable.
bool are_kinds_named();
bool is_chosen(Kind kind);

}  // namespace reprise::testing

#endif  // REPRISE_TESTS_PROPERTY_KINDS_H_
