// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/property/operator_program.h"

#include <torch/torch.h>

#include <algorithm>
#include <exception>
#include <thread>

#include "reprise/engine/cpu_memory.h"
#include "reprise/engine/errors.h"
#include "reprise/engine/graph_exec_group.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/store_guard.h"
#include "tests/property/program_device.h"
#include "tests/testing/fault.h"
#include "tests/testing/within_budget.h"

namespace reprise::testing {
namespace operator_program {

using Random = std::mt19937_64;
using Tensors = std::vector<at::Tensor>;

constexpr std::size_t kBackwards = 8;
constexpr std::size_t kMostSteps = 8;

// A float tensor [4, 6] of the elements.
at::Tensor fit(at::Tensor y) {
  y = y.layout() == at::kStrided ? y : y.to_dense();
  y = (y.is_complex() ? at::view_as_real(y.resolve_conj()) : y).to(at::kFloat).flatten();
  const std::int64_t times = (23 + y.numel()) / std::max<std::int64_t>(y.numel(), 1);
  if (y.numel() == 0) {
    return at::zeros({4, 6});
  }
  // LibTorch 2.11's repeat() crashes on a GPU in DefaultDevice, with deterministic algorithms.
  const at::Tensor all =
      y.is_cpu() ? y.repeat({times}) : at::cat(Tensors(static_cast<std::size_t>(times), y));
  return all.narrow(0, 0, 24).view({4, 6});
}

void append(Tensors& to, const Tensors& tensors) {
  for (const at::Tensor& tensor : tensors) {
    to.push_back(tensor.defined() ? tensor.detach().clone() : at::Tensor());
  }
}

// Without a copy, which would be made after the step and count in its peak.
void append_gradients(Tensors& to, const Tensors& gradients) {
  for (const at::Tensor& gradient : gradients) {
    to.push_back(gradient.defined() ? gradient.detach() : at::Tensor());
  }
}

// What a step's budget holds for: see Found::held_bytes. grad() would make the gradient of the root
// before the backward begins.
Tensors backward(const at::Tensor& root, const Tensors& leaves, bool keep, bool create) {
  const at::Tensor ones = at::ones_like(root);
  const WatchedThread held;
  return torch::autograd::grad({root}, leaves, {ones}, keep, create, /*allow_unused=*/true);
}

Tensors gradients_of(const at::Tensor& y, const Tensors& leaves, bool keep, bool create = false) {
  return backward(y.sum(), leaves, keep, create);
}

void create_graph(const at::Tensor& y, const Tensors& leaves, Tensors& found) {
  const Tensors first = gradients_of(y, leaves, true, true);
  append_gradients(found, first);
  at::Tensor sum = at::zeros({});
  for (const at::Tensor& each : first) {
    sum = each.defined() && each.requires_grad() ? sum + each.tanh().sum() : sum;
  }
  if (sum.requires_grad()) {
    append_gradients(found, backward(sum, leaves, false, false));
  }
}

void on_another_thread(const at::Tensor& y, const Tensors& leaves, Tensors& found) {
  std::exception_ptr thrown;
  std::thread([&] {
    const auto device = on_named_device();
    try {
      append_gradients(found, gradients_of(y, leaves, false));
    } catch (...) {
      thrown = std::current_exception();
    }
  }).join();
  if (thrown) {
    std::rethrow_exception(thrown);
  }
}

void run_backward(Backward kind, const at::Tensor& y, const Tensors& leaves, Tensors& found) {
  switch (kind) {
    case Backward::kCreateGraph:
      create_graph(y, leaves, found);
      return;
    case Backward::kOnAnotherThread:
      on_another_thread(y, leaves, found);
      return;
    case Backward::kOneLeafAtATime:
      for (std::size_t i = 0; i < leaves.size(); i += 5) {
        append_gradients(found, gradients_of(y, {leaves[i]}, true));
      }
      return;
    case Backward::kInAGroup: {
      GraphExecGroup group;
      const GraphExecGroupGuard entered(group);
      append_gradients(found, gradients_of(y, leaves, true));
      append_gradients(found, gradients_of(y, leaves, false));
      return;
    }
    case Backward::kTwice:
      append_gradients(found, gradients_of(y, leaves, true));
      append_gradients(found, gradients_of(y, leaves, false));
      return;
    case Backward::kNever:
      return;
    default:
      append_gradients(found, gradients_of(y, leaves, false));
  }
}

bool has_two_forwards(Backward kind) {
  return kind == Backward::kAfterTwoForwards || kind == Backward::kOfTwoForwards ||
         kind == Backward::kOfTheFirstFirst;
}

std::shared_ptr<Piece> made(const std::pair<Kind, std::uint64_t>& piece, bool is_plain = false) {
  Random random(piece.second);
  return make_piece(piece.first, random, is_plain);
}

void append_state(const World& world, Tensors& all) {
  append(all, world.kept());
  all.push_back(at::detail::getDefaultCPUGenerator().get_state());
  all.push_back(at::globalContext().defaultGenerator(program_device()).get_state());
  all.push_back(world.around.generator.get_state().clone());
}

// The step: forwards, what the user's code does between, backwards.
void run_step(const OperatorProgram& program, World& world, const at::Tensor& x, Backward kind,
              const Setting* setting, MemoryBudget* budget, Found& found) {
  std::optional<WatchedThread> held(std::in_place);
  const auto forward = [&](std::size_t round) {
    return within(budget, [&] { return program.forward(world, x, setting, round); });
  };
  Tensors leaves = world.leaves();
  leaves.push_back(x);
  at::Tensor y = forward(0);
  append(found.tensors, {y});
  at::Tensor other = has_two_forwards(kind) ? forward(1) : at::Tensor();
  append(found.tensors, world.kept());
  for (const auto& piece : world.pieces) {
    piece->between_passes();
  }
  held.reset();
  if (kind == Backward::kOfTwoForwards) {
    y = y + other;
  } else if (kind == Backward::kAfterTwoForwards) {
    append_gradients(found.tensors, gradients_of(other, leaves, false));
  }
  run_backward(kind, y, leaves, found.tensors);
  if (kind == Backward::kOfTheFirstFirst) {
    append_gradients(found.tensors, gradients_of(other, leaves, false));
  }
}

}  // namespace operator_program

using operator_program::kBackwards;
using operator_program::kMostSteps;
using operator_program::Random;
using operator_program::Tensors;

Tensors World::leaves() const {
  Tensors all = around.parameters();
  for (const auto& piece : pieces) {
    all.insert(all.end(), piece->parameters().begin(), piece->parameters().end());
  }
  return all;
}

Tensors World::kept() const {
  Tensors all = around.buffers();
  for (const auto& piece : pieces) {
    const Tensors own = piece->kept();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}

OperatorProgram::OperatorProgram(std::uint64_t seed, const std::vector<Kind>& kinds) {
  Random random(seed);
  const std::size_t count = 3 + pick(random, 6);
  for (std::size_t i = 0; i < count; ++i) {
    steps_.push_back({false, pick(random, families().size())});
  }
  inner_ = pick(random, 2) == 0 ? 1 + pick(random, count - 1) : count;
  if (pick(random, 2) == 0) {
    late_write_.emplace(random, count);
  }
  std::vector<Kind> of_pieces;
  for (const Kind kind : kinds) {
    if (row_of(kind).is_piece) {
      of_pieces.push_back(kind);
    } else if (kind == Kind::kUserHooks) {
      has_user_hooks_ = pick(random, 4) == 0;
    }
  }
  has_user_hooks_ = has_user_hooks_ && !has(&Family::saves_unfilled);
  if (of_pieces.empty()) {
    return;
  }
  const std::size_t different = 1 + pick(random, 3);
  for (std::size_t i = 0; i < different; ++i) {
    pieces_.emplace_back(of_pieces[pick(random, of_pieces.size())], random());
  }
  has_user_hooks_ =
      has_user_hooks_ && !has_piece(Kind::kSavedFirst) &&
      std::none_of(pieces_.begin(), pieces_.end(), [](const auto& piece) {
        return piece.first == Kind::kUncounted && operator_program::made(piece)->differs_in_hooks();
      });
  // A backward inside a function region runs its code again: the rest of forward would find the
  // members swapped once more, and a term of the loss that was kept before it would be of the later
  // run, whose gradients are added in another order.
  const bool has_members = has_piece(Kind::kMemberSwaps) || has_piece(Kind::kMembers);
  if (late_write_ && has_members) {
    late_write_->leave_out_backward();
  }
  for (Step& step : steps_) {
    while (has_members && families()[step.index].has_backward_inside) {
      step.index = (step.index + 1) % families().size();
    }
  }
  steps_[pick(random, count)] = {true, 0};
  for (Step& step : steps_) {
    if (pick(random, 2) == 0) {
      step = {true, pick(random, different)};
    }
  }
}

bool OperatorProgram::has_piece(Kind kind) const {
  return std::any_of(pieces_.begin(), pieces_.end(),
                     [kind](const auto& piece) { return piece.first == kind; });
}

World OperatorProgram::world(std::uint64_t seed, bool is_plain) const {
  World made(seed, {});
  for (const auto& piece : pieces_) {
    made.pieces.push_back(operator_program::made(piece, is_plain));
  }
  return made;
}

namespace operator_program {

// The inputs of a region whose pieces pass arguments.
Tensors with_arguments(const World& world, const at::Tensor& x) {
  Tensors inputs = {x};
  for (const auto& piece : world.pieces) {
    if (piece->argument().defined()) {
      inputs.push_back(piece->argument());
    }
  }
  return inputs;
}

// While alive, the pieces read what the region has received.
class Received {
 public:
  Received(World& world, const Tensors& inputs) : world_(world) {
    std::size_t next = 1;
    for (const auto& piece : world.pieces) {
      before_.push_back(
          piece->receive(piece->argument().defined() ? inputs[next++] : at::Tensor()));
    }
  }
  ~Received() {
    for (std::size_t i = 0; i < before_.size(); ++i) {
      world_.pieces[i]->receive(before_[i]);
    }
  }
  Received(const Received&) = delete;
  Received& operator=(const Received&) = delete;

 private:
  World& world_;
  Tensors before_;
};

}  // namespace operator_program

at::Tensor OperatorProgram::run(World& world, const at::Tensor& x, const Setting* setting,
                                std::size_t round) const {
  const at::Tensor y = run_steps(world, x.sin(), 0, inner_, round);
  if (inner_ == steps_.size()) {
    return y;
  }
  // A copy, as the region is run again after this call.
  const auto rest = [program = *this, &world, round](const Tensors& in) -> Tensors {
    const operator_program::Received received(world, in);
    return {program.run_steps(world, in[0], program.inner_, program.steps_.size(), round)};
  };
  if (setting == nullptr) {
    return rest(operator_program::with_arguments(world, y))[0];
  }
  return run_as(setting->inner_form, setting->inner_options, rest,
                operator_program::with_arguments(world, y))[0];
}

at::Tensor OperatorProgram::run_steps(World& world, at::Tensor x, std::size_t from, std::size_t to,
                                      std::size_t round) const {
  at::Tensor made;
  for (std::size_t i = from; i < to; ++i) {
    const Step& step = steps_[i];
    const at::Tensor y = step.is_piece ? world.pieces[step.index]->run(x, round * kMostSteps + i)
                                       : families()[step.index].run(world.around, x);
    x = (x * 0.5 + operator_program::fit(y)).tanh();
    x = late_write_ ? late_write_->after(i, x, made) : x;
  }
  return x;
}

at::Tensor OperatorProgram::forward(World& world, const at::Tensor& x, const Setting* setting,
                                    std::size_t round) const {
  std::optional<StoreGuard> guard;
  if (setting != nullptr && setting->guard_store) {
    guard.emplace(setting->guard_store);
  }
  // Further in, as in the plain run: a store does not copy what is to stay where it is.
  std::optional<SavedTensorHooksGuard> hooks;
  if (has_user_hooks_) {
    hooks.emplace([](const at::Tensor& t) { return t.clone(); },
                  [](const at::Tensor& t) { return t; });
  }
  at::Tensor y;
  if (setting == nullptr) {
    y = run(world, x, nullptr, round);
  } else {
    const Code code = [this, &world, setting, round](const Tensors& in) -> Tensors {
      const operator_program::Received received(world, in);
      return {run(world, in[0], setting, round)};
    };
    y = run_as(setting->form, setting->options, code,
               operator_program::with_arguments(world, x))[0];
  }
  for (const auto& piece : world.pieces) {
    const at::Tensor more = piece->auxiliary(round * kMostSteps);
    y = more.defined() ? y + more : y;
  }
  return y;
}

void OperatorProgram::restrict_checks(CheckpointOptions& options) const {
  const bool needs_check = std::any_of(pieces_.begin(), pieces_.end(), [](const auto& piece) {
    return row_of(piece.first).needs_check;
  });
  if (has(&Family::reads_what_changes) ||
      (needs_check && options.determinism_check == DeterminismCheck::kNone)) {
    options.determinism_check = DeterminismCheck::kMetadata;
  }
  options.watch_operators = options.watch_operators || needs_check ||
                            has(&Family::reads_what_changes) ||
                            has(&Family::draws_from_own_generator);
}

bool OperatorProgram::has(bool Family::*property, bool value) const {
  return std::any_of(steps_.begin(), steps_.end(), [property, value](const Step& step) {
    return !step.is_piece && families()[step.index].*property == value;
  });
}

bool OperatorProgram::has_double_backward() const {
  return !has(&Family::has_double_backward, false) &&
         std::all_of(pieces_.begin(), pieces_.end(),
                     [](const auto& piece) { return row_of(piece.first).has_double_backward; });
}

Backward OperatorProgram::random_backward(Random& random) const {
  const auto kind = static_cast<Backward>(pick(random, kBackwards));
  if (is_chosen(Kind::kTwoForwards) && pick(random, 6) == 0) {
    return Backward::kOfTwoForwards;
  }
  if (is_chosen(Kind::kTwoSteps) && pick(random, 6) == 0) {
    return Backward::kOfTheFirstFirst;
  }
  const bool creates = kind == Backward::kCreateGraph;
  const bool frees = !creates && kind != Backward::kOneLeafAtATime && kind != Backward::kNever;
  const bool cannot_create = creates && !has_double_backward();
  return cannot_create || (!frees && has(&Family::must_be_freed)) ? Backward::kTwice : kind;
}

bool OperatorProgram::may_end_in_error(const Setting* setting, bool has_budget) const {
  std::vector<Form> forms;
  if (setting != nullptr) {
    forms.push_back(setting->form);
    if (inner_ < steps_.size()) {
      forms.push_back(setting->inner_form);
    }
  }
  if (has_budget) {
    forms.push_back(Form::kScope);
  }
  const auto functions = std::count(forms.begin(), forms.end(), Form::kFunction);
  const bool has_function = functions > 0;
  const bool has_tape = functions < static_cast<std::ptrdiff_t>(forms.size());

  const bool runs_ahead = has_function && late_write_ && late_write_->has_backward();
  return std::any_of(pieces_.begin(), pieces_.end(), [&](const auto& piece) {
    const AllowedError allowed = row_of(piece.first).allowed_error;
    if (allowed == AllowedError::kAnywhere && !operator_program::made(piece)->may_end_in_error()) {
      return false;
    }
    return allowed == AllowedError::kAnywhere || (piece.first == Kind::kWrappers && runs_ahead) ||
           (allowed == AllowedError::kInFunctions && has_function) ||
           (allowed == AllowedError::kInTapes && has_tape);
  });
}

std::string OperatorProgram::words() const {
  std::string all = "kinds";
  for (const auto& [kind, seed] : pieces_) {
    all += c10::str(" ", row_of(kind).name);
  }
  all += has_user_hooks_ ? " user_hooks" : "";
  all += late_write_ && late_write_->has_backward() ? " backward inside;" : ";";
  for (const Step& step : steps_) {
    all += step.is_piece ? c10::str(" [", row_of(pieces_[step.index].first).name, "]")
                         : c10::str(" ", families()[step.index].name);
    all += &step - steps_.data() + 1 == static_cast<std::ptrdiff_t>(inner_) ? " |" : ",";
  }
  return all;
}

Found outcome(std::uint64_t seed, const OperatorProgram& program, Backward kind,
              const Setting* setting, MemoryBudget* budget) {
  Found found;
  found.entry_bytes = cpu_memory().current_bytes;
  World world = program.world(seed, /*is_plain=*/setting == nullptr);
  const at::Tensor x = at::randn({4, 6}).requires_grad_();
  found.start_bytes = cpu_memory().current_bytes;
  reset_peak_cpu_memory();
  WatchedThread::reset();
  try {
    operator_program::run_step(program, world, x, kind, setting, budget, found);
    found.peak_bytes = cpu_memory().peak_bytes;
    operator_program::append_state(world, found.tensors);
  } catch (const CheckpointError& error) {
    found.error = error.what_without_backtrace();
    found.is_checkpoint_error = true;
  } catch (const BudgetExceededError& error) {
    found.error = error.what_without_backtrace();
    found.is_refused = true;
  } catch (const std::exception& error) {
    found.error = error.what();
    // TorchScript throws another exception with the message of an operator's.
    found.is_refused = found.error.find("[memory_budget] a step does not fit") != std::string::npos;
  }
  found.held_bytes = WatchedThread::highest_bytes();
  if (!found.error.empty()) {
    hooks_internal::release_nodes_of_failed_backward();
  }
  synchronize_program_device();
  return found;
}

}  // namespace reprise::testing
