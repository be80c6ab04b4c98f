// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// A result of an operator that is kept between forward and the replays.
#ifndef REPRISE_ENGINE_INTERNAL_KEPT_RESULT_H_
#define REPRISE_ENGINE_INTERNAL_KEPT_RESULT_H_

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "reprise/engine/internal/tensor_record.h"
#include "reprise/hooks/internal/host_copy.h"
#include "reprise/hooks/internal/kept_tensor.h"
#include "reprise/hooks/internal/memory_layout.h"

namespace reprise::engine_internal {

using hooks_internal::is_dense;
using hooks_internal::version_of;

// An alias without graph that shares the version counter, a copy on the host, or what the
// surrounding saved-tensor hooks have made of it.
struct KeptResult {
  KeptResult() = default;
  // offload: to the host, unless the tensor is there.
  KeptResult(const at::Tensor& tensor, bool offload);

  at::Tensor alias;
  std::int64_t version = 0;
  std::optional<hooks_internal::HostCopy> host;
  std::unique_ptr<torch::autograd::SavedVariableHooks> packed;

  bool is_overwritten = false;  // by an operator that replays run again

  bool is_defined() const { return alias.defined() || host || packed; }
  bool is_mutated() const {
    return is_overwritten ||
           (alias.defined() && !alias.is_inference() && alias._version() != version);
  }
};

// False for sparse, nested and quantized tensors and those of lazy conjugation.
bool is_keepable(const at::Tensor& tensor);

// The geometry of a result.
struct MadeTensor {
  explicit MadeTensor(const at::Tensor& tensor)
      : metadata(tensor), storage_offset(tensor.storage_offset()) {}

  TensorMetadata metadata;
  std::int64_t storage_offset;
};

// The whole of a result, given a tensor in its memory.
at::Tensor whole_result(const at::Tensor& tensor, const MadeTensor& made);

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_INTERNAL_KEPT_RESULT_H_
