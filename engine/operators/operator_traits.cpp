// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/operator_traits.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/operators/operator_thread.h"

namespace reprise::engine_internal {
namespace {

bool is_own(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  return name.starts_with("aten::") || name.starts_with("prim::") || name.starts_with("profiler::");
}

// Operators that write running statistics; only two declare it in their schemas.
constexpr std::array<std::string_view, 10> kStatisticsWriters = {
    "aten::_native_batch_norm_legit",
    "aten::_batch_norm_with_update",
    "aten::native_batch_norm",
    "aten::cudnn_batch_norm",
    "aten::miopen_batch_norm",
    "aten::batch_norm_update_stats",
    "aten::batch_norm_gather_stats",
    "aten::batch_norm_gather_stats_with_counts",
    "aten::batch_norm",  // arrives whole if autograd is off
    "aten::_batch_norm_impl_index"};

bool writes_statistics(const c10::FunctionSchema& schema) {
  return schema.overload_name().empty() &&
         std::find(kStatisticsWriters.begin(), kStatisticsWriters.end(), schema.name()) !=
             kStatisticsWriters.end();
}

std::optional<std::uint32_t> argument_called(const c10::FunctionSchema& schema,
                                             std::string_view name) {
  for (std::uint32_t i = 0; i < schema.arguments().size(); ++i) {
    if (schema.arguments()[i].name() == name) {
      return i;
    }
  }
  return std::nullopt;
}

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

bool is_wait(std::string_view name) {
  return name == "_c10d_functional::wait_tensor" || name == "_c10d_functional::wait_tensors";
}

// Operators with out= arguments, and some in place.
bool overwrites_targets(const c10::FunctionSchema& schema) {
  if (schema.name().starts_with("c10d::") || is_wait(schema.name())) {
    return !argument_called(schema, "tensors") && !argument_called(schema, "tensor");
  }
  constexpr std::array<std::string_view, 13> kOverwriting = {
      "aten::fill_",         "aten::zero_",       "aten::copy_",      "aten::bernoulli_",
      "aten::normal_",       "aten::uniform_",    "aten::random_",    "aten::exponential_",
      "aten::cauchy_",       "aten::log_normal_", "aten::geometric_", "aten::_foreach_copy_",
      "aten::_foreach_zero_"};
  const auto& arguments = schema.arguments();
  return std::find(kOverwriting.begin(), kOverwriting.end(), schema.name()) != kOverwriting.end() ||
         std::all_of(arguments.begin(), arguments.end(), [](const c10::Argument& argument) {
           return !is_written(argument) || argument.is_out();
         });
}

bool is_constants_factory(std::string_view name) {
  constexpr std::array<std::string_view, 6> kFactories = {"aten::zeros_like", "aten::ones_like",
                                                          "aten::full_like",  "aten::new_zeros",
                                                          "aten::new_ones",   "aten::new_full"};
  return std::find(kFactories.begin(), kFactories.end(), name) != kFactories.end();
}

// Operators without influence on the computation. record_stream() declares a write, so that it is
// not reordered, and writes nothing.
bool keeps_books(std::string_view name) {
  return name == "aten::detach" || name == "aten::record_stream" ||
         name.starts_with("profiler::") || name.starts_with("prim::");
}

bool is_batch_norm(std::string_view name) {
  constexpr std::array<std::string_view, 5> kBatchNorms = {
      "aten::native_batch_norm", "aten::_native_batch_norm_legit", "aten::_batch_norm_with_update",
      "aten::cudnn_batch_norm", "aten::miopen_batch_norm"};
  return std::find(kBatchNorms.begin(), kBatchNorms.end(), name) != kBatchNorms.end();
}

bool holds_tensors(const c10::Argument& argument) {
  return argument.type()->isSubtypeOf(*c10::TensorType::get()) ||
         argument.type()->kind() == c10::TypeKind::ListType ||
         argument.type()->kind() == c10::TypeKind::OptionalType;
}

std::optional<std::uint32_t> written_argument_like(const c10::FunctionSchema& schema,
                                                   const c10::Argument& result) {
  for (std::uint32_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (is_written(argument) &&
        argument.alias_info()->beforeSets() == result.alias_info()->beforeSets()) {
      return i;
    }
  }
  return std::nullopt;
}

bool takes_tensors(const c10::Type& type) {
  const auto contained = type.containedTypes();
  return type.isSubtypeOf(*c10::TensorType::get()) ||
         std::any_of(contained.begin(), contained.end(),
                     [](const c10::TypePtr& each) { return takes_tensors(*each); });
}

bool is_factory_schema(const c10::FunctionSchema& schema) {
  if (!schema.name().starts_with("aten::") || schema.name() == "aten::from_file") {
    return false;  // it may load a tensor
  }
  constexpr std::array<std::string_view, 9> kLikeOthers = {
      "aten::empty_like", "aten::zeros_like", "aten::ones_like",
      "aten::full_like",  "aten::new_empty",  "aten::new_empty_strided",
      "aten::new_zeros",  "aten::new_ones",   "aten::new_full"};
  const auto& arguments = schema.arguments();
  return std::find(kLikeOthers.begin(), kLikeOthers.end(), schema.name()) != kLikeOthers.end() ||
         std::none_of(arguments.begin(), arguments.end(),
                      [](const c10::Argument& each) { return takes_tensors(*each.type()); });
}

Transfer transfer_of(std::string_view name) {
  constexpr std::array<std::string_view, 10> kOneSided = {"c10d::send",
                                                          "c10d::recv_",
                                                          "c10d::recv_any_source_",
                                                          "c10d::gather_",
                                                          "c10d::gather_into_tensor_",
                                                          "c10d::barrier",
                                                          "c10d::monitored_barrier_",
                                                          "_c10d_functional::isend",
                                                          "_c10d_functional::irecv",
                                                          "_c10d_functional::batch_p2p_ops"};
  if (is_wait(name)) {
    return Transfer::kWait;
  }
  if (std::find(kOneSided.begin(), kOneSided.end(), name) != kOneSided.end()) {
    return Transfer::kOneSided;
  }
  const bool is_collective = name.starts_with("c10d::") || name.starts_with("_c10d_functional::");
  return is_collective ? Transfer::kCollective : Transfer::kNone;
}

// For c10d's operators, whose schemas do not declare their writes.
bool is_written_by_transfer(std::string_view op, std::string_view argument) {
  constexpr std::array<std::string_view, 6> kOutputs = {
      "output", "outputs", "output_tensor", "output_tensors", "output_lists", "tensors"};
  if (is_wait(op) || op == "_c10d_functional::irecv" || op == "_c10d_functional::batch_p2p_ops") {
    return argument == "tensor" || argument == "tensors";
  }
  return op.starts_with("c10d::") && op != "c10d::send" &&
         std::find(kOutputs.begin(), kOutputs.end(), argument) != kOutputs.end();
}

}  // namespace

bool counts_no_version(const c10::FunctionSchema& schema) {
  if (writes_statistics(schema)) {
    return true;
  }
  const std::string_view name = schema.name();
  const bool is_known = is_own(schema)
                            ? name.starts_with("aten::_fused_")
                            : transfer_of(name) == Transfer::kNone && !name.starts_with("fsdp::");
  const auto& arguments = schema.arguments();
  return is_known && std::any_of(arguments.begin(), arguments.end(), is_written);
}

bool leaves_memory_as_it_is(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::new_empty");
}

OperatorTraits::OperatorTraits(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  transfer = transfer_of(schema.name());
  is_bookkeeping = keeps_books(schema.name());
  find_writes(schema);
  find_aliases(schema);
  classify(op);
}

void OperatorTraits::find_writes(const c10::FunctionSchema& schema) {
  for (std::uint32_t i = 0; i < schema.arguments().size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if ((is_written(argument) && !is_bookkeeping) ||
        is_written_by_transfer(schema.name(), argument.name())) {
      written_arguments.push_back(i);
    }
  }
  undeclared = writes_statistics(schema);
  if (undeclared) {
    written_arguments = {*argument_called(schema, "running_mean"),
                         *argument_called(schema, "running_var")};
  }
  if (!written_arguments.empty()) {
    training_argument = argument_called(schema, "training");
  }
  overwrites = overwrites_targets(schema);
  ignores_targets = overwrites || undeclared || is_batch_norm(schema.name());
  fills_with_constant = schema.name() == "aten::zero_" ||
                        (schema.name() == "aten::fill_" && schema.overload_name() == "Scalar");
}

void OperatorTraits::find_aliases(const c10::FunctionSchema& schema) {
  for (const c10::Argument& result : schema.returns()) {
    const bool aliases = result.alias_info() != nullptr;
    is_view = is_view || (aliases && !result.alias_info()->isWrite());
    result_arguments.push_back(aliases && result.alias_info()->isWrite()
                                   ? written_argument_like(schema, result)
                                   : std::nullopt);
    if (transfer != Transfer::kNone && !aliases && !written_arguments.empty() &&
        holds_tensors(result)) {
      result_arguments.back() = written_arguments[0];
    }
  }
  returns_only_arguments = std::all_of(result_arguments.begin(), result_arguments.end(),
                                       [](const auto& argument) { return argument.has_value(); });
}

void OperatorTraits::classify(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  is_aten = schema.name().starts_with("aten::");
  gives_in_flight =
      transfer == Transfer::kCollective && schema.name().starts_with("_c10d_functional::");
  is_host_read = transfer == Transfer::kNone && !schema.returns().empty() &&
                 std::none_of(schema.returns().begin(), schema.returns().end(), holds_tensors);
  is_inplace_view = op.hasTag(at::Tag::inplace_view);
  is_view = is_view || is_inplace_view;
  is_random = op.hasTag(at::Tag::nondeterministic_seeded);
  may_draw = !is_random && !is_own(schema) && transfer == Transfer::kNone;
  if (is_random) {
    probability_argument = argument_called(schema, "dropout_p");
    if (!probability_argument) {
      probability_argument = argument_called(schema, "p");
    }
  }
  is_factory = !is_random && is_factory_schema(schema);
  makes_constants = is_constants_factory(schema.name());
  leaves_memory_as_it_is = engine_internal::leaves_memory_as_it_is(schema.name());
  is_loss_of_sequences = schema.name() == "aten::_ctc_loss";
  leaves_parts_unset = is_loss_of_sequences || schema.name() == "aten::mkldnn_rnn_layer" ||
                       schema.name() == "aten::_cudnn_rnn" || schema.name() == "aten::miopen_rnn";
  is_cast = schema.name() == "aten::_to_copy";
  non_blocking_argument = argument_called(schema, "non_blocking");
  is_elementwise = op.hasTag(at::Tag::pointwise);
  is_cheap = !is_random && (is_elementwise || is_batch_norm(schema.name()));
}

namespace {

// One per process; never destroyed, as operators may run while threads and the process end.
struct KnownTraits {
  Mutex mutex;
  absl::flat_hash_map<const void*, std::unique_ptr<const OperatorTraits>> traits
      ABSL_GUARDED_BY(mutex);
};

}  // namespace

const OperatorTraits& RecentTraits::known(const void* key, const c10::OperatorHandle& op) {
  static auto& known = *new KnownTraits;
  {
    const MutexLock lock(known.mutex);
    if (const auto found = known.traits.find(key); found != known.traits.end()) {
      return *found->second;
    }
  }
  auto made = std::make_unique<const OperatorTraits>(op);
  const MutexLock lock(known.mutex);
  return *known.traits.try_emplace(key, std::move(made)).first->second;
}

const OperatorTraits& OperatorTraits::of(const c10::OperatorHandle& op) {
  return OperatorThread::current().traits.of(op);
}

bool OperatorTraits::writes_undeclared(c10::ArrayRef<c10::IValue> arguments) const {
  return undeclared && !leaves_targets(arguments);
}

bool OperatorTraits::leaves_targets(c10::ArrayRef<c10::IValue> arguments) const {
  return training_argument && !arguments[*training_argument].toBool();
}

}  // namespace reprise::engine_internal
