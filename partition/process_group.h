// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: process_group.h
//
// Creates a c10d::ProcessGroup of all ranks that a launcher has started: torchrun --no-python,
// mpirun, srun. Uses Gloo for CPU tensors and NCCL for CUDA tensors, if Reprise was built with them
// (REPRISE_WITH_GLOO, REPRISE_WITH_NCCL). Not in the umbrella header, because it includes c10d's.
//
// Not for programs that have a group already: Reprise accepts any.
//
// Example:
//
//   const auto group = reprise::init_process_group_from_env();
//   const auto store = reprise::stores::partitioned(group);
//
// Thread-safety: to be called by one thread, on all ranks.
#ifndef REPRISE_PARTITION_PROCESS_GROUP_H_
#define REPRISE_PARTITION_PROCESS_GROUP_H_

#include <c10/util/intrusive_ptr.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "reprise/base/export.h"
#include "reprise/partition/launch_environment.h"

namespace reprise {

struct ProcessGroupOptions {
  // Timeout of the rendezvous and of each collective of the group. c10d's own default is half an
  // hour.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// Return whether the backend is available.
[[nodiscard]] REPRISE_API bool has_gloo() noexcept;
[[nodiscard]] REPRISE_API bool has_nccl() noexcept;  // false without a GPU

// Returns a group of all ranks of the environment, when all have arrived. Each rank of a machine
// should have set its own current CUDA device before (LaunchEnvironment::local_rank).
//
// Throws: std::invalid_argument for an environment without a launcher's variables;
//   c10::NotImplementedError if Reprise was built with neither Gloo nor NCCL; c10d's errors if
//   ranks do not arrive in time.
[[nodiscard]] REPRISE_API c10::intrusive_ptr<c10d::ProcessGroup> init_process_group_from_env(
    ProcessGroupOptions options = {});

// The same for an explicit environment.
[[nodiscard]] REPRISE_API c10::intrusive_ptr<c10d::ProcessGroup> init_process_group(
    const LaunchEnvironment& environment, ProcessGroupOptions options = {});

}  // namespace reprise

#endif  // REPRISE_PARTITION_PROCESS_GROUP_H_
