// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The tables that operators of a tape refer to: constants, geometries and contexts, each entered
// once however many operators use it.
#ifndef REPRISE_ENGINE_TAPE_RECORDING_TAPE_TABLES_H_
#define REPRISE_ENGINE_TAPE_RECORDING_TAPE_TABLES_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "reprise/engine/ambient/compute_modes.h"
#include "reprise/engine/operators/operator_traits.h"
#include "reprise/engine/tape/tape.h"

namespace reprise::engine_internal {

// Lives as long as forward, on its thread.
class TapeTables {
 public:
  // tape: must outlive this.
  explicit TapeTables(Tape& tape) : tape_(tape) {}

  // Each returns the number of an equal entry, which it adds if there is none.
  std::uint32_t constant(const c10::IValue& value);
  GeometryId geometry_of(const at::Tensor& tensor);
  // The state around an operator that runs now.
  std::uint32_t current_context(const OperatorTraits& traits);

 private:
  GeometryId find_geometry(Geometry geometry);
  std::uint32_t find_compute(const ComputeModes& modes);

  Tape& tape_;
  const ComputeModes compute_at_entry_ = ComputeModes::current();
  ComputeModes compute_now_ = compute_at_entry_;   // as last seen
  std::uint32_t compute_index_now_ = Tape::kNone;  // on the tape
  absl::flat_hash_map<std::size_t, GeometryId> known_geometries_;
  std::array<GeometryId, 4> recent_geometries_ = {};  // most tensors look like one of them
  std::size_t next_recent_ = 0;
  absl::flat_hash_map<std::size_t, std::uint32_t> known_constants_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_RECORDING_TAPE_TABLES_H_
