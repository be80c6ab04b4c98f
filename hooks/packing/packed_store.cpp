// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/packing/packed_store.h"

#include <ATen/ops/aminmax.h>
#include <c10/util/DimVector.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "reprise/hooks/packing/bit_mask.h"
#include "reprise/hooks/seam/hook_stack.h"
#include "reprise/hooks/seam/unseen_scope.h"
#include "reprise/hooks/storage/alias.h"
#include "reprise/hooks/storage/has_bytes.h"
#include "reprise/hooks/storage/memory_layout.h"
#include "reprise/hooks/stored/next_store.h"
#include "reprise/hooks/stored/option_checks.h"
#include "reprise/hooks/stored/sparse_parts.h"

namespace reprise::hooks_internal {
namespace {

enum class Form {
  kDistinct,  // the elements at distinct places in memory
  kBits,
  kNarrow,    // of another integral dtype
  kConstant,  // one element
};

class PackedEntry final : public StoredTensor {
 public:
  PackedEntry(const at::Tensor& tensor, Form form, std::unique_ptr<StoredTensor> payload)
      : form_(form),
        payload_(std::move(payload)),
        dtype_(tensor.scalar_type()),
        sizes_(tensor.sizes()),
        strides_(tensor.strides()),
        requires_grad_(tensor.requires_grad()) {}

  void prefetch() override { payload_->prefetch(); }

  at::Tensor get() override {
    const UnseenScope unseen;
    return with_requires_grad(unpack(payload_->get()), requires_grad_);
  }

  // Other forms are unpacked into new memory anyway.
  at::Tensor get_own() override {
    const UnseenScope unseen;
    return form_ == Form::kDistinct
               ? with_requires_grad(unpack(payload_->get_own()), requires_grad_)
               : get();
  }

  [[nodiscard]] std::int64_t device_bytes() const override { return payload_->device_bytes(); }

 private:
  at::Tensor unpack(const at::Tensor& payload) const {
    switch (form_) {
      case Form::kDistinct:
        return payload.expand(sizes_);
      case Form::kNarrow:
        return spread(payload.to(dtype_), sizes_, strides_);
      case Form::kBits:
      case Form::kConstant:
        break;
    }
    at::Tensor packed = empty_packed(sizes_, strides_, payload.options().dtype(dtype_));
    in_a_row(packed).copy_(form_ == Form::kBits ? from_bits(payload, packed.numel()) : payload);
    return spread(packed, sizes_, strides_);
  }

  const Form form_;
  const std::unique_ptr<StoredTensor> payload_;
  const at::ScalarType dtype_;
  const c10::DimVector sizes_;
  const c10::DimVector strides_;
  const bool requires_grad_;
};

at::Tensor first_element(const at::Tensor& packed) {
  return in_a_row(packed).narrow(0, 0, 1).clone();
}

// Waits for the device.
bool has_equal_bits(const at::Tensor& packed) {
  const at::Tensor bytes = in_a_row(packed).view(at::kByte).view({packed.numel(), -1});
  return bytes.eq(bytes.narrow(0, 0, 1)).all().item<bool>();
}

bool is_narrowable(at::ScalarType dtype) {
  return dtype == at::kLong || dtype == at::kInt || dtype == at::kShort;
}

template <class T>
bool fits(std::int64_t least, std::int64_t greatest) {
  return least >= std::numeric_limits<T>::min() && greatest <= std::numeric_limits<T>::max();
}

at::ScalarType narrowest(std::int64_t least, std::int64_t greatest, at::ScalarType dtype) {
  if (fits<std::uint8_t>(least, greatest)) {
    return at::kByte;
  }
  if (fits<std::int8_t>(least, greatest)) {
    return at::kChar;
  }
  if (fits<std::int16_t>(least, greatest)) {
    return at::kShort;
  }
  return fits<std::int32_t>(least, greatest) ? at::kInt : dtype;
}

struct Payload {
  Form form;
  at::Tensor tensor;
};

// Returns nothing if the tensor cannot be made smaller.
std::optional<Payload> pack(const at::Tensor& tensor, bool find_constants) {
  const at::Tensor distinct = distinct_elements(tensor);
  const bool repeats = distinct.numel() < tensor.numel();
  const at::ScalarType dtype = tensor.scalar_type();
  if (dtype == at::kBool) {
    return Payload{Form::kBits, to_bits(in_a_row(packed_elements(tensor)))};
  }
  if (is_narrowable(dtype)) {
    const at::Tensor packed = packed_elements(tensor);
    const auto [minimum, maximum] = at::aminmax(packed);
    const auto least = minimum.item<std::int64_t>();
    const auto greatest = maximum.item<std::int64_t>();
    if (least == greatest) {
      return Payload{Form::kConstant, first_element(packed)};
    }
    const at::ScalarType narrow = narrowest(least, greatest, dtype);
    if (narrow != dtype) {
      return Payload{Form::kNarrow, packed.to(narrow)};
    }
  } else if (find_constants) {
    const at::Tensor packed = packed_elements(tensor);
    if (has_equal_bits(packed)) {
      return Payload{Form::kConstant, first_element(packed)};
    }
  }
  return repeats ? std::optional(Payload{Form::kDistinct, distinct}) : std::nullopt;
}

}  // namespace

std::unique_ptr<StoredTensor> PackedStore::put(const at::Tensor& tensor) {
  return std::move(put_all({tensor}, "").front());
}

std::vector<std::unique_ptr<StoredTensor>> PackedStore::put_all(
    const std::vector<at::Tensor>& tensors, const std::string& owner) {
  const UnseenScope unseen;
  std::vector<std::unique_ptr<StoredTensor>> stored(tensors.size());
  std::vector<std::size_t> positions;
  std::vector<std::optional<Form>> forms;
  std::vector<at::Tensor> payloads;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const at::Tensor& tensor = tensors[i];
    if (is_sparse(tensor)) {
      stored[i] = put_parts(*this, tensor);
      continue;
    }
    const auto packed =
        is_packable(tensor) ? pack(detached_alias(tensor), options_.find_constants) : std::nullopt;
    positions.push_back(i);
    forms.push_back(packed ? std::optional(packed->form) : std::nullopt);
    payloads.push_back(packed ? packed->tensor : tensor);
  }
  auto kept = or_device(next_)->put_all(payloads, owner);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const at::Tensor& tensor = tensors[positions[i]];
    stored[positions[i]] =
        forms[i] ? std::make_unique<PackedEntry>(tensor, *forms[i], std::move(kept[i]))
                 : std::move(kept[i]);
  }
  return stored;
}

bool PackedStore::is_packable(const at::Tensor& tensor) const {
  return has_bytes(tensor) && !tensor.is_conj() && !tensor.is_neg() && tensor.numel() > 0 &&
         byte_count(tensor) >= options_.min_bytes;
}

bool PackedStore::copies_on_device(const at::Tensor& tensor) const {
  const at::ScalarType dtype = tensor.scalar_type();
  const bool may_pack = is_packable(tensor) &&
                        (dtype == at::kBool || is_narrowable(dtype) || options_.find_constants);
  return may_pack || or_device(next_)->copies_on_device(tensor);
}

std::shared_ptr<ActivationStore> PackedStore::followed_by(std::shared_ptr<ActivationStore> next) {
  return std::make_shared<PackedStore>(options_, appended(next_, std::move(next)));
}

}  // namespace reprise::hooks_internal

namespace reprise::stores {

std::shared_ptr<ActivationStore> packed(PackedOptions options) {
  hooks_internal::check_not_negative("stores.packed", {{"min_bytes", options.min_bytes}});
  return std::make_shared<hooks_internal::PackedStore>(options, nullptr);
}

}  // namespace reprise::stores
