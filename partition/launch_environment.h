// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: launch_environment.h
//
// The environment set by a launcher (torchrun, mpirun, srun): the rank of this process, the number
// of ranks, and their rendezvous address. Used by `init_process_group_from_env()`.
//
// Not for groups that are formed otherwise: Reprise accepts any c10d::ProcessGroup.
//
// Example:
//
//   const auto environment = reprise::read_launch_environment();
//   c10::cuda::set_device(environment.local_rank);
//
// Thread-safety: thread-safe as long as the environment is not modified.
#ifndef REPRISE_PARTITION_LAUNCH_ENVIRONMENT_H_
#define REPRISE_PARTITION_LAUNCH_ENVIRONMENT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "reprise/base/export.h"

namespace reprise {

struct LaunchEnvironment {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // among the ranks of this machine; `rank` if the launcher does not set it
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 29500;
  // The store at that address belongs to the launcher (torchrun's agent): no rank opens it.
  bool store_is_open = false;
  // The number of times that the launcher has restarted the ranks.
  int restart_count = 0;
};

// Returns the value of an environment variable, or nothing if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string&)>;

// Returns the first of these that is set:
//
//   torchrun, or by hand  RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; LOCAL_RANK
//   Open MPI              OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   Slurm                 SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID; the first host of
//                         SLURM_STEP_NODELIST, SLURM_JOB_NODELIST or SLURM_NODELIST
//
// MASTER_ADDR and MASTER_PORT take precedence over the last two; Open MPI's ranks need the address
// if they are on several machines. The default port is 29500.
//
// Throws: std::invalid_argument that names the missing or malformed variable, and its value.
[[nodiscard]] REPRISE_API LaunchEnvironment
read_launch_environment(const EnvironmentLookup& lookup = nullptr);  // null: getenv()

}  // namespace reprise

#endif  // REPRISE_PARTITION_LAUNCH_ENVIRONMENT_H_
