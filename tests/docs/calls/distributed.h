// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Calls the functions that the snippets of docs/distributed.md define, on one rank.
#ifndef REPRISE_TESTS_DOCS_CALLS_DISTRIBUTED_H_
#define REPRISE_TESTS_DOCS_CALLS_DISTRIBUTED_H_

#include <cstdlib>
#include <string>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace reprise::distributed_page {

class DistributedPageOneRank : public DistributedPage {
 protected:
  void SetUp() override {
    if (!has_gloo()) GTEST_SKIP() << "needs Gloo";
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    setenv("MASTER_ADDR", "127.0.0.1", 1);
    setenv("MASTER_PORT", std::to_string(free_port()).c_str(), 1);
  }
  void TearDown() override {
    for (const char* name : {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}) unsetenv(name);
  }

 private:
  // The port of a server that ends here.
  static int free_port() {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    return c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options)->getPort();
  }
};

TEST_F(DistributedPageOneRank, MainRuns) { program(); }

TEST_F(DistributedPageOneRank, PartitionsInputs) {
  run(blocks, h, init_process_group_from_env()).sum().backward();
}

}  // namespace reprise::distributed_page

#endif  // REPRISE_TESTS_DOCS_CALLS_DISTRIBUTED_H_
