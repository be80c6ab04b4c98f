// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A launcher's variables, one "NAME=value" per line: give a rank of a group, or an error.
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>

#include "reprise/partition/launch_environment.h"
#include "tests/fuzz/input.h"

namespace reprise::fuzz {
namespace {

using Variables = std::map<std::string, std::string>;

Variables variables_of(std::string_view text) {
  std::istringstream lines{std::string(text)};
  Variables variables;
  for (std::string line; std::getline(lines, line);) {
    const std::size_t equals = line.find('=');
    if (equals != std::string::npos) {
      variables[line.substr(0, equals)] = line.substr(equals + 1);
    }
  }
  return variables;
}

void check(const LaunchEnvironment& environment, const Variables& variables) {
  require(environment.world_size >= 1, "a group has ranks");
  require(environment.rank >= 0 && environment.rank < environment.world_size, "a rank exists");
  require(environment.local_rank >= 0, "a local rank is not negative");
  require(environment.restart_count >= 0, "a number of restarts is not negative");
  require(environment.master_port > 0 && !environment.master_address.empty(), "an address");
  require(variables.count("MASTER_ADDR") > 0 ||
              environment.master_address.find_first_of("[],") == std::string::npos,
          "a host of a list is a single name");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const Variables variables = variables_of(text_of(data, size));
  const auto lookup = [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  const auto environment = accepted<std::invalid_argument>(
      [&] { return read_launch_environment(lookup); }, {"[partition.read_launch_environment] "});
  if (environment) {
    check(*environment, variables);
  }
  return 0;
}

}  // namespace reprise::fuzz
