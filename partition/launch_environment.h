// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: launch_environment.h
//
// What a launcher (torchrun, mpirun, srun) has told this process: which rank it is, of how many,
// and where the ranks meet. `init_process_group_from_env()` asks it.
//
// Not for groups that are formed otherwise: any c10d::ProcessGroup will do for Reprise.
//
// Example:
//
//   const auto environment = reprise::read_launch_environment();
//   c10::cuda::set_device(environment.local_rank);
//
// Thread-safety: thread-safe as long as nobody changes the environment.
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
  int local_rank = 0;  // among the ranks of this machine; `rank` if the launcher does not say
  std::string master_address = "127.0.0.1";
  std::uint16_t master_port = 29500;
  // The store at that address is the launcher's (torchrun's agent): no rank has to open it.
  bool store_is_open = false;
  // How often the launcher has started the ranks anew.
  int restart_count = 0;
};

// Gives the value of an environment variable, or nothing if it is not set.
using EnvironmentLookup = std::function<std::optional<std::string>(const std::string&)>;

// The first of these that is there:
//
//   torchrun, or by hand  RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT; LOCAL_RANK
//   Open MPI              OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE
//   Slurm                 SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID; the first host of
//                         SLURM_STEP_NODELIST, SLURM_JOB_NODELIST or SLURM_NODELIST
//
// MASTER_ADDR and MASTER_PORT go before what the last two say; Open MPI's ranks need the address if
// they are on several machines, and the port is 29500 if nothing says it. std::invalid_argument
// names the variable that is missing or malformed, and its value.
[[nodiscard]] REPRISE_API LaunchEnvironment
read_launch_environment(const EnvironmentLookup& lookup = nullptr);  // null: getenv()

}  // namespace reprise

#endif  // REPRISE_PARTITION_LAUNCH_ENVIRONMENT_H_
