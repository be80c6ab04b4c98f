// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/property/kinds.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

namespace reprise::testing {
namespace {

using enum AllowedError;

constexpr std::array kRows = {
    KindRow{Kind::kMembers, "members"},
    KindRow{Kind::kAccumulated, "accumulated", kInFunctions, true},
    KindRow{Kind::kSetData, "set_data", kNone, true},
    KindRow{Kind::kDetached, "detached"},
    KindRow{Kind::kMemberSwaps, "member_swaps", kInFunctions, /*needs_check=*/true},
    KindRow{Kind::kDataSwaps, "data_swaps", kAnywhere, true},
    KindRow{Kind::kUnused, "unused"},
    KindRow{Kind::kWorkspaces, "workspaces", kNone, true},
    KindRow{Kind::kLazyState, "lazy_state", kNone, true},
    KindRow{Kind::kLazyBuffer, "lazy_buffer", kAnywhere, true},
    KindRow{Kind::kUnits, "units", kNone, true, /*has_double_backward=*/false},
    KindRow{Kind::kStreamed, "streamed", kNone, true},
    KindRow{Kind::kStreamedInTurn, "streamed_in_turn", kInFunctions, true},
    KindRow{Kind::kPointers, "pointers", kInTapes, true},
    KindRow{Kind::kOutsidePointers, "outside_pointers", kAnywhere, true},
    KindRow{Kind::kReadBack, "read_back", kInFunctions, true},
    KindRow{Kind::kLayersWithState, "layers_with_state", kNone, true},
    KindRow{Kind::kUncounted, "uncounted", kAnywhere, true},
    KindRow{Kind::kSameArgument, "same_argument"},
    KindRow{Kind::kUntaggedDraws, "untagged_draws"},
    KindRow{Kind::kOneBuffer, "one_buffer"},
    KindRow{Kind::kSavedFirst, "saved_first"},
    KindRow{Kind::kOddTensors, "odd_tensors", kNone, false, false},
    KindRow{Kind::kWrappers, "wrappers"},
    KindRow{Kind::kThreads, "threads"},
    KindRow{Kind::kForeignThreads, "foreign_threads", kAnywhere, true},
    KindRow{Kind::kTwoForwards, "two_forwards", kNone, false, true, /*is_piece=*/false},
    KindRow{Kind::kTwoSteps, "two_steps", kNone, false, true, false},
    KindRow{Kind::kUserHooks, "user_hooks", kNone, false, true, false},
};

Kind kind_named(const std::string& name) {
  const auto* const found = std::find_if(kRows.begin(), kRows.end(),
                                         [&name](const KindRow& row) { return row.name == name; });
  TORCH_CHECK(found != kRows.end(), "REPRISE_PROGRAM_KINDS: no kind is named ", name);
  return found->kind;
}

std::vector<Kind> kinds_named_in(std::string names) {
  std::vector<Kind> found;
  while (!names.empty()) {
    const std::size_t comma = std::min(names.find(','), names.size());
    found.push_back(kind_named(names.substr(0, comma)));
    names.erase(0, comma + 1);
  }
  return found;
}

const char* names_in_environment() { return std::getenv("REPRISE_PROGRAM_KINDS"); }

}  // namespace

const KindRow& row_of(Kind kind) {
  return *std::find_if(kRows.begin(), kRows.end(),
                       [kind](const KindRow& row) { return row.kind == kind; });
}

bool are_kinds_named() { return names_in_environment() != nullptr; }

const std::vector<Kind>& chosen_kinds() {
  static const std::vector<Kind> kChosen = [] {
    if (are_kinds_named()) {
      return kinds_named_in(names_in_environment());
    }
    std::vector<Kind> all;
    for (const KindRow& row : kRows) {
      all.push_back(row.kind);
    }
    return all;
  }();
  return kChosen;
}

bool is_chosen(Kind kind) {
  return std::find(chosen_kinds().begin(), chosen_kinds().end(), kind) != chosen_kinds().end();
}

}  // namespace reprise::testing
