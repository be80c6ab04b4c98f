// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape/tape.h"

#include <c10/util/StringUtil.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>

#include "reprise/engine/checks/saved_tensor_record.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/hooks/seam/hook_stack.h"

namespace reprise::engine_internal {
namespace {

std::size_t bytes_of(const auto& vector) { return vector.capacity() * sizeof(*vector.begin()); }

std::size_t heap_bytes(const Geometry::Dims& dims) {
  return dims.size() > 4 ? dims.capacity() * sizeof(std::int64_t) : 0;
}

std::size_t heap_bytes(const c10::IValue& constant) {
  constexpr std::size_t kTensorBytes = sizeof(c10::TensorImpl) + sizeof(c10::StorageImpl) + 64;
  if (constant.isTensor()) {
    return kTensorBytes;
  }
  return constant.isList() ? 64 + constant.toListRef().size() * sizeof(c10::IValue) : 0;
}

// One more than the index of the last element in the storage.
std::int64_t end_of(const Geometry& geometry) {
  std::int64_t end = geometry.offset + 1;
  for (std::size_t dim = 0; dim < geometry.sizes.size(); ++dim) {
    if (geometry.sizes[dim] == 0) {
      return geometry.offset;
    }
    end += (geometry.sizes[dim] - 1) * geometry.strides[dim];
  }
  return end;
}

const char* why_given(const Tape::Given& given) {
  switch (given.why) {
    case Tape::Given::Why::kPolicy:
      return "saved";
    case Tape::Given::Why::kOutOfSight:
      return "cannot be computed again";
    case Tape::Given::Why::kCopied:
      return "copied before a write";
    default:
      return "input";
  }
}

bool has_elements(const Geometry& geometry) {
  return std::find(geometry.sizes.begin(), geometry.sizes.end(), 0) == geometry.sizes.end();
}

}  // namespace

Geometry::Geometry(const at::Tensor& tensor)
    : sizes(tensor.sizes().begin(), tensor.sizes().end()),
      strides(tensor.strides().begin(), tensor.strides().end()),
      offset(tensor.storage_offset()),
      dtype(tensor.scalar_type()),
      is_conj(tensor.is_conj()),
      is_neg(tensor.is_neg()) {}

bool Geometry::is_of(const at::Tensor& tensor) const {
  return hooks_internal::are_same_dims(tensor.sizes(), sizes) &&
         hooks_internal::are_same_dims(tensor.strides(), strides) &&
         tensor.storage_offset() == offset && tensor.scalar_type() == dtype &&
         tensor.is_conj() == is_conj && tensor.is_neg() == is_neg;
}

at::Tensor Geometry::look_at(const at::Tensor& base, std::int64_t shift) const {
  const auto itemsize = static_cast<std::int64_t>(c10::elementSize(dtype));
  const auto bytes = static_cast<std::int64_t>(base.storage().nbytes());
  TORCH_INTERNAL_ASSERT(
      (offset + shift >= 0 && (end_of(*this) + shift) * itemsize <= bytes) || !has_elements(*this),
      "[checkpoint] a value of ", end_of(*this) * itemsize, " bytes in a storage of ", bytes);
  at::Tensor tensor = hooks_internal::detached_alias(base);
  c10::TensorImpl& impl = *tensor.unsafeGetTensorImpl();
  impl.set_allow_tensor_metadata_change(true);
  if (shift == 0 && is_of(base)) {
    return tensor;
  }
  if (tensor.scalar_type() != dtype) {
    impl.set_storage_and_dtype(base.storage(), c10::scalarTypeToTypeMeta(dtype));
  }
  impl.set_sizes_and_strides(sizes, strides, offset + shift);
  if (tensor.is_conj() != is_conj) {
    tensor._set_conj(is_conj);
  }
  if (tensor.is_neg() != is_neg) {
    tensor._set_neg(is_neg);
  }
  return tensor;
}

Tape::Refilled::Refilled(const at::Tensor& whole) : whole(whole), version(version_of(whole)) {}

void Tape::Refilled::complete(bool is_current, bool is_managed) {
  is_complete = true;
  if (whole.is_freed()) {
    return;
  }
  const c10::intrusive_ptr<c10::StorageImpl> memory = whole.storage();
  sample = is_current && memory ? sample_storage(*memory, /*of_all_bytes=*/true) : 0;
  version = sample != 0 || (is_current && is_managed) ? version : -1;
}

at::Tensor Tape::Refilled::now() const {
  if (!is_complete || whole.version() != version) {
    return {};
  }
  at::Tensor tensor = whole.lock();
  const bool is_as_it_was = tensor.defined() && tensor.nbytes() == tensor.storage().nbytes() &&
                            (sample == 0 || sample == sample_memory(tensor, /*of_all_bytes=*/true));
  return is_as_it_was ? tensor : at::Tensor();
}

void append_given(const decltype(Tape::given)& values, const Tape& tape, HeldValues& held) {
  for (const TapeValueId value : sorted_keys(values)) {
    const Tape::Given& given = values.at(value);
    const std::size_t first = held.size();
    if (given.input) {
      append_held(*given.input, why_given(given), held);
    } else if (given.parameter.defined()) {
      held.push_back({.tensor = given.parameter, .stored = nullptr, .why = "input", .op = {}});
    } else {
      append_held(given.kept, why_given(given), held);
    }
    const TapeOperatorId op = tape.values.contains(value) ? tape.values[value].op : Tape::kNone;
    if (op != Tape::kNone && held.size() > first) {
      held.back().op = c10::toString(tape.operators[op].op.operator_name());
    }
  }
}

std::string describe_loss(const Tape::Given& given) {
  const at::Tensor& tensor = given.kept.alias;
  if (given.kept.is_written_as_part()) {
    return c10::str("a part of a tensor that was read at version ", given.kept.whole->version,
                    ", now at version ", given.kept.whole->counter.current_version());
  }
  return c10::str(TensorMetadata(tensor).to_string(), ", read at version ", given.kept.version,
                  ", now at version ", version_of(tensor));
}

at::Tensor flat(const at::Tensor& tensor) {
  return flat(tensor, static_cast<std::int64_t>(tensor.storage().nbytes()));
}

at::Tensor flat(const at::Tensor& tensor, std::int64_t bytes) {
  at::Tensor all = hooks_internal::detached_alias(tensor);
  c10::TensorImpl& impl = *all.unsafeGetTensorImpl();
  impl.set_allow_tensor_metadata_change(true);
  const std::int64_t size = bytes / static_cast<std::int64_t>(tensor.itemsize());
  const std::int64_t stride = 1;
  impl.set_sizes_and_strides(at::IntArrayRef(size), at::IntArrayRef(stride), 0);
  return all;
}

namespace {

std::int64_t count_of(const Geometry& geometry) {
  std::int64_t count = 1;
  for (const std::int64_t size : geometry.sizes) {
    count *= size;
  }
  return count;
}

}  // namespace

bool covers(const Geometry& whole, const Geometry& part) {
  if (whole == part) {
    return true;
  }
  const bool is_dense =
      end_of(whole) - whole.offset == count_of(whole) &&
      std::find(whole.strides.begin(), whole.strides.end(), 0) == whole.strides.end();
  return is_dense && whole.dtype == part.dtype && !whole.is_conj && !whole.is_neg &&
         part.offset >= whole.offset && end_of(part) <= end_of(whole);
}

std::size_t Tape::bytes() const {
  std::size_t bytes = bytes_of(operators) + bytes_of(arguments) + bytes_of(made) +
                      bytes_of(writes) + bytes_of(values) + bytes_of(geometries) +
                      bytes_of(constants) + bytes_of(contexts) + bytes_of(slots);
  for (const Geometry& geometry : geometries) {
    bytes += heap_bytes(geometry.sizes) + heap_bytes(geometry.strides);
  }
  for (const c10::IValue& constant : constants) {
    bytes += heap_bytes(constant);
  }
  bytes += (values.size() + operators.size()) * sizeof(std::uint32_t);
  constexpr std::size_t kCpuGeneratorBytes = 2600;
  return bytes + random.size() * kCpuGeneratorBytes;
}

}  // namespace reprise::engine_internal
