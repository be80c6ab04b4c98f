// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "variants.h"

#include <cstddef>
#include <utility>

#include "options.h"
#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/policies/policies.h"

namespace char_gpt {
namespace {

at::Tensor run_plainly(const Callable& block, const std::string& /*region*/, const at::Tensor& h) {
  return block(h);
}

at::Tensor run_checkpointed(const Callable& block, const std::string& region, const at::Tensor& h) {
  return reprise::checkpoint({.name = region}, block, h);
}

// Keeps, besides, the results that `policy` saves.
BlockRunner under(reprise::PolicyHolder policy) {
  return [policy = std::move(policy)](const Callable& block, const std::string& region,
                                      const at::Tensor& h) {
    return reprise::checkpoint({.name = region, .policy = policy}, block, h);
  };
}

// The same as a scope.
BlockRunner in_scope(reprise::PolicyHolder policy = {}) {
  return [policy = std::move(policy)](const Callable& block, const std::string& region,
                                      const at::Tensor& h) {
    const reprise::CheckpointScope scope({.name = region, .policy = policy});
    return block(h);
  };
}

bool is_small(const at::Tensor& output) { return output.nbytes() <= (std::size_t{2} << 20); }

}  // namespace

const std::vector<Variant>& all_variants() {
  namespace policies = reprise::policies;
  static const std::vector<Variant> kVariants = {
      {"none", "autograd keeps what it wants", run_plainly},
      {"full", "each block keeps its input only and runs again in backward", run_checkpointed},
      {"selective", "keeps the results of matmuls, convolutions and attention",
       under(policies::save_compute_intensive())},
      {"every-2nd-matmul", "keeps the result of every second matmul of a block",
       under(policies::every_nth_matmul(2))},
      {"scope", "as full, recorded by a scope and replayed operator by operator", in_scope()},
      {"scope+selective", "as selective, in a scope", in_scope(policies::save_compute_intensive())},
      {"offload", "what autograd keeps goes to a store (--store)", run_plainly, kByDefault, true},
      {"checkpoint+offload", "as full, the inputs of blocks go to a store", run_checkpointed,
       kByDefault, true},
      {"budget", "a memory budget (--budget) around forward plans what to keep", run_plainly,
       kByDefault, false, true},
      {"nothing", "save_nothing()", under(policies::save_nothing()), kOnRequest},
      {"everything", "save_everything()", under(policies::save_everything()), kOnRequest},
      {"matmuls", "save_matmuls()", under(policies::save_matmuls()), kOnRequest},
      {"attention", "save_attention()", under(policies::save_attention()), kOnRequest},
      {"every-4th-matmul", "every_nth_matmul(4)", under(policies::every_nth_matmul(4)), kOnRequest},
      {"linear", "save_operators() of the linear layers' operator",
       under(policies::save_operators({"aten::mm"})), kOnRequest},
      {"small", "save_where() of results up to 2 MiB", under(policies::save_where(is_small)),
       kOnRequest},
      {"offloaded", "offload(save_matmuls()): kept on the host",
       under(policies::offload(policies::save_matmuls())), kOnRequest},
  };
  return kVariants;
}

const Variant& find_variant(const std::string& name) {
  std::string known;
  for (const Variant& variant : all_variants()) {
    if (variant.name == name) {
      return variant;
    }
    known += (known.empty() ? "" : ", ") + variant.name;
  }
  throw UsageError("there is no variant '" + name + "'; there are " + known);
}

}  // namespace char_gpt
