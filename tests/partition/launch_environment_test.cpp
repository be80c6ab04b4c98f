// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/partition/launch_environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <stdexcept>
#include <string>

namespace reprise::launch_environment_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Variables = std::map<std::string, std::string>;

LaunchEnvironment read(const Variables& variables) {
  return read_launch_environment([&](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  });
}

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"MASTER_ADDR", "head"},
                             {"MASTER_PORT", "1234"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "2"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kSlurm = {{"SLURM_PROCID", "5"},
                          {"SLURM_NTASKS", "8"},
                          {"SLURM_LOCALID", "1"},
                          {"SLURM_JOB_NODELIST", "gpu[003-007,9],login"}};

TEST(LaunchEnvironmentTest, ReadsVariablesOfTorchrun) {
  const LaunchEnvironment found = read(kTorchrun);
  EXPECT_EQ(found.rank, 3);
  EXPECT_EQ(found.world_size, 4);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.master_address, "head");
  EXPECT_EQ(found.master_port, 1234);
  EXPECT_FALSE(found.store_is_open);
}

TEST(LaunchEnvironmentTest, TorchrunsAgentHasTheStore) {
  const LaunchEnvironment found = read(with(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "True"),
                                            "TORCHELASTIC_RESTART_COUNT", "2"));
  EXPECT_TRUE(found.store_is_open);
  EXPECT_EQ(found.restart_count, 2);
  EXPECT_FALSE(read(with(kTorchrun, "TORCHELASTIC_USE_AGENT_STORE", "False")).store_is_open);
}

TEST(LaunchEnvironmentTest, ReadsVariablesWithoutALocalRank) {
  EXPECT_EQ(read(without(kTorchrun, "LOCAL_RANK")).local_rank, 3);
}

TEST(LaunchEnvironmentTest, ReadsVariablesOfOpenMpiOnOneMachine) {
  const LaunchEnvironment found = read(kOpenMpi);
  EXPECT_EQ(found.rank, 1);
  EXPECT_EQ(found.world_size, 2);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.master_address, "127.0.0.1");
  EXPECT_EQ(found.master_port, 29500);
}

TEST(LaunchEnvironmentTest, ReadsVariablesOfOpenMpiOnSeveralMachines) {
  const Variables several = with(kOpenMpi, "OMPI_COMM_WORLD_LOCAL_SIZE", "1");
  EXPECT_THAT([&] { read(several); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("MASTER_ADDR is not set")));
  const LaunchEnvironment found =
      read(with(with(several, "MASTER_ADDR", "10.0.0.1"), "MASTER_PORT", "777"));
  EXPECT_EQ(found.master_address, "10.0.0.1");
  EXPECT_EQ(found.master_port, 777);
}

TEST(LaunchEnvironmentTest, ReadsVariablesOfSlurm) {
  const LaunchEnvironment found = read(kSlurm);
  EXPECT_EQ(found.rank, 5);
  EXPECT_EQ(found.world_size, 8);
  EXPECT_EQ(found.local_rank, 1);
  EXPECT_EQ(found.master_address, "gpu003");
  EXPECT_EQ(read(with(kSlurm, "MASTER_ADDR", "head")).master_address, "head");
}

TEST(LaunchEnvironmentTest, FindsTheFirstOfSlurmsHosts) {
  const auto first = [](const std::string& list) {
    return read(with(kSlurm, "SLURM_STEP_NODELIST", list)).master_address;
  };
  EXPECT_EQ(first("one"), "one");
  EXPECT_EQ(first("one,two"), "one");
  EXPECT_EQ(first("rack[2-3]node[07,9]-ib,x[1-2]"), "rack2node07-ib");
  for (const std::string list : {"gpu[", "gpu[]", ",a", "gpu]", "gpu[[1]", "gpu[1-2]]"}) {
    EXPECT_THAT([&] { first(list); }, ThrowsMessage<std::invalid_argument>(AllOf(
                                          HasSubstr("SLURM_STEP_NODELIST"), HasSubstr(list))));
  }
}

TEST(LaunchEnvironmentTest, TorchrunGoesBeforeMpirunAndThatBeforeSrun) {
  Variables all = kTorchrun;
  all.insert(kOpenMpi.begin(), kOpenMpi.end());
  all.insert(kSlurm.begin(), kSlurm.end());
  EXPECT_EQ(read(all).rank, 3);
  EXPECT_EQ(read(without(without(all, "RANK"), "WORLD_SIZE")).rank, 1);
}

TEST(LaunchEnvironmentTest, MissingVariableIsNamed) {
  for (const std::string name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) {
    EXPECT_THAT([&] { read(without(kTorchrun, name)); },
                ThrowsMessage<std::invalid_argument>(HasSubstr(name + " is not set")));
  }
  EXPECT_THAT([] { read(without(kSlurm, "SLURM_NTASKS")); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("SLURM_NTASKS is not set")));
  EXPECT_THAT([] { read(without(kSlurm, "SLURM_JOB_NODELIST")); },
              ThrowsMessage<std::invalid_argument>(HasSubstr("SLURM_STEP_NODELIST")));
  EXPECT_THAT([] { read({}); }, ThrowsMessage<std::invalid_argument>(
                                    AllOf(HasSubstr("RANK"), HasSubstr("OMPI_COMM_WORLD_RANK"),
                                          HasSubstr("SLURM_PROCID"))));
}

TEST(LaunchEnvironmentTest, MalformedVariableIsNamedWithItsValue) {
  const auto refused = [](const std::string& name, const std::string& value) {
    EXPECT_THAT(
        [&] { read(with(kTorchrun, name, value)); },
        ThrowsMessage<std::invalid_argument>(AllOf(HasSubstr(name), HasSubstr("'" + value + "'"))));
  };
  refused("RANK", "4");
  refused("RANK", "-1");
  refused("RANK", "3x");
  refused("WORLD_SIZE", "0");
  refused("WORLD_SIZE", "99999999999999999999");
  refused("LOCAL_RANK", "one");
  refused("MASTER_PORT", "65536");
  refused("MASTER_PORT", " 80");
}

}  // namespace
}  // namespace reprise::launch_environment_test
