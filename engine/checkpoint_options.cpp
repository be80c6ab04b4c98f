// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/checkpoint_options.h"

#include <array>
#include <stdexcept>
#include <utility>

#include "reprise/engine/region/settings.h"

namespace reprise {

using engine_internal::early_stop_overrides;

EarlyStopGuard::EarlyStopGuard(bool enabled) : entry_(early_stop_overrides().push(enabled)) {}
EarlyStopGuard::~EarlyStopGuard() { early_stop_overrides().end(*entry_); }

RegionContext::~RegionContext() = default;

DeterminismCheck determinism_check_from_string(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, DeterminismCheck>, 5> kNames{{
      {"default", DeterminismCheck::kMetadata},
      {"none", DeterminismCheck::kNone},
      {"metadata", DeterminismCheck::kMetadata},
      {"values", DeterminismCheck::kValues},
      {"callback", DeterminismCheck::kCallback},
  }};
  for (const auto& [known, check] : kNames) {
    if (name == known) {
      return check;
    }
  }
  throw std::invalid_argument(
      "determinism_check should be one of [default, none, metadata, values, callback] but got '" +
      std::string(name) + "'");
}

}  // namespace reprise
