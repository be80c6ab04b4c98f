// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: process_group.h
//
// A c10d::ProcessGroup of all ranks that a launcher has started: torchrun --no-python, mpirun,
// srun. Over Gloo for tensors of the CPU and NCCL for those of CUDA, as far as Reprise was built
// with them (REPRISE_WITH_GLOO, REPRISE_WITH_NCCL). Stands outside of the umbrella header, because
// it includes c10d's.
//
// Not needed where a group is there already: Reprise takes any.
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
  // How long the ranks may take to come, and any collective of the group. c10d's own default is
  // half an hour.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// Whether groups can be made over these.
[[nodiscard]] REPRISE_API bool has_gloo() noexcept;
[[nodiscard]] REPRISE_API bool has_nccl() noexcept;  // false as well where there is no GPU

// All ranks of the environment. Returns when all have come. The current CUDA device should have
// been set before, to one of its own for each rank of a machine (LaunchEnvironment::local_rank).
// Throws std::invalid_argument for an environment that says nothing, c10::NotImplementedError if
// Reprise was built with neither Gloo nor NCCL, c10d's errors if ranks do not come in time.
[[nodiscard]] REPRISE_API c10::intrusive_ptr<c10d::ProcessGroup> init_process_group_from_env(
    const ProcessGroupOptions& options = {});

// The same of an environment of the caller's making.
[[nodiscard]] REPRISE_API c10::intrusive_ptr<c10d::ProcessGroup> init_process_group(
    const LaunchEnvironment& environment, const ProcessGroupOptions& options = {});

}  // namespace reprise

#endif  // REPRISE_PARTITION_PROCESS_GROUP_H_
