// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/bitwise.h"

#include <ATen/core/Formatting.h>
#include <ATen/core/grad_mode.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iomanip>
#include <sstream>
#include <string>

namespace reprise::testing {
namespace {

std::string describe(const at::Tensor& tensor) {
  if (!tensor.defined()) {
    return "an undefined tensor";
  }
  std::ostringstream out;
  out << c10::toString(tensor.scalar_type()) << tensor.sizes() << " on " << tensor.device();
  return out.str();
}

bool same_metadata(const at::Tensor& a, const at::Tensor& b) {
  return a.defined() == b.defined() && a.sizes() == b.sizes() &&
         a.scalar_type() == b.scalar_type() && a.device() == b.device();
}

at::Tensor plain_on_host(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.layout() == at::kStrided ? tensor : tensor.to_dense();
  return dense.detach().cpu().resolve_conj().resolve_neg().contiguous();
}

std::string hex(const char* bytes, std::size_t count) {
  std::ostringstream out;
  out << "0x" << std::hex << std::setfill('0');
  for (std::size_t i = count; i-- > 0;) {  // most significant first, on a little-endian machine
    out << std::setw(2) << static_cast<unsigned>(static_cast<unsigned char>(bytes[i]));
  }
  return out.str();
}

std::string index_of(std::int64_t element, at::IntArrayRef sizes) {
  std::string index;
  for (std::size_t d = sizes.size(); d-- > 0;) {
    index.insert(0, std::to_string(element % sizes[d]) + (index.empty() ? "" : ", "));
    element /= sizes[d];
  }
  return "[" + index + "]";
}

std::string value_of(const at::Tensor& flat, std::int64_t i) {
  std::ostringstream out;
  if (at::isFloatingType(flat.scalar_type())) {
    out << std::setprecision(17) << flat[i].to(at::kDouble).item<double>();
  } else {
    out << flat[i].item();
  }
  return out.str();
}

}  // namespace

::testing::AssertionResult bitwise_equal(const at::Tensor& a, const at::Tensor& b) {
  const at::NoGradGuard no_grad;
  if (!a.defined() && !b.defined()) {
    return ::testing::AssertionSuccess();
  }
  if (!a.defined() || !b.defined() || !same_metadata(a, b)) {
    return ::testing::AssertionFailure() << describe(a) << " against " << describe(b);
  }
  const at::Tensor left = plain_on_host(a);
  const at::Tensor right = plain_on_host(b);
  const auto* left_bytes = static_cast<const char*>(left.const_data_ptr());
  const auto* right_bytes = static_cast<const char*>(right.const_data_ptr());
  if (left.nbytes() == 0 || std::memcmp(left_bytes, right_bytes, left.nbytes()) == 0) {
    return ::testing::AssertionSuccess();
  }
  const std::size_t width = left.element_size();
  std::int64_t first = -1;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < left.numel(); ++i) {
    const std::size_t offset = static_cast<std::size_t>(i) * width;
    if (std::memcmp(left_bytes + offset, right_bytes + offset, width) != 0) {
      first = count++ == 0 ? i : first;
    }
  }
  const std::size_t offset = static_cast<std::size_t>(first) * width;
  return ::testing::AssertionFailure()
         << describe(a) << ": " << count << " of " << left.numel() << " elements differ, first at "
         << index_of(first, left.sizes()) << ": " << value_of(left.view({-1}), first) << " ("
         << hex(left_bytes + offset, width) << ") against " << value_of(right.view({-1}), first)
         << " (" << hex(right_bytes + offset, width) << ")";
}

}  // namespace reprise::testing
