// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/partition/process_group.h"

#include <c10/util/Exception.h>

#include <string>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "reprise/partition/backends/backends.h"

namespace reprise {
namespace {

using c10d::ProcessGroup;
using partition_internal::Meeting;

c10::intrusive_ptr<c10d::Store> meet(const LaunchEnvironment& environment,
                                     std::chrono::milliseconds timeout) {
  c10d::TCPStoreOptions options;
  options.port = environment.master_port;
  options.isServer = environment.rank == 0 && !environment.store_is_open;
  options.numWorkers = static_cast<std::size_t>(environment.world_size);
  options.timeout = timeout;
  auto store = c10::make_intrusive<c10d::TCPStore>(environment.master_address, options);
  // A launcher's store outlives restarted ranks, and holds the entries of the previous ones.
  return c10::make_intrusive<c10d::PrefixStore>(
      "reprise/attempt_" + std::to_string(environment.restart_count), std::move(store));
}

Meeting under(const std::string& prefix, Meeting meeting) {
  meeting.store = c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(meeting.store));
  return meeting;
}

}  // namespace

bool has_gloo() noexcept { return partition_internal::has_gloo_backend(); }
bool has_nccl() noexcept { return partition_internal::has_nccl_backend(); }

c10::intrusive_ptr<ProcessGroup> init_process_group(const LaunchEnvironment& environment,
                                                    ProcessGroupOptions options) {
  if (!has_gloo() && !has_nccl()) {
    C10_THROW_ERROR(NotImplementedError,
                    "[partition.init_process_group] there is nothing to make a group over: Reprise "
                    "was built without Gloo, and NCCL was not built in or finds no GPU");
  }
  const Meeting meeting{meet(environment, options.timeout), environment.rank,
                        environment.world_size, environment.master_address, options.timeout};
  auto group =
      c10::make_intrusive<ProcessGroup>(meeting.store, environment.rank, environment.world_size);
  group->setDefaultBackend(has_gloo() ? ProcessGroup::GLOO : ProcessGroup::NCCL);
  if (has_gloo()) {
    group->setBackend(at::kCPU, ProcessGroup::GLOO,
                      partition_internal::make_gloo_backend(under("gloo", meeting)));
  }
  if (has_nccl()) {
    group->setBackend(at::kCUDA, ProcessGroup::NCCL,
                      partition_internal::make_nccl_backend(under("nccl", meeting)));
  }
  group->setGroupName("reprise");
  return group;
}

c10::intrusive_ptr<ProcessGroup> init_process_group_from_env(ProcessGroupOptions options) {
  return init_process_group(read_launch_environment(), options);
}

}  // namespace reprise
