// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/seam/forwarding_engine.h"

#include <ATen/SavedTensorHooks.h>
#include <ATen/ops/ones.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/graph_task.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <typeinfo>
#include <unordered_set>
#include <utility>
#include <vector>

#include "reprise/hooks/seam/backward_scope.h"
#include "reprise/hooks/seam/torch_version.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::hooks_internal {
namespace {

using torch::autograd::Engine;

// Set by our engine when it is asked; reveals whether a foreign engine forwards to ours.
thread_local bool t_asked = false;

// LibTorch before 2.11 asks without looking at the gate itself. A compiler that traces code
// (torch.compile) defers hooks until that runs; the base engine leaves this to Python's.
bool are_hooks_applied(const at::impl::SavedTensorDefaultHooksTLS& state) {
  return !state.disabled_error_message && !state.is_tracing;
}

class ForwardingEngine final : public Engine {
 public:
  explicit ForwardingEngine(Engine& previous) : previous_(&previous) {}

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    const std::shared_ptr<void> scope = begin_backward_from(roots, accumulate_grad);
    return previous().execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }

  c10::intrusive_ptr<at::ivalue::Future> execute_with_graph_task(
      const std::shared_ptr<torch::autograd::GraphTask>& graph_task, NodePtr graph_root,
      torch::autograd::InputBuffer&& input_buffer) override {
    return previous().execute_with_graph_task(graph_task, std::move(graph_root),
                                              std::move(input_buffer));
  }

  std::unique_ptr<torch::autograd::AnomalyMetadata> make_anomaly_metadata() override {
    return previous().make_anomaly_metadata();
  }

  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    t_asked = true;
    const auto& state = at::SavedTensorDefaultHooks::get_tls_state();
    if (HookProvider* provider = innermost_provider(state)) {
      return are_hooks_applied(state) ? provider->make_hooks() : nullptr;
    }
    const bool is_seen =
        UnseenScope::depth() == 0 || has_open_provider() || UnseenScope::has_new_foreign_hooks();
    return is_seen ? previous().get_default_saved_variable_hooks() : nullptr;
  }

#if REPRISE_TORCH_HAS_NODE_CREATION_HOOKS
  std::vector<std::unique_ptr<torch::autograd::NodeCreationHook>> get_node_creation_hooks()
      override {
    return previous().get_node_creation_hooks();
  }
#endif

  void set_previous(Engine& previous) { previous_.store(&previous, std::memory_order_release); }

 private:
  Engine& previous() { return *previous_.load(std::memory_order_acquire); }

  std::atomic<Engine*> previous_;
};

std::atomic<ForwardingEngine*> g_engine{nullptr};
std::atomic<Engine*> g_wrapper{nullptr};  // a foreign engine in front of ours that asks ours

Engine& get_forwarding_engine() { return *g_engine.load(std::memory_order_acquire); }

// Installing our engine in front of one that forwards to ours would make a cycle.
bool forwards_to_ours(Engine& engine) {
  t_asked = false;
  engine.get_default_saved_variable_hooks();
  return std::exchange(t_asked, false);
}

}  // namespace

void ensure_engine_installed() {
  Engine& current = Engine::get_default_engine();
  if (&current == g_engine.load(std::memory_order_acquire) ||
      &current == g_wrapper.load(std::memory_order_acquire)) {
    return;
  }
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  ForwardingEngine* ours = g_engine.load();
  if (ours == nullptr) {
    // Never freed: a tensor may be saved during static destruction.
    g_engine.store(new ForwardingEngine(current));
  } else if (forwards_to_ours(current)) {
    g_wrapper.store(&current);
    return;
  } else if (&current != ours) {
    ours->set_previous(current);
  }
  torch::autograd::set_default_engine_stub(&get_forwarding_engine);
}

std::unique_ptr<SavedVariableHooks> make_ambient_hooks() {
  if (!at::SavedTensorDefaultHooks::is_enabled()) {
    return nullptr;
  }
  return Engine::get_default_engine().get_default_saved_variable_hooks();
}

void at_backward_end(std::function<void()> callback) {
  Engine::get_default_engine().queue_callback(std::move(callback));
}

// dynamic_cast compares names, which takes longer than all other work for a saved tensor: its
// result is cached per type of node.
bool is_generated(const torch::autograd::Node& node) {
  static std::array<std::atomic<std::uintptr_t>, 64> known{};  // the answer is the lowest bit
  const auto type = reinterpret_cast<std::uintptr_t>(&typeid(node));
  std::atomic<std::uintptr_t>& place = known[type / alignof(std::type_info) % known.size()];
  const std::uintptr_t found = place.load(std::memory_order_relaxed);
  if (found / 2 == type / 2) {
    return found % 2 == 1;
  }
  const bool answer = dynamic_cast<const torch::autograd::TraceableFunction*>(&node) != nullptr;
  place.store(type + (answer ? 1 : 0), std::memory_order_relaxed);
  return answer;
}

BackwardInfo backward_info() {
  static constinit thread_local struct {
    int id = -1;
    bool keeps_graph = false;
  } t_last;  // result, valid throughout a backward
  BackwardInfo info;
  info.id = torch::autograd::get_current_graph_task_id();
  if (info.id >= 0) {
    if (info.id != t_last.id) {
      t_last = {info.id, torch::autograd::get_current_graph_task_keep_graph()};
    }
    info.keeps_graph = t_last.keeps_graph;
    if (const NodePtr node = torch::autograd::get_current_node()) {
      info.node = node.get();
      info.node_reads_once = is_generated(*node);
    }
  }
  return info;
}

void release_nodes_of_failed_backward() {
  const UnseenScope unseen;
  const c10::AutoGradMode grad(true);
  const at::Tensor leaf = at::ones({}, at::kCPU).requires_grad_();
  leaf.backward();
}

int current_backward() noexcept { return torch::autograd::get_current_graph_task_id(); }

}  // namespace reprise::hooks_internal
