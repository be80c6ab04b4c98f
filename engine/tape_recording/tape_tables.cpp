// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_recording/tape_tables.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"
#include "reprise/engine/tape/tape_constants.h"

namespace reprise::engine_internal {

std::uint32_t TapeTables::constant(const c10::IValue& value) {
  const auto next = static_cast<std::uint32_t>(tape_.constants.size());
  if (const auto hash = hash_of_constant(value)) {
    const auto [known, is_new] = known_constants_.try_emplace(*hash, next);
    if (!is_new && is_same_constant(tape_.constants[known->second], value)) {
      return known->second;
    }
  }
  // A list may be the caller's, who may change it.
  const bool is_shared_list = value.isList() && value.use_count() > 1;
  tape_.constants.push_back(is_shared_list ? value.deepcopy() : value);
  return next;
}

GeometryId TapeTables::geometry_of(const at::Tensor& tensor) {
  for (const GeometryId recent : recent_geometries_) {
    if (tape_.geometries.contains(recent) && tape_.geometries[recent].is_of(tensor)) {
      return recent;
    }
  }
  const GeometryId found = find_geometry(Geometry(tensor));
  recent_geometries_[next_recent_] = found;
  next_recent_ = (next_recent_ + 1) % recent_geometries_.size();
  return found;
}

GeometryId TapeTables::find_geometry(Geometry geometry) {
  const GeometryId next = tape_.geometries.next_id();
  const auto [known, is_new] = known_geometries_.try_emplace(absl::HashOf(geometry), next);
  if (!is_new && tape_.geometries[known->second] == geometry) {
    return known->second;
  }
  tape_.geometries.push_back(std::move(geometry));
  return next;
}

std::uint32_t TapeTables::current_context(const OperatorTraits& traits) {
  if (!compute_now_.is_current(traits.is_elementwise)) {
    compute_now_ = ComputeModes::current();
    compute_index_now_ = find_compute(compute_now_);
  }
  const auto keys = c10::impl::tls_local_dispatch_key_set();
  const auto dtype = c10::get_default_dtype_as_scalartype();
  const bool is_deterministic = at::globalContext().deterministicAlgorithms();
  const bool is_grad_enabled = c10::GradMode::is_enabled();
  const auto is_current = [&](const Tape::Context& context) {
    return context.keys.included_ == keys.included_ && context.keys.excluded_ == keys.excluded_ &&
           context.default_dtype == dtype && context.is_deterministic == is_deterministic &&
           context.is_grad_enabled == is_grad_enabled && context.compute == compute_index_now_;
  };
  const auto found = std::find_if(tape_.contexts.rbegin(), tape_.contexts.rend(), is_current);
  if (found != tape_.contexts.rend()) {
    return static_cast<std::uint32_t>(tape_.contexts.rend() - found - 1);
  }
  tape_.contexts.push_back({keys, dtype, is_deterministic, is_grad_enabled, compute_index_now_});
  return static_cast<std::uint32_t>(tape_.contexts.size() - 1);
}

std::uint32_t TapeTables::find_compute(const ComputeModes& modes) {
  if (modes == compute_at_entry_) {
    return Tape::kNone;
  }
  const auto known = std::find(tape_.compute.begin(), tape_.compute.end(), modes);
  const auto index = static_cast<std::uint32_t>(known - tape_.compute.begin());
  if (known == tape_.compute.end()) {
    tape_.compute.push_back(modes);
  }
  return index;
}

}  // namespace reprise::engine_internal
