// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/property/piece.h"

#include <torch/torch.h>

namespace reprise::testing {

std::vector<at::Tensor> Piece::kept() const {
  std::vector<at::Tensor> all = buffers_;
  for (const auto& [place, tensor] : kept_) {
    all.push_back(tensor);
  }
  return all;
}

void Piece::keep(std::size_t call, at::Tensor tensor, std::size_t which) {
  kept_[{call, which}] = std::move(tensor);
}

at::Tensor Piece::parameter(at::IntArrayRef sizes) {
  return parameters_.emplace_back(at::randn(sizes).mul_(0.4).requires_grad_());
}

at::Tensor Piece::buffer(at::Tensor tensor) {
  buffers_.push_back(tensor);
  return tensor;
}

std::shared_ptr<Piece> make_piece(Kind kind, PieceRandom& random, bool is_plain) {
  switch (kind) {
    case Kind::kMembers:
      return members_piece(random);
    case Kind::kAccumulated:
      return accumulated_piece();
    case Kind::kSetData:
      return set_data_piece(random);
    case Kind::kDetached:
      return detached_piece(random);
    case Kind::kMemberSwaps:
      return member_swaps_piece(random);
    case Kind::kDataSwaps:
      return data_swaps_piece(random);
    case Kind::kUnused:
      return unused_piece(random);
    case Kind::kWorkspaces:
      return workspaces_piece(random);
    case Kind::kLazyState:
      return lazy_state_piece(random);
    case Kind::kLazyBuffer:
      return lazy_buffer_piece(random);
    case Kind::kUnits:
      return units_piece(random);
    case Kind::kStreamed:
    case Kind::kStreamedInTurn:
      return streamed_piece(random, is_plain, kind == Kind::kStreamedInTurn);
    case Kind::kPointers:
      return pointers_piece(random);
    case Kind::kOutsidePointers:
      return outside_pointers_piece(random);
    case Kind::kReadBack:
      return read_back_piece(random);
    case Kind::kLayersWithState:
      return layers_with_state_piece(random);
    case Kind::kUncounted:
      return uncounted_piece(random);
    case Kind::kWrappers:
      return wrappers_piece(random);
    case Kind::kThreads:
    case Kind::kForeignThreads:
      return threads_piece(random, kind == Kind::kThreads);
    default:
      return operators_piece(kind, random, is_plain);
  }
}

}  // namespace reprise::testing
