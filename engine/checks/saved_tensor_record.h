// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A frame's record of a tensor that autograd saved in forward, in place of the tensor.
#ifndef REPRISE_ENGINE_CHECKS_SAVED_TENSOR_RECORD_H_
#define REPRISE_ENGINE_CHECKS_SAVED_TENSOR_RECORD_H_

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <c10/core/Layout.h>
#include <c10/core/ScalarType.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorImpl.h>
#include <c10/core/UndefinedTensorImpl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <typeinfo>

#include "absl/container/inlined_vector.h"
#include "reprise/engine/checkpoint_options.h"
#include "reprise/engine/checks/fingerprint.h"
#include "reprise/engine/checks/provenance.h"
#include "reprise/engine/operators/uncounted_writes.h"
#include "reprise/hooks/seam/torch_version.h"

namespace reprise::engine_internal {

// Shape, strides, dtype, device, layout and requires-grad.
struct TensorMetadata {
  using Dims = absl::InlinedVector<std::int64_t, 4>;

  explicit TensorMetadata(const at::Tensor& tensor);
  bool matches(const at::Tensor& tensor) const;
  bool matches_shape(const at::Tensor& tensor) const;  // and strides
  std::string to_string() const;  // "Float [2, 3] strides [3, 1] on cpu, requires grad"

  c10::Layout layout;
  c10::ScalarType dtype;
  c10::Device device;
  bool requires_grad;
  Dims sizes;    // empty if nested, as the strides
  Dims strides;  // empty unless strided
};

// The contents to record, from the options of the region.
struct RecordOptions {
  DeterminismCheck check = DeterminismCheck::kMetadata;
  const std::function<std::string(const at::Tensor&)>* describe = nullptr;
};

// Returns true for a result of a torch::autograd::Function, or a view that it has written to, that
// the same Function is saving now. LibTorch leaves the tensor in a reference cycle if an exception
// leaves such a save. Saves by other nodes are recognised by the nodes created since.
bool is_saved_by_its_custom_function(const at::Tensor& tensor);

// Returns, for a view that has been written to in place, the node that autograd has inserted before
// its base's history; null for other tensors.
hooks_internal::NodePtr copy_slices_of(const at::Tensor& tensor);

class SavedTensorRecord {
 public:
  // Uninitialised memory has no contents to compare.
  SavedTensorRecord(const at::Tensor& tensor, const RecordOptions& options,
                    const SlotProvenance& provenance = {});

  // Forward has ended. is_alive: whether backward may still ask for the tensor.
  void complete(bool is_alive) {
    provenance_.is_captured = provenance_.is_captured && !storage_.expired();
    died_in_forward_ = !is_alive;
    if (is_overwritten()) {
      contents_.reset();
    }
    is_complete_ = true;
  }
  // For example an input that a scope inside the region has packed and does not need.
  bool died_in_forward() const { return died_in_forward_; }
  Provenance provenance() const { return provenance_.hash; }
  Provenance memory_provenance() const { return provenance_.of_memory; }
  // Whether it had an owner outside when forward ended.
  bool is_captured() const { return provenance_.is_captured; }

  // Returns a description of the difference of `recomputed`; nothing if the check finds none.
  // contents: the tensor itself, or an alias over the memory that holds its contents.
  std::optional<std::string> difference(const at::Tensor& recomputed, const at::Tensor& contents,
                                        const RecordOptions& options) const;

  // The same for its values alone, if the check compares them.
  std::optional<std::string> difference_of_contents(const at::Tensor& recomputed,
                                                    const RecordOptions& options) const;

  // Returns whether `recomputed` is in the memory of forward's tensor: then the region did not make
  // it, and it is from outside.
  bool shares_memory_with(const at::Tensor& recomputed) const;

  // Returns whether that memory exists, and has no bytes.
  bool has_lost_memory() const;

  // Returns its storage; null for a tensor without one.
  const c10::weak_intrusive_ptr<c10::StorageImpl>& storage() const { return storage_; }

  // Whether it is a leaf that requires a gradient.
  bool is_parameter() const { return is_parameter_; }
  // Returns the saved parameter with its present contents, as an alias without graph; undefined if
  // it no longer exists or is freed.
  at::Tensor parameter_now() const;
  // Returns whether `tensor` is the parameter, and was freed at exactly one of the two times.
  bool is_freed_in_one(const at::Tensor& recomputed) const;

  // Returns whether reassigned() and original() can find the tensor: it had no graph.
  bool knows_object() const { return original_._unsafe_get_target() != nullptr; }

  // Returns the saved tensor as it is now, without graph, if Tensor::data was assigned to it since
  // it was saved; undefined otherwise. Autograd without hooks holds the object, not its memory.
  at::Tensor reassigned() const;

  // Returns the identical tensor object that was saved, if it requires no gradient, is unmodified,
  // and has another owner; undefined otherwise. Autograd without hooks returns that object as well.
  at::Tensor original() const;

  // Returns whether its memory has been written since without counting a version.
  bool is_written_uncounted() const;

  // See is_saved_by_its_custom_function().
  bool is_of_custom_function() const { return of_custom_function_; }
  // Equal for the tensors that one node saves, different between consecutive nodes.
  std::uint64_t node_number() const { return node_number_; }

  std::int64_t version() const { return version_; }
  WriteMoment moment() const { return moment_; }  // when it was saved
  // Returns the operator whose result the tensor was, "AddmmBackward0"; or "no recorded operator".
  std::string producer() const;
  const TensorMetadata& metadata() const { return metadata_; }

 private:
  // Whether it was modified in forward since it was saved: autograd refuses to return it.
  // Writes that it does not notice count at any time.
  bool is_overwritten() const;

  struct Contents {
    c10::VariableVersion counter;
    std::optional<Fingerprint> fingerprint;
    std::string description;
  };

  using WeakTensor = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  TensorMetadata metadata_;
  c10::weak_intrusive_ptr<c10::StorageImpl> storage_;  // prevents the reuse of its address
  bool is_parameter_;
  bool is_freed_;        // without elements, or without memory
  WeakTensor original_;  // null if it has a graph
  std::int64_t version_;
  WriteMoment moment_ = current_write_moment();
  std::uint64_t node_number_;
  const std::type_info* producer_;
  bool of_custom_function_;
  bool died_in_forward_ = false;
  bool is_complete_ = false;  // forward has ended
  SlotProvenance provenance_;
  std::unique_ptr<Contents> contents_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_CHECKS_SAVED_TENSOR_RECORD_H_
