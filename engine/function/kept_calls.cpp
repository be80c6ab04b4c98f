// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/function/kept_calls.h"

#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <utility>

#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/kept/graphless_alias.h"
#include "reprise/engine/operators/chained_interceptor.h"
#include "reprise/engine/operators/interception.h"
#include "reprise/engine/operators/operator_facts.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/hooks/seam/torch_version.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/rng/tracker/state_table.h"

namespace reprise::engine_internal {
namespace {

using hooks_internal::UnseenScope;

thread_local std::vector<KeptCallScope*> t_scopes;  // the innermost last

// The generators that a kept function's operators draw from.
class NotesGenerators final : public ChainedInterceptor {
 public:
  NotesGenerators() : ChainedInterceptor(nullptr) {}

  void intercept(const OperatorCall& call) override {
    const at::Generator generator = generator_of(call);
    if (generator.defined() &&
        std::find(generators_.begin(), generators_.end(), generator) == generators_.end()) {
      generators_.push_back(generator);
    }
    pass_on(call);
  }

  std::vector<RngState> states() const {
    std::vector<RngState> states;
    for (const at::Generator& generator : generators_) {
      states.push_back(RngState::capture(generator));
    }
    return states;
  }

 private:
  std::vector<at::Generator> generators_;
};

// The node of a kept result in a replay: its gradients belong to the graph of forward.
class KeptNode final : public torch::autograd::Node {
 public:
  KeptNode(std::string name, const std::vector<at::Tensor>& arguments)
      : Node(edges_of(arguments)), kept_name_(std::move(name)) {}

  torch::autograd::variable_list apply(torch::autograd::variable_list&&) override {
    const CheckpointError error(c10::str(
        "[checkpoint] a backward inside a region's code goes through the results of keep('",
        kept_name_,
        "') in the recomputation, where there is no graph of that function. Make the "
        "backward a part of the function, or leave keep() out"));
    throw_in_language(error);
    throw error;
  }

 private:
  static torch::autograd::edge_list edges_of(const std::vector<at::Tensor>& arguments) {
    torch::autograd::edge_list edges;
    for (const at::Tensor& argument : arguments) {
      if (argument.defined() && argument.requires_grad()) {
        edges.push_back(torch::autograd::impl::gradient_edge(argument));
      }
    }
    return edges;
  }

  const std::string kept_name_;
};

std::int64_t version_or_zero(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.is_inference() ? version_of(tensor) : 0;
}

std::vector<std::int64_t> versions_of(const std::vector<at::Tensor>& tensors) {
  std::vector<std::int64_t> versions;
  for (const at::Tensor& tensor : tensors) {
    versions.push_back(version_or_zero(tensor));
  }
  return versions;
}

at::Tensor alias_of(const at::Tensor& tensor) {
  const UnseenScope unseen;
  return is_of_language(tensor) ? tensor.detach() : graphless_alias(tensor);
}

KeptCall::Tensor kept_of(const at::Tensor& tensor, const std::vector<at::Tensor>& arguments) {
  KeptCall::Tensor kept;
  if (!tensor.defined()) {
    return kept;
  }
  const auto argument =
      std::find_if(arguments.begin(), arguments.end(),
                   [&](const at::Tensor& other) { return other.is_same(tensor); });
  if (argument != arguments.end()) {
    kept.argument = static_cast<std::size_t>(argument - arguments.begin());
    return kept;
  }
  kept.requires_grad = tensor.requires_grad();
  kept.is_leaf = kept.requires_grad && tensor.is_leaf();
  kept.value = kept.is_leaf ? tensor : alias_of(tensor);
  kept.version = version_or_zero(tensor);
  return kept;
}

// Runs the function unseen, but in the modes that it is called in.
PartsOfResult run_unseen(const std::function<PartsOfResult()>& run, NotesGenerators& generators) {
  const c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  const bool grad_mode = c10::GradMode::is_enabled();
  const UnseenScope unseen;
  const c10::AutoGradMode same_grad_mode(grad_mode);
  const c10::impl::ForceDispatchKeyGuard same_keys(keys);
  const InterceptionScope noting(&generators);
  return run();
}

}  // namespace

KeptCallScope::KeptCallScope(KeptCalls& calls, const std::string& region)
    : added_(&calls), taken_(nullptr), region_(region), depth_(UnseenScope::depth()) {
  t_scopes.push_back(this);
}

KeptCallScope::KeptCallScope(const KeptCalls& calls, const std::string& region)
    : added_(nullptr), taken_(&calls), region_(region), depth_(UnseenScope::depth()) {
  t_scopes.push_back(this);
}

// Of the same thread, but the scopes of abandoned regions end in any order.
KeptCallScope::~KeptCallScope() { std::erase(t_scopes, this); }

KeptCallPlace::KeptCallPlace(std::string_view name) : name_(name) {
  for (auto scope = t_scopes.rbegin(); scope != t_scopes.rend() && replay_ == nullptr; ++scope) {
    if ((*scope)->depth_ < UnseenScope::depth()) {
      break;  // it does not see this thread's code now
    }
    if ((*scope)->taken_ != nullptr) {
      replay_ = *scope;
    } else {
      forwards_.push_back(*scope);
    }
  }
  is_in_region_ =
      replay_ != nullptr || !forwards_.empty() || InterceptionScope::current() != nullptr;
}

std::string KeptCallPlace::prefix() const {
  const KeptCallScope* const scope =
      replay_ != nullptr ? replay_ : (forwards_.empty() ? nullptr : forwards_.front());
  return c10::str("[checkpoint] ",
                  scope == nullptr ? "" : c10::str("region '", scope->region_, "': "), "keep('",
                  name_, "')");
}

void KeptCallPlace::add(const std::shared_ptr<const KeptCall>& call) {
  for (KeptCallScope* const scope : forwards_) {
    scope->added_->push_back(call);
  }
}

PartsOfResult KeptCallPlace::run(const std::vector<at::Tensor>& arguments,
                                 const std::function<PartsOfResult()>& run) {
  const std::vector<std::int64_t> versions = versions_of(arguments);
  const std::uint64_t named_draws = rng_internal::tracker_uses().draws;
  NotesGenerators generators;
  PartsOfResult parts = run_unseen(run, generators);
  if (versions_of(arguments) != versions) {
    throw MutationError(prefix() +
                        " writes to an argument in place, which a recomputation would not repeat. "
                        "Change a clone instead");
  }
  if (rng_internal::tracker_uses().draws != named_draws) {
    throw CheckpointError(prefix() +
                          " draws from a named generator state, which a recomputation would not "
                          "advance. Draw outside of it");
  }
  auto call = std::make_shared<KeptCall>();
  call->name = std::string(name_);
  for (const at::Tensor& tensor : parts.tensors) {
    call->tensors.push_back(kept_of(tensor, arguments));
  }
  call->rest = parts.rest;
  call->generators = generators.states();
  add(std::move(call));
  return parts;
}

const std::shared_ptr<const KeptCall>& KeptCallPlace::next_call() {
  const KeptCalls& calls = *replay_->taken_;
  if (replay_->next_ == calls.size()) {
    throw DeterminismError(c10::str(prefix(), " is call ", calls.size() + 1,
                                    " of keep() in the recomputation; forward made ",
                                    calls.size()));
  }
  const auto& call = calls[replay_->next_++];
  if (call->name != name_) {
    throw DeterminismError(c10::str(prefix(), " is call ", replay_->next_,
                                    " of keep() in the recomputation; in forward that was keep('",
                                    call->name, "')"));
  }
  return call;
}

at::Tensor KeptCallPlace::tensor_of(const KeptCall::Tensor& kept,
                                    const std::vector<at::Tensor>& arguments) const {
  if (kept.argument) {
    return arguments.at(*kept.argument);
  }
  if (!kept.value.defined()) {
    return {};
  }
  if (version_or_zero(kept.value) != kept.version && !kept.is_leaf) {
    throw MutationError(
        prefix() +
        ": a result has been written in place since forward made it. Change a clone "
        "instead");
  }
  if (kept.is_leaf) {
    return kept.value;
  }
  at::Tensor tensor = alias_of(kept.value);
  if (kept.requires_grad && c10::GradMode::is_enabled()) {
    torch::autograd::create_gradient_edge(
        tensor, hooks_internal::make_node<KeptNode>(std::string(name_), arguments));
  }
  return tensor;
}

PartsOfResult KeptCallPlace::take(const std::vector<at::Tensor>& arguments) {
  const std::shared_ptr<const KeptCall>& call = next_call();
  PartsOfResult parts;
  parts.rest = call->rest;
  for (const KeptCall::Tensor& kept : call->tensors) {
    parts.tensors.push_back(tensor_of(kept, arguments));
  }
  for (const RngState& state : call->generators) {
    state.restore();
  }
  add(call);
  return parts;
}

}  // namespace reprise::engine_internal
