// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/checks/saved_tensor_record.h"

#include <ATen/SequenceNumber.h>
#include <ATen/record_function.h>
#include <c10/util/StringUtil.h>
#include <c10/util/Type.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/tensor.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "reprise/engine/operators/autograd_facts.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

TensorMetadata::Dims dims_of(at::IntArrayRef dims) { return {dims.begin(), dims.end()}; }

const std::type_info* producer_of(const at::Tensor& tensor) {
  const torch::autograd::Node* node = node_of(tensor);
  return node == nullptr ? nullptr : &typeid(*node);
}

// For a parameter.
bool is_freed(const at::Tensor& tensor) { return tensor.numel() == 0 || is_beyond_storage(tensor); }

template <class Function>
auto without_recording(const at::Tensor& tensor, Function&& function) {
  const hooks_internal::UnseenScope unseen;
  return function(hooks_internal::detached_alias(tensor));
}

}  // namespace

hooks_internal::NodePtr copy_slices_of(const at::Tensor& tensor) {
  if (!is_view(tensor)) {
    return nullptr;
  }
  const at::Tensor base(tensor._base());
  const auto* const meta = torch::autograd::impl::get_autograd_meta(base);
  const torch::autograd::Node* const node = meta == nullptr ? nullptr : meta->grad_fn_.get();
  const bool is_slices = node != nullptr && typeid(*node) == typeid(torch::autograd::CopySlices);
  return is_slices ? meta->grad_fn_ : hooks_internal::NodePtr();
}

bool is_saved_by_its_custom_function(const at::Tensor& tensor) {
  const torch::autograd::Node* const own = node_of(tensor);
  const torch::autograd::Node* producer = own;
  std::uint64_t latest = 0;  // sequence number of its nodes
  if (const hooks_internal::NodePtr slices = copy_slices_of(tensor)) {
    producer = static_cast<const torch::autograd::CopySlices&>(*slices).fn.get();
    latest = std::max(slices->sequence_nr(), own == nullptr ? 0 : own->sequence_nr());
  }
  if (producer == nullptr || hooks_internal::is_generated(*producer) ||
      producer->thread_id() != at::RecordFunction::currentThreadId()) {
    return false;
  }
  const std::uint64_t next = at::sequence_number::peek();
  return next == std::max(latest, producer->sequence_nr()) + 1 ||
         next == sequence_number_at_last_operator();  // it has made nodes inside its forward
}

// A nested tensor has no usable sizes and strides.
TensorMetadata::TensorMetadata(const at::Tensor& tensor)
    : layout(tensor.layout()),
      dtype(tensor.scalar_type()),
      device(tensor.device()),
      requires_grad(tensor.requires_grad()),
      sizes(dims_of(tensor.is_nested() ? at::IntArrayRef() : tensor.sizes())),
      strides(dims_of(tensor.is_nested() || layout != c10::kStrided ? at::IntArrayRef()
                                                                    : tensor.strides())) {}

bool TensorMetadata::matches(const at::Tensor& tensor) const {
  if (dtype != tensor.scalar_type() || device != tensor.device() || layout != tensor.layout() ||
      requires_grad != tensor.requires_grad()) {
    return false;
  }
  return tensor.is_nested() || matches_shape(tensor);
}

bool TensorMetadata::matches_shape(const at::Tensor& tensor) const {
  return hooks_internal::are_same_dims(sizes, tensor.sizes()) &&
         (layout != c10::kStrided || hooks_internal::are_same_dims(strides, tensor.strides()));
}

std::string TensorMetadata::to_string() const {
  return c10::str(dtype, " [", c10::Join(", ", sizes), "] strides [", c10::Join(", ", strides),
                  "] ", layout, " on ", device, requires_grad ? ", requires grad" : "");
}

SavedTensorRecord::SavedTensorRecord(const at::Tensor& tensor, const RecordOptions& options,
                                     const SlotProvenance& provenance)
    : metadata_(tensor),
      storage_(weak_storage_of(tensor)),
      is_parameter_(is_leaf_with_gradient(tensor) && !is_view(tensor)),
      is_freed_(is_parameter_ && is_freed(tensor)),
      original_(metadata_.requires_grad && !is_parameter_
                    ? c10::intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>()
                    : tensor.getIntrusivePtr()),
      version_(version_of(tensor)),
      node_number_(at::sequence_number::peek()),
      producer_(producer_of(tensor)),
      of_custom_function_(is_saved_by_its_custom_function(tensor)),
      provenance_(provenance) {
  const bool is_compared =
      options.check == DeterminismCheck::kValues || options.check == DeterminismCheck::kCallback;
  if (!is_compared || provenance.is_unset || is_freed_ || is_beyond_storage(tensor)) {
    return;
  }
  contents_ =
      std::make_unique<Contents>(Contents{tensor.unsafeGetTensorImpl()->version_counter(), {}, {}});
  if (options.check == DeterminismCheck::kValues) {
    contents_->fingerprint = without_recording(tensor, &Fingerprint::of);
  } else {
    contents_->description = without_recording(tensor, *options.describe);
  }
}

bool SavedTensorRecord::is_overwritten() const {
  if (contents_ == nullptr) {
    return false;
  }
  if (!is_complete_ && contents_->counter.current_version() != version_) {
    return true;
  }
  return is_written_uncounted();
}

bool SavedTensorRecord::is_written_uncounted() const {
  return is_written_uncounted_since(storage_._unsafe_get_target(), moment_);
}

at::Tensor SavedTensorRecord::parameter_now() const {
  if (!is_parameter_) {
    return {};
  }
  const at::Tensor tensor(original_.lock());
  const bool is_whole = tensor.defined() && tensor.requires_grad() && !is_freed(tensor) &&
                        (is_freed_ || metadata_.matches_shape(tensor));
  return is_whole ? hooks_internal::detached_alias(tensor) : at::Tensor();
}

bool SavedTensorRecord::is_freed_in_one(const at::Tensor& recomputed) const {
  return is_parameter_ && is_leaf_with_gradient(recomputed) && is_freed_ != is_freed(recomputed);
}

at::Tensor SavedTensorRecord::reassigned() const {
  const at::Tensor tensor(original_.lock());
  const bool is_reassigned = tensor.defined() && is_leaf(tensor) && !is_view(tensor) &&
                             !shares_memory_with(tensor) && version_of(tensor) == version_ &&
                             metadata_.matches(tensor) && !is_beyond_storage(tensor);
  return is_reassigned ? hooks_internal::detached_alias(tensor) : at::Tensor();
}

at::Tensor SavedTensorRecord::original() const {
  if (metadata_.requires_grad) {
    return {};
  }
  at::Tensor tensor(original_.lock());
  const bool is_as_it_was = tensor.defined() && version_of(tensor) == version_ &&
                            shares_memory_with(tensor) && metadata_.matches(tensor) &&
                            !is_beyond_storage(tensor);
  return is_as_it_was ? tensor : at::Tensor();
}

std::optional<std::string> SavedTensorRecord::difference(const at::Tensor& recomputed,
                                                         const at::Tensor& contents,
                                                         const RecordOptions& options) const {
  const bool has_check =
      options.check == DeterminismCheck::kMetadata || options.check == DeterminismCheck::kValues;
  if (has_check && !metadata_.matches(recomputed)) {
    return c10::str("saved metadata: ", metadata_.to_string(),
                    "; recomputed metadata: ", TensorMetadata(recomputed).to_string());
  }
  return difference_of_contents(contents, options);
}

std::optional<std::string> SavedTensorRecord::difference_of_contents(
    const at::Tensor& recomputed, const RecordOptions& options) const {
  if (contents_ == nullptr || is_overwritten()) {
    return std::nullopt;
  }
  if (is_beyond_storage(recomputed)) {
    return c10::str("saved: ", metadata_.to_string(), "; the memory of it has been freed since");
  }
  if (options.check == DeterminismCheck::kCallback) {
    const std::string now = without_recording(recomputed, *options.describe);
    if (now == contents_->description) {
      return std::nullopt;
    }
    return c10::str("saved: ", contents_->description, "; recomputed: ", now);
  }
  if (options.check == DeterminismCheck::kValues &&
      !Fingerprint::equal(*contents_->fingerprint,
                          without_recording(recomputed, &Fingerprint::of))) {
    return c10::str("same metadata (", metadata_.to_string(), ") but other values");
  }
  return std::nullopt;
}

bool SavedTensorRecord::has_lost_memory() const {
  const auto storage = storage_.lock();
  return storage && storage->nbytes() == 0;
}

bool SavedTensorRecord::shares_memory_with(const at::Tensor& recomputed) const {
  const c10::StorageImpl* const storage = storage_of(recomputed);
  return storage != nullptr && storage_._unsafe_get_target() == storage;
}

std::string SavedTensorRecord::producer() const {
  if (producer_ == nullptr) {
    return "no recorded operator";
  }
  std::string name = c10::demangle(producer_->name());
  return name.substr(name.rfind(':') + 1);
}

}  // namespace reprise::engine_internal
