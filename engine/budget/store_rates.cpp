// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/budget/store_rates.h"

#include <c10/util/StringUtil.h>

#include <algorithm>

namespace reprise::engine_internal {

void StoreRate::add(const StoreSample& sample) {
  bytes += sample.bytes;
  call_seconds += sample.call_seconds;
  put_seconds += sample.put_seconds;
  get_seconds += sample.get_seconds;
  needs_successor += sample.needs_successor ? 1 : 0;
  copies_on_device += sample.copies_on_device ? 1 : 0;
}

StoreRates::StoreRates(std::size_t stores, const std::vector<planner_internal::SavedSample>& saved)
    : stores_(stores) {
  for (const planner_internal::SavedSample& each : saved) {
    Known& known = kinds_[each.kind];
    known.samples = static_cast<std::size_t>(each.samples);
    known.fractions.resize(stores_);
    known.fastest.resize(stores_, {});
    known.fractions[each.store] = each.fraction;
    known.fastest[each.store] = {.bytes = each.bytes,
                                 .retained_bytes = each.retained_bytes,
                                 .call_seconds = each.call_seconds,
                                 .put_seconds = each.put_seconds,
                                 .get_seconds = each.get_seconds,
                                 .needs_successor = each.needs_successor,
                                 .copies_on_device = each.copies_on_device};
  }
}

std::vector<planner_internal::SavedSample> StoreRates::saved() const {
  std::vector<planner_internal::SavedSample> saved;
  for (const auto& [kind, known] : kinds_) {
    for (std::size_t store = 0; store < stores_; ++store) {
      const StoreSample& fastest = known.fastest[store];
      saved.push_back({.kind = kind,
                       .store = static_cast<std::int32_t>(store),
                       .samples = static_cast<std::int32_t>(known.samples),
                       .fraction = known.fractions[store],
                       .bytes = fastest.bytes,
                       .retained_bytes = fastest.retained_bytes,
                       .call_seconds = fastest.call_seconds,
                       .put_seconds = fastest.put_seconds,
                       .get_seconds = fastest.get_seconds,
                       .needs_successor = fastest.needs_successor,
                       .copies_on_device = fastest.copies_on_device});
    }
  }
  std::stable_sort(saved.begin(), saved.end(),
                   [](const auto& a, const auto& b) { return a.kind < b.kind; });
  return saved;
}

StoreRates::Kind StoreRates::kind_of(const c10::OperatorHandle& op, std::size_t result) {
  const c10::OperatorName& name = op.operator_name();
  return c10::str(name.name, ".", name.overload_name, "#", result);
}

std::size_t StoreRates::samples(const Kind& kind) const {
  const auto found = kinds_.find(kind);
  return found == kinds_.end() ? 0 : found->second.samples;
}

void StoreRates::add(const Kind& kind, const std::vector<StoreSample>& samples) {
  Known& known = kinds_[kind];
  ++known.samples;
  known.fractions.resize(stores_);
  known.fastest.resize(stores_, {});
  for (std::size_t store = 0; store < stores_; ++store) {
    const StoreSample& sample = samples[store];
    const auto fraction =
        static_cast<float>(sample.retained_bytes) / static_cast<float>(sample.bytes);
    known.fractions[store] = std::max(known.fractions[store], fraction);
    StoreSample& fastest = known.fastest[store];
    if (sample.is_smaller() &&
        (!fastest.is_smaller() || sample.seconds_per_byte() < fastest.seconds_per_byte())) {
      fastest = sample;
    }
  }
}

StoreRate StoreRates::rate(std::size_t store) const {
  StoreRate rate;
  for (const auto& [kind, known] : kinds_) {
    if (known.fastest[store].is_smaller()) {
      rate.add(known.fastest[store]);
    }
  }
  return rate;
}

std::vector<planner::StoreOption> StoreRates::options(const StepScript& script,
                                                      std::size_t values) const {
  std::vector<planner::StoreOption> options;
  if (kinds_.empty()) {
    return options;
  }
  for (std::size_t store = 0; store < stores_; ++store) {
    const StoreRate rate = this->rate(store);
    planner::StoreOption& option = options.emplace_back();
    option.name = c10::str("store ", store);
    option.put_seconds_per_byte = rate.seconds(rate.put_seconds);
    option.get_seconds_per_byte = rate.seconds(rate.get_seconds);
    option.is_overlapped = rate.is_overlapped();
    option.smallest_bytes = kLeastStoredBytes;
    option.retained_fractions.assign(values, 1.0F);
  }
  for (const StepScript::Call& call : script.calls) {
    for (std::uint32_t i = call.first_value; i < call.end_value; ++i) {
      const planner::ValueId value = script.values[i].id;
      const auto known = kinds_.find(kind_of(call.op, i - call.first_value));
      for (std::size_t store = 0;
           value != planner::kNone && known != kinds_.end() && store < options.size(); ++store) {
        options[store].retained_fractions[value] = known->second.fractions[store];
      }
    }
  }
  return options;
}

}  // namespace reprise::engine_internal
