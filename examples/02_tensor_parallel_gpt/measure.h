// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: measure.h
//
// Runs the variants from the same start on all ranks, and compares their memory, times, losses and
// gradients.
#ifndef TENSOR_PARALLEL_GPT_MEASURE_H_
#define TENSOR_PARALLEL_GPT_MEASURE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "options.h"
#include "ranks.h"
#include "trainer.h"
#include "variants.h"

namespace tensor_parallel_gpt {

// Of one variant on all ranks: of bytes and times the most.
struct Measurement {
  std::string variant;
  StepBytes bytes;     // of a step
  double step_ms = 0;  // median of whole steps, the optimiser's part included

  // On any rank, from `none`, bit by bit: the gradients of all parameters in the first and in the
  // last measured step, and the losses of all of them. False if `none` is not among the variants.
  bool gradients_differ = false;
  bool losses_differ = false;

  // With partitioning: by how much, in parts of it, the bytes of region inputs are off an n-th of
  // what they are with `checkpoint`. With host() they may be less.
  double share_error = 0;
};

// To be called on all ranks, which all get the same.
std::vector<Measurement> measure(const Options& options, const std::string& text,
                                 const Ranks& ranks, const std::vector<Variant>& variants);

void print_table(const std::vector<Measurement>& measurements, std::int64_t ranks,
                 std::ostream& out);

// A line for each thing that is wrong: gradients or losses that differ from `none`, and a rank
// that does not keep an n-th of the region inputs, within one in a hundred.
std::vector<std::string> failures(const std::vector<Measurement>& measurements, std::int64_t ranks);

}  // namespace tensor_parallel_gpt

#endif  // TENSOR_PARALLEL_GPT_MEASURE_H_
