// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <torch/torch.h>

#include "tests/property/piece.h"
#include "tests/property/random_program.h"
#include "tests/testing/wrapper_tensor.h"

namespace reprise::testing {
namespace wrapper_pieces {

using T = at::Tensor;

// Between the two kinds and back.
class Wrappers : public Piece {
 public:
  explicit Wrappers(PieceRandom& random)
      : variant_(pick(random, 5)), has_storage_(pick(random, 2) == 0) {}

  T run(const T& x, std::size_t call) override {
    const T in = to_wrapper(x, has_storage_);
    const T h = in.sin();
    switch (variant_) {
      case 0:
        return from_wrapper(h.mm(weight_));
      case 1:
        return from_wrapper((h * in.cos()).tanh());
      case 2:
        return from_wrapper(h.mm(weight_).sigmoid().mm(weight_.t()));
      case 3: {
        const T kept = (h.detach() * in.detach()).exp();
        keep(call, inside_of(kept));
        return from_wrapper(h * kept);
      }
      default:
        return from_wrapper(h) * from_wrapper(in.exp()) + from_wrapper(weight_).sum(0);
    }
  }

 private:
  const std::size_t variant_;
  const bool has_storage_;
  const T weight_ = wrap(at::randn({6, 6}), has_storage_);
};

}  // namespace wrapper_pieces

std::shared_ptr<Piece> wrappers_piece(PieceRandom& random) {
  return std::make_shared<wrapper_pieces::Wrappers>(random);
}

}  // namespace reprise::testing
