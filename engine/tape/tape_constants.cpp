// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape/tape_constants.h"

#include <ATen/core/Tensor.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>

#include "absl/hash/hash.h"
#include "reprise/engine/operators/c10d_work.h"
#include "reprise/engine/operators/custom_class.h"

namespace reprise::engine_internal {
namespace {

using Bits = std::array<std::uint64_t, 2>;

Bits bits_of_number(const at::Tensor& number) {
  Bits bits{};
  std::memcpy(bits.data(), number.const_data_ptr(), std::min(number.nbytes(), sizeof(bits)));
  return bits;
}

bool is_wrapped_number(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() && value.toTensor().is_cpu() &&
         value.toTensor().unsafeGetTensorImpl()->is_wrapped_number();
}

}  // namespace

bool is_constant(const c10::IValue& value) {
  if (value.isList()) {
    const auto elements = value.toListRef();
    return std::all_of(elements.begin(), elements.end(),
                       [](const c10::IValue& element) { return is_constant(element); });
  }
  return value.isNone() || value.isScalar() || value.isBool() || value.isString() ||
         value.isDevice() || value.isGenerator() || value.isStream() || is_of_c10d(value) ||
         is_of_classes_in(value, "reprise");  // code of another language
}

c10::IValue with_device_index(const c10::IValue& value) {
  if (!value.isDevice() || value.toDevice().has_index() || value.toDevice().is_cpu() ||
      !c10::impl::hasDeviceGuardImpl(value.toDevice().type())) {
    return value;
  }
  return c10::impl::getDeviceGuardImpl(value.toDevice().type())->getDevice();
}

std::optional<std::size_t> hash_of_constant(const c10::IValue& value) {
  if (value.isNone()) {
    return absl::HashOf(0);
  }
  if (value.isInt()) {
    return absl::HashOf(1, value.toInt());
  }
  if (value.isBool()) {
    return absl::HashOf(2, value.toBool());
  }
  if (value.isDouble()) {
    return absl::HashOf(3, std::bit_cast<std::uint64_t>(value.toDouble()));
  }
  if (value.isIntList()) {
    return absl::HashOf(4, value.toIntVector());
  }
  if (is_wrapped_number(value)) {
    return absl::HashOf(5, value.toTensor().scalar_type(), bits_of_number(value.toTensor()));
  }
  return std::nullopt;
}

bool is_same_constant(const c10::IValue& one, const c10::IValue& other) {
  if (one.isNone() || other.isNone()) {
    return one.isNone() && other.isNone();
  }
  if (one.isInt() && other.isInt()) {
    return one.toInt() == other.toInt();
  }
  if (one.isBool() && other.isBool()) {
    return one.toBool() == other.toBool();
  }
  if (one.isDouble() && other.isDouble()) {
    return std::bit_cast<std::uint64_t>(one.toDouble()) ==
           std::bit_cast<std::uint64_t>(other.toDouble());
  }
  if (one.isIntList() && other.isIntList()) {
    return one.toIntVector() == other.toIntVector();
  }
  return is_wrapped_number(one) && is_wrapped_number(other) &&
         one.toTensor().scalar_type() == other.toTensor().scalar_type() &&
         bits_of_number(one.toTensor()) == bits_of_number(other.toTensor());
}

}  // namespace reprise::engine_internal
