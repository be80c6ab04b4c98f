// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// All known differences between versions of LibTorch.
#ifndef REPRISE_HOOKS_SEAM_TORCH_VERSION_H_
#define REPRISE_HOOKS_SEAM_TORCH_VERSION_H_

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/autograd/edge.h>
#include <torch/csrc/autograd/function.h>  // an Edge of 2.15 needs all of Node

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>

// LibTorch 2.15 gave its engine a further virtual function, declared with this header.
#if __has_include(<torch/csrc/autograd/node_creation_hook.h>)
#define REPRISE_TORCH_HAS_NODE_CREATION_HOOKS 1
#else
#define REPRISE_TORCH_HAS_NODE_CREATION_HOOKS 0
#endif

namespace reprise::hooks_internal {

// An owning pointer to an autograd node: std::shared_ptr up to 2.12, c10::intrusive_ptr from 2.13.
using NodePtr = std::remove_cvref_t<decltype(torch::autograd::Edge::function)>;

template <class Node, class... Arguments>
NodePtr make_node(Arguments&&... arguments) {
  if constexpr (std::is_same_v<NodePtr, std::shared_ptr<torch::autograd::Node>>) {
    return std::make_shared<Node>(std::forward<Arguments>(arguments)...);
  } else {
    return c10::make_intrusive<Node>(std::forward<Arguments>(arguments)...);
  }
}

// A weak pointer to it.
template <class Ptr>
auto weak_node(const Ptr& node) {
  if constexpr (std::is_same_v<Ptr, std::shared_ptr<torch::autograd::Node>>) {
    return std::weak_ptr<torch::autograd::Node>(node);
  } else {
    return c10::weak_intrusive_ptr<torch::autograd::Node>(node);
  }
}

// A kind of our own in c10::ThreadLocalDebugInfo, which LibTorch propagates to the threads of a
// backward. It only compares kinds: an enumeration up to 2.14, where a value outside of its list
// works, and the address of a name from 2.15.
template <const std::string_view& kName, std::uint8_t kNumber, class Kind = c10::DebugInfoKind>
Kind own_debug_info_kind() {
  if constexpr (std::is_enum_v<Kind>) {
    return static_cast<Kind>(kNumber);
  } else {
    return Kind(&kName);
  }
}

// Gathers `part` of each rank into `whole`, one after another. A template, so that only its users
// need c10d's headers. Renamed in 2.14.
template <class ProcessGroup>
auto all_gather_into(ProcessGroup& group, at::Tensor& whole, at::Tensor& part) {
  if constexpr (requires { group.all_gather_single(whole, part); }) {
    return group.all_gather_single(whole, part);
  } else {
    return group._allgather_base(whole, part);
  }
}

// Returns the free and all bytes of a device; nothing if the allocator does not tell. From 2.10 on,
// for allocators that do. A template, so that only its users need the allocator's header.
template <class DeviceAllocator, class DeviceIndex>
std::optional<std::pair<std::size_t, std::size_t>> memory_info(DeviceAllocator& allocator,
                                                               DeviceIndex device) {
  if constexpr (requires { allocator.getMemoryInfo(device); }) {
    try {
      return allocator.getMemoryInfo(device);
    } catch (const c10::NotImplementedError&) {
      return std::nullopt;
    }
  } else {
    return std::nullopt;
  }
}

}  // namespace reprise::hooks_internal

#endif  // REPRISE_HOOKS_SEAM_TORCH_VERSION_H_
