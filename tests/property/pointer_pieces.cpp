// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Pieces that read and fill memory through pointers.
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/property/buffer_reads.h"
#include "tests/property/piece.h"
#include "tests/property/random_program.h"

namespace reprise::testing {
namespace pointer_pieces {

using T = at::Tensor;

void fill_through_pointer(const T& tensor, std::size_t call) {
  auto* const p = tensor.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < tensor.numel(); ++i) {
    p[i] = 0.1F * static_cast<float>(i) + 0.3F * static_cast<float>(call % 5);
  }
}

// Filled by the code that reads it.
class Pointers : public Piece {
 public:
  explicit Pointers(PieceRandom& random)
      : variant_(pick(random, 4)), read_(pick(random, kReads)), at_(pick(random, 24)) {
    if (variant_ == 0 && pick(random, 2) == 0) {
      pass(slot_);
    }
  }

  T run(const T& x, std::size_t call) override {
    switch (variant_) {
      case 0: {
        const T slot = argument_or(slot_);
        fill_through_pointer(slot, call);
        return read(read_, x, slot);
      }
      case 1: {
        const T made = x.detach().sigmoid();
        made.mutable_data_ptr<float>()[at_] = 0.25F;
        return (x * made).sin();
      }
      case 2: {
        const auto own = std::make_shared<std::vector<float>>(24, 0.5F);
        (*own)[at_] = 2;
        return read(read_, x, at::from_blob(own->data(), {4, 6}, [own](void*) {}));
      }
      default: {
        const T made = at::zeros({4, 6});
        made.mutable_data_ptr<float>()[at_] = static_cast<float>(call);
        const T y = read(read_, x, made);
        made.mutable_data_ptr<float>()[at_] = 7;
        return y;
      }
    }
  }

 private:
  const std::size_t variant_;
  const std::size_t read_;
  const std::size_t at_;
  const T slot_ = at::zeros({4, 6});
};

// Filled before the region, and again between forward and backward.
class OutsidePointers : public Piece {
 public:
  explicit OutsidePointers(PieceRandom& random)
      : variant_(pick(random, 3)), read_(pick(random, kReads)), at_(pick(random, 24)) {
    slot_ = variant_ == 0 ? at::from_blob(memory_.data(), {4, 6}) : at::zeros({4, 6});
    fill_through_pointer(slot_, 1);
    if (pick(random, 2) == 0) {
      pass(slot_);
    }
  }

  T run(const T& x, std::size_t /*call*/) override {
    const T slot = argument_or(slot_);
    const T y = read(read_, x, slot);
    if (variant_ == 2) {
      slot.mutable_data_ptr<float>()[at_] += 1;
    }
    return y;
  }

  void between_passes() override {
    if (variant_ != 2) {  // one byte
      static_cast<char*>(slot_.mutable_data_ptr())[at_ * 4 + 1] ^= 0x15;
    }
  }

 private:
  const std::size_t variant_;
  const std::size_t read_;
  const std::size_t at_;
  std::array<float, 24> memory_ = {};
  T slot_;
};

// Operators fill a workspace, which the code reads through a pointer.
class ReadBack : public Piece {
 public:
  explicit ReadBack(PieceRandom& random)
      : write_(pick(random, 3)),
        made_(pick(random, 3)),
        read_(pick(random, kReads)),
        at_(pick(random, 24)) {}

  T run(const T& x, std::size_t /*call*/) override {
    const torch::NoGradGuard no_grad;
    write(x.detach());
    const T made = make(x.detach());
    const auto* const from = slot_.const_data_ptr<float>();
    auto* const to = made.mutable_data_ptr<float>();
    if (made_ == 0) {
      std::copy_n(from, slot_.numel(), to);
    } else {
      to[at_] = from[at_];
    }
    const torch::AutoGradMode grad(true);
    return read(read_, x, made);
  }

 private:
  void write(const T& x) {
    switch (write_) {
      case 0:
        slot_.copy_(x);
        return;
      case 1:
        at::mul_out(slot_, x, x);
        return;
      default:
        slot_.add_(x);
    }
  }

  T make(const T& x) const {
    switch (made_) {
      case 0:
        return at::empty({4, 6});
      case 1:
        return at::zeros({4, 6});
      default:
        return x.sigmoid();
    }
  }

  const std::size_t write_;
  const std::size_t made_;
  const std::size_t read_;
  const std::size_t at_;
  T slot_ = buffer(at::zeros({4, 6}));
};

}  // namespace pointer_pieces

std::shared_ptr<Piece> pointers_piece(PieceRandom& random) {
  return std::make_shared<pointer_pieces::Pointers>(random);
}
std::shared_ptr<Piece> outside_pointers_piece(PieceRandom& random) {
  return std::make_shared<pointer_pieces::OutsidePointers>(random);
}
std::shared_ptr<Piece> read_back_piece(PieceRandom& random) {
  return std::make_shared<pointer_pieces::ReadBack>(random);
}

}  // namespace reprise::testing
