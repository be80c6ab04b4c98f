// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors of classes of the embedding language on a tape: see Note [Assembled tensors].
#include <ATen/core/Tensor.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "reprise/engine/embedding/embedding_language.h"
#include "reprise/engine/operators/assembly_operator.h"
#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/engine/operators/bypass.h"
#include "reprise/engine/tape_recording/tape_recorder.h"

namespace reprise::engine_internal {

using Kind = Tape::Argument::Kind;
using Why = Tape::Given::Why;

// In a region around, what this one takes from outside are the tensors themselves, whose origin the
// region around knows: see Note [Inputs of regions inside]. The operators of a class that does not
// name its parts are recorded themselves.
bool TapeRecorder::run_parts(const OperatorCall& call) {
  const Bypass* const bypass = current_bypass();
  const bool is_unrecorded = bypass != nullptr && *bypass == Bypass::kPoliciesAndTapes;
  if (options_.is_nested || is_unrecorded || !is_on_its_thread()) {
    return false;
  }
  std::vector<at::Tensor> arguments = arguments_of_language(call);
  const bool is_of_python = call.keys.has(c10::DispatchKey::Python);
  if (wholes_ != nullptr && (computes_shapes_only() || (!arguments.empty() && !is_of_python))) {
    pass_on(call);  // no element is read or written
    return true;
  }
  if (!is_of_python || arguments.empty() ||
      !std::all_of(arguments.begin(), arguments.end(), &is_assembled)) {
    return false;
  }
  const at::Tensor argument = arguments.front();
  enter_whole(call, std::move(arguments));
  const absl::Cleanup is_over = [this] {
    if (--wholes_->depth == 0) {
      wholes_.reset();
    }
  };
  run_in_language(call, argument, this);
  return true;
}

void TapeRecorder::enter_whole(const OperatorCall& call, std::vector<at::Tensor> arguments) {
  if (wholes_ != nullptr) {
    ++wholes_->depth;
    return;
  }
  auto wholes = std::make_unique<Wholes>();
  wholes->are_written = !call.traits.written(call.arguments()).empty();
  wholes->arguments = std::move(arguments);
  for (std::size_t i = 0; i < wholes->arguments.size(); ++i) {
    std::vector<at::Tensor> parts;
    append_parts(wholes->arguments[i], parts);
    for (const at::Tensor& part : parts) {
      wholes->of_parts.emplace(TapeValues::key_of(part), i);
    }
  }
  wholes_ = std::move(wholes);
}

at::Tensor TapeRecorder::find_whole(const at::Tensor& tensor) const {
  const auto found = wholes_->of_parts.find(TapeValues::key_of(tensor));
  return found == wholes_->of_parts.end() ? at::Tensor() : wholes_->arguments[found->second];
}

// Operators on the whole count their writes there; the class's own count none.
void TapeRecorder::note_whole(TapeValueId value, const at::Tensor& whole) {
  Tape::Given* const given = values_.input(value);
  if (given == nullptr || given->why != Why::kOutside || given->parameter.defined() ||
      given->kept.whole || whole.is_inference()) {
    return;
  }
  given->is_parameter = is_leaf_with_gradient(is_view(whole) ? at::Tensor(whole._base()) : whole);
  if (!wholes_->are_written) {
    given->kept.whole = std::make_unique<const KeptResult::Whole>(
        KeptResult::Whole{whole.unsafeGetTensorImpl()->version_counter(), version_of(whole)});
  }
}

// Integers stay in the assembly: see Note [Assembled tensors].
bool TapeRecorder::is_made_here(const at::Tensor& part) const {
  if (is_of_language(part) || !is_keepable(part) || part.numel() == 0 ||
      c10::isIntegralType(part.scalar_type(), /*includeBool=*/false)) {
    return false;
  }
  const TapeValues::Memory* const memory = values_.find(TapeValues::key_of(part));
  return memory != nullptr && !memory->is_others_or_outside() &&
         tape_.values[memory->current].op != Tape::kNone;
}

// Returns the place of a saved tensor, if some of its parts can be computed again.
std::optional<Tape::Tensor> TapeRecorder::assemble(const at::Tensor& tensor) {
  if (options_.is_nested) {
    return std::nullopt;
  }
  TakenApart apart =
      take_apart(tensor, [this](const at::Tensor& part) { return is_made_here(part); });
  if (apart.assembly == nullptr || apart.parts.empty()) {
    return std::nullopt;
  }
  std::vector<Tape::Tensor> parts;
  for (const at::Tensor& part : apart.parts) {
    parts.push_back(save(part));
  }
  Tape::Operator op{.op = assembly_operator()};
  op.ordinal = Tape::kNone;
  op.is_assembly = true;
  op.context = tables_.current_context(OperatorTraits::of(op.op));
  op.first_argument = static_cast<std::uint32_t>(tape_.arguments.size());
  tape_.arguments.emplace_back(Kind::kTensorList, static_cast<std::uint32_t>(parts.size()),
                               GeometryId());
  for (const Tape::Tensor& part : parts) {
    tape_.arguments.emplace_back(Kind::kTensor, part.value.number(), part.geometry);
  }
  tape_.arguments.emplace_back(Kind::kConstant, static_cast<std::uint32_t>(tape_.constants.size()),
                               GeometryId());
  tape_.constants.push_back(assembly_constant(std::move(apart.assembly)));
  op.end_argument = static_cast<std::uint32_t>(tape_.arguments.size());
  return Tape::Tensor{values_.add_assembled(std::move(op)), GeometryId()};
}

}  // namespace reprise::engine_internal
