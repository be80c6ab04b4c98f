// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/partition/launch_environment.h"

#include <c10/util/StringUtil.h>

#include <charconv>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string_view>

namespace reprise {
namespace {

[[noreturn]] void refuse(const std::string& message) {
  throw std::invalid_argument("[partition.read_launch_environment] " + message);
}

std::optional<std::string> from_process(const std::string& name) {
  const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe)
  return value != nullptr ? std::optional<std::string>(value) : std::nullopt;
}

class Reader {
 public:
  explicit Reader(const EnvironmentLookup& lookup) : lookup_(lookup) {}

  bool has(const std::string& name) const { return lookup_(name).has_value(); }

  std::string text(const std::string& name, const std::string& launcher) const {
    const std::optional<std::string> value = lookup_(name);
    if (!value || value->empty()) {
      refuse(name + " is not set, although other variables of " + launcher + " are; set it");
    }
    return *value;
  }

  int number(const std::string& name, const std::string& launcher, int least, int most) const {
    const std::string value = text(name, launcher);
    int number = 0;
    const char* const end = value.data() + value.size();
    const auto [stopped, error] = std::from_chars(value.data(), end, number);
    if (error != std::errc() || stopped != end || number < least || number > most) {
      refuse(name + " is '" + value + "'; it must be a number from " + std::to_string(least) +
             " to " + std::to_string(most));
    }
    return number;
  }

  int number_or(const std::string& name, int otherwise) const {
    return has(name) ? number(name, name, 0, kMost) : otherwise;
  }

  static constexpr int kMost = std::numeric_limits<int>::max();

 private:
  const EnvironmentLookup& lookup_;
};

struct Names {
  std::string launcher;
  std::string rank;
  std::string size;
  std::string local_rank;
};

const Names kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
const Names kOpenMpi{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                     "OMPI_COMM_WORLD_LOCAL_RANK"};
const Names kSlurm{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};

bool are_set(const Reader& reader, const Names& names) {
  return reader.has(names.rank) || reader.has(names.size);
}

// "gpu[003-007,9],login" -> "gpu003"
std::string first_host(const std::string& name, const std::string& list) {
  std::string host;
  for (std::size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    const std::size_t close = list.find(']', at);
    const std::size_t end = list.find_first_of(",-]", at);
    if (close == std::string::npos || end == at + 1) {
      refuse(
          c10::str(name, " is '", list, "', which is no list of hosts; set MASTER_ADDR instead"));
    }
    host += list.substr(at + 1, end - at - 1);
    at = close;
  }
  if (host.empty() || host.find_first_of("[]") != std::string::npos) {
    refuse(name + " is '" + list + "', which names no host; set MASTER_ADDR instead");
  }
  return host;
}

std::string slurm_address(const Reader& reader) {
  for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}) {
    if (reader.has(name)) {
      return first_host(name, reader.text(name, kSlurm.launcher));
    }
  }
  refuse(
      "neither SLURM_STEP_NODELIST nor SLURM_JOB_NODELIST is set, nor MASTER_ADDR; set the last to "
      "the address of rank 0");
}

std::string open_mpi_address(const Reader& reader, int world_size) {
  if (reader.number_or("OMPI_COMM_WORLD_LOCAL_SIZE", 0) == world_size) {
    return "127.0.0.1";
  }
  refuse(
      "MASTER_ADDR is not set, and the ranks are on several machines; give it to all of them: "
      "mpirun -x MASTER_ADDR=<address of rank 0> ...");
}

LaunchEnvironment read_as(const Reader& reader, const Names& names) {
  LaunchEnvironment environment;
  environment.world_size = reader.number(names.size, names.launcher, 1, Reader::kMost);
  environment.rank = reader.number(names.rank, names.launcher, 0, environment.world_size - 1);
  environment.local_rank = reader.number_or(names.local_rank, environment.rank);
  const bool is_torchrun = &names == &kTorchrun;
  if (is_torchrun || reader.has("MASTER_ADDR")) {
    environment.master_address = reader.text("MASTER_ADDR", names.launcher);
  } else {
    environment.master_address = &names == &kSlurm
                                     ? slurm_address(reader)
                                     : open_mpi_address(reader, environment.world_size);
  }
  if (is_torchrun || reader.has("MASTER_PORT")) {
    const int port =
        reader.number("MASTER_PORT", names.launcher, 1, std::numeric_limits<std::uint16_t>::max());
    environment.master_port = static_cast<std::uint16_t>(port);
  }
  if (is_torchrun && reader.has("TORCHELASTIC_USE_AGENT_STORE")) {
    environment.store_is_open =
        reader.text("TORCHELASTIC_USE_AGENT_STORE", names.launcher) == "True";
    environment.restart_count = reader.number_or("TORCHELASTIC_RESTART_COUNT", 0);
  }
  return environment;
}

}  // namespace

LaunchEnvironment read_launch_environment(const EnvironmentLookup& lookup) {
  const EnvironmentLookup used = lookup ? lookup : from_process;
  const Reader reader(used);
  for (const Names* names : {&kTorchrun, &kOpenMpi, &kSlurm}) {
    if (are_set(reader, *names)) {
      return read_as(reader, *names);
    }
  }
  refuse(
      "this process was not launched as one of several: none of RANK and WORLD_SIZE (torchrun), "
      "OMPI_COMM_WORLD_RANK (mpirun) and SLURM_PROCID (srun) is set; launch it with one of these, "
      "or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT");
}

}  // namespace reprise
