// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/internal/provenance.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <string_view>
#include <utility>

#include "reprise/engine/internal/operator_traits.h"
#include "reprise/hooks/internal/kept_tensor.h"

namespace reprise::engine_internal {

using hooks_internal::version_of;

namespace {

// Where a hash starts, by what it is of.
enum Seed : std::uint64_t {
  kUndefined = 0x51ed270b,
  kNumber,
  kOpaque,
  kOutside,
  kInput,
  kCast,
  kOther,
  kWritten,
  kShared,
};

Provenance mix(Provenance hash, std::uint64_t value) {
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15U;
  hash = (hash ^ value) * kOdd;
  return hash ^ (hash >> 32U);
}

Provenance of_number(const at::Tensor& number) {
  std::uint64_t bits[2] = {};
  std::memcpy(static_cast<void*>(bits), number.const_data_ptr(),
              std::min(number.nbytes(), sizeof(bits)));
  return mix(mix(mix(kNumber, static_cast<std::uint64_t>(number.scalar_type())), bits[0]), bits[1]);
}

Provenance with_geometry(Provenance hash, const at::Tensor& tensor, std::int64_t shift) {
  const auto dims = static_cast<std::size_t>(tensor.dim());
  const at::IntArrayRef sizes = tensor.sizes();
  const at::IntArrayRef strides = tensor.strides();
  const auto flags = static_cast<std::uint64_t>(tensor.is_conj()) << 1U |
                     static_cast<std::uint64_t>(tensor.is_neg());
  hash = mix(hash, static_cast<std::uint64_t>(tensor.scalar_type()) << 2U | flags);
  hash = mix(hash, static_cast<std::uint64_t>(tensor.storage_offset() - shift));
  for (std::size_t dim = 0; dim < dims; ++dim) {
    hash = mix(hash, static_cast<std::uint64_t>(sizes[dim]));
    // The stride of a dimension of one element reaches nothing.
    hash = mix(hash, sizes[dim] == 1 ? 0 : static_cast<std::uint64_t>(strides[dim]));
  }
  return hash;
}

Provenance of_cast(const at::Tensor& cast) {
  return mix(kCast, static_cast<std::uint64_t>(cast.scalar_type()));
}

// Autocast may have made it, before the region.
bool is_cached_cast(const at::Tensor& tensor) {
  const bool is_narrow = tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16;
  if (!is_narrow) {
    return false;
  }
  const auto* meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta != nullptr && meta->grad_fn_ != nullptr &&
         meta->grad_fn_->name() == "ToCopyBackward0";
}

// A workspace of which a kernel sets what it needs.
bool leaves_parts_unset(const OperatorCall& call, const at::Tensor& result) {
  if (result.scalar_type() != at::kByte) {
    return false;
  }
  const std::string_view name = call.op.operator_name().name;
  return name == "aten::mkldnn_rnn_layer" || name == "aten::_cudnn_rnn" ||
         name == "aten::miopen_rnn";
}

}  // namespace

bool ProvenanceMap::is_followed(const at::Tensor& tensor) {
  return tensor.has_storage() && !tensor.is_nested() && tensor.layout() == c10::kStrided;
}

const ProvenanceMap::Entry* ProvenanceMap::find(Memory memory) const {
  const auto found = entries_.find(memory);
  return found == entries_.end() ? nullptr : &found->second;
}

void ProvenanceMap::add(const at::Tensor& tensor, Entry entry) {
  if (tensor.has_storage()) {
    entry.storage = tensor.storage().getWeakStorageImpl();
    entries_.insert_or_assign(memory_of(tensor), std::move(entry));
  }
}

void ProvenanceMap::add_input(const at::Tensor& tensor, std::uint32_t input, std::int64_t shift) {
  const Entry entry{.hash = mix(kInput, input), .shift = shift};
  const auto item = static_cast<std::int64_t>(tensor.itemsize());
  std::int64_t end = tensor.storage_offset() + 1;
  for (std::int64_t dim = 0; dim < tensor.dim(); ++dim) {
    end += (tensor.size(dim) - 1) * tensor.stride(dim);
  }
  inputs_.push_back({memory_of(tensor), tensor.storage_offset() * item, end * item, entry});
  const Entry* const known = find(memory_of(tensor));
  const bool is_shared =
      known != nullptr && (known->hash != entry.hash || known->shift != entry.shift);
  add(tensor, is_shared ? Entry{.hash = kShared} : entry);
}

const ProvenanceMap::Entry* ProvenanceMap::entry_of(const at::Tensor& tensor) const {
  const Entry* const entry = find(memory_of(tensor));
  if (entry == nullptr || entry->hash != kShared) {
    return entry;
  }
  const std::int64_t place = tensor.storage_offset() * static_cast<std::int64_t>(tensor.itemsize());
  for (const SharedInput& input : inputs_) {
    if (input.memory == memory_of(tensor) && place >= input.begin && place < input.end) {
      return &input.entry;
    }
  }
  return entry;
}

Provenance ProvenanceMap::of_tensor(const at::Tensor& tensor, const Entry* entry) const {
  if (entry != nullptr) {
    return with_geometry(entry->hash, tensor, entry->shift);
  }
  return is_cached_cast(tensor) ? with_geometry(of_cast(tensor), tensor, 0)
                                : with_geometry(kOutside, tensor, 0);
}

Provenance ProvenanceMap::of(const at::Tensor& tensor) const {
  return is_followed(tensor) ? of_tensor(tensor, entry_of(tensor)) : 0;
}

ProvenanceMap::Call ProvenanceMap::call_of(const OperatorCall& call) const {
  Call described;
  const OperatorTraits& traits = call.traits;
  Provenance hash = mix(kOther, reinterpret_cast<std::uintptr_t>(&call.op.operator_name()));
  const auto arguments = call.arguments();
  for (std::uint32_t index = 0; index < arguments.size(); ++index) {
    const bool is_read = traits.written_arguments.empty() || !traits.may_write(index);
    const Provenance argument = of_argument(arguments[index], is_read, described);
    // What is overwritten, and statistics, do not enter into the results.
    hash = is_read || !traits.ignores_targets ? mix(hash, argument) : hash;
  }
  if (traits.is_random) {
    hash = mix(hash, random_calls_ + 1);
  }
  described.hash = hash;
  return described;
}

Provenance ProvenanceMap::of_argument(const c10::IValue& value, bool is_read, Call& call) const {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (!tensor.defined()) {
      return kUndefined;
    }
    const Memory memory = memory_of(tensor);
    call.arguments.push_back(memory);
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
      return of_number(tensor);
    }
    if (!is_followed(tensor)) {
      return kOpaque;
    }
    const Entry* const entry = entry_of(tensor);
    if (entry != nullptr) {
      call.origin = std::min(call.origin, entry->origin);
    }
    if (entry == nullptr && is_read && !is_cached_cast(tensor)) {
      call.outside.push_back(&tensor);
    }
    return of_tensor(tensor, entry);
  }
  if (value.isInt()) {
    return mix(1, static_cast<std::uint64_t>(value.toInt()));
  }
  if (value.isDouble()) {
    return mix(2, std::bit_cast<std::uint64_t>(value.toDouble()));
  }
  if (value.isBool()) {
    return mix(3, value.toBool() ? 1 : 0);
  }
  if (value.isString()) {
    return mix(4, std::hash<std::string_view>()(value.toStringView()));
  }
  if (value.isList()) {
    Provenance hash = 5;
    for (const c10::IValue& element : value.toListRef()) {
      hash = mix(hash, of_argument(element, is_read, call));
    }
    return hash;
  }
  return value.isNone() ? 6 : 7;
}

void ProvenanceMap::note_arguments(const OperatorCall& call, const Call& described,
                                   std::uint32_t origin) {
  random_calls_ += call.traits.is_random ? 1 : 0;
  const auto arguments = call.arguments();
  for (const c10::IValue& argument : arguments) {
    for_each_tensor(argument, [this](const at::Tensor& tensor) {
      const auto found = entries_.find(memory_of(tensor));
      if (found != entries_.end()) {
        found->second.version = version_of(tensor);
      }
    });
  }
  for (const std::uint32_t index : call.traits.written(arguments)) {
    for_each_tensor(arguments[index], [&](const at::Tensor& tensor) {
      const auto found = entries_.find(memory_of(tensor));
      if (found != entries_.end()) {
        Entry& entry = found->second;
        const Provenance part = with_geometry(described.hash, tensor, entry.shift);
        entry.hash = mix(mix(entry.hash, kWritten), part);
        entry.origin = std::min(entry.origin, origin);
        entry.is_unset = false;
        ++entry.version;  // as autograd counts it, if it does
      }
    });
  }
}

void ProvenanceMap::note_results(const OperatorCall& call, const Call& described,
                                 std::uint32_t origin) {
  std::uint64_t ordinal = 0;
  for (const c10::IValue& result : call.results()) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      ++ordinal;
      const Memory memory = memory_of(tensor);
      const auto& known = described.arguments;
      if (std::find(known.begin(), known.end(), memory) == known.end()) {
        add(tensor,
            {.hash = is_followed(tensor) ? mix(described.hash, ordinal) : std::uint64_t{kOpaque},
             .origin = origin,
             .is_unset = call.traits.leaves_memory_as_it_is || leaves_parts_unset(call, tensor)});
      }
    });
  }
}

bool ProvenanceMap::views_opaque(const OperatorCall& call) {
  const c10::IValue& viewed = call.argument(0);
  return viewed.isTensor() && viewed.toTensor().defined() && !is_followed(viewed.toTensor());
}

void ProvenanceMap::note_views(const OperatorCall& call) {
  for (const c10::IValue& result : call.results()) {
    for_each_tensor(result, [&](const at::Tensor& tensor) {
      if (find(memory_of(tensor)) == nullptr) {
        add(tensor, {.hash = kOpaque});
      }
    });
  }
}

void ProvenanceMap::note_hidden(const OperatorCall& call) {
  for (const c10::IValue& result : call.results()) {
    for_each_tensor(result, [this](const at::Tensor& tensor) { add(tensor, {.hash = kOpaque}); });
  }
}

void ProvenanceMap::note_recomputed(const at::Tensor& tensor, Provenance provenance) {
  if (is_followed(tensor) && find(memory_of(tensor)) == nullptr) {
    add(tensor, {.hash = provenance == 0 ? std::uint64_t{kOpaque} : provenance});
  }
}

void ProvenanceMap::note_cast(const OperatorCall& call) {
  const at::Tensor& cast = call.results()[0].toTensor();
  add(cast, {.hash = of_cast(cast)});
}

}  // namespace reprise::engine_internal
