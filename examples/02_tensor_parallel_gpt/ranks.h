// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: ranks.h
//
// The processes that hold a part of the model each, and the two functions that stand between what
// all of them have alike and what each has a part of.
#ifndef TENSOR_PARALLEL_GPT_RANKS_H_
#define TENSOR_PARALLEL_GPT_RANKS_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace tensor_parallel_gpt {

struct Ranks {
  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::string name;  // by which functional collectives find the group
  std::int64_t rank = 0;
  std::int64_t size = 1;
  c10::Device device = c10::kCPU;
};

// All processes of the launcher. `device`: "cpu", or "cuda" for the GPU of the local rank. Throws
// UsageError if there is no such device, or nothing to connect its ranks with.
Ranks meet(const std::string& device);

// Of x on all ranks, elementwise: "sum", "max". Not differentiable.
at::Tensor all_reduce(const at::Tensor& x, const std::string& operation, const Ranks& ranks);

// x, which all ranks have alike, for use by the ranks' parts of a layer: backward adds up what
// comes back from these.
at::Tensor copy_to_ranks(const at::Tensor& x, const Ranks& ranks);

// The sum of the ranks' x, which all of them then have alike.
at::Tensor reduce_from_ranks(const at::Tensor& x, const Ranks& ranks);

}  // namespace tensor_parallel_gpt

#endif  // TENSOR_PARALLEL_GPT_RANKS_H_
