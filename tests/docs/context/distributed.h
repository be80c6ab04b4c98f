// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Names that the snippets of docs/distributed.md use, on one rank.
#ifndef REPRISE_TESTS_DOCS_CONTEXT_DISTRIBUTED_H_
#define REPRISE_TESTS_DOCS_CONTEXT_DISTRIBUTED_H_

#include <cstdint>
#include <fstream>

#include "reprise/rng/rng_state_tracker.h"
#include "tests/docs/snippet_test.h"

namespace reprise::distributed_page {

using testing::Block;

class Context : public testing::SnippetTest {
 protected:
  Context() {
    std::ofstream("ds_config.json") << R"({"activation_checkpointing": {"profile": false}})";
  }
  ~Context() override { default_rng_state_tracker().reset(); }

  static at::Tensor partial_scores(const at::Tensor& t) { return t.matmul(t.t()); }
  static at::Tensor output(const at::Tensor& t) { return t.relu(); }
  static at::Tensor all_reduce(const at::Tensor& t) { return t; }

  static constexpr std::uint64_t tensor_parallel_rank = 0;
  static constexpr std::uint64_t expert_rank = 0;
};

}  // namespace reprise::distributed_page

#endif  // REPRISE_TESTS_DOCS_CONTEXT_DISTRIBUTED_H_
