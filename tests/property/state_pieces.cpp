// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Layers with a state that they write and read, and writes that no version counter counts.
#include <torch/torch.h>

#include "tests/property/piece.h"
#include "tests/property/random_program.h"

namespace reprise::testing {
namespace state_pieces {

using T = at::Tensor;

class LayersWithState : public Piece {
 public:
  explicit LayersWithState(PieceRandom& random) : variant_(pick(random, 6)) {}

  T run(const T& x, std::size_t /*call*/) override {
    switch (variant_) {
      case 0:
        return spectral_norm(x);
      case 1:
        return max_norm(x);
      case 2:
        return delayed_scaling(x);
      case 3:
        return running_range(x);
      case 4:
        return running_mean(x);
      default:
        return counted(x);
    }
  }

 private:
  // A step of the power iteration, then a clone of its vector.
  T spectral_norm(const T& x) {
    {
      const torch::NoGradGuard no_grad;
      const T v = weight_.t().mv(vector_);
      const T next = weight_.mv(v / v.norm());
      vector_.copy_(next / next.norm());
    }
    const T u = vector_.clone();
    const T sigma = u.dot(weight_.mv(weight_.t().mv(u).detach()));
    return x.mm(weight_ / sigma).tanh();
  }

  T max_norm(const T& x) {
    const T index = (x.detach().select(1, 0).abs() * 3).to(at::kLong).clamp(0, 5);
    {
      const torch::NoGradGuard no_grad;
      at::embedding_renorm_(weight_, index, 0.8, 2);
    }
    return at::embedding(weight_, index) * x.sin();
  }

  // FP8's: reads the history, then writes it.
  T delayed_scaling(const T& x) {
    const T scale = history_.max() / 16;
    {
      const torch::NoGradGuard no_grad;
      history_.copy_(history_.roll(1));
      history_[0] = x.abs().max();
    }
    return ((x / scale).round() * scale + x).mm(weight_).tanh();
  }

  // A fake quantisation by ranges that run along.
  T running_range(const T& x) {
    {
      const torch::NoGradGuard no_grad;
      low_.lerp_(x.min(), 0.3);
      high_.lerp_(x.max(), 0.3);
    }
    const T scale = ((high_ - low_) / 255).clamp_min(1e-4);
    const T zero = (-low_ / scale).round().clamp(0, 255).to(at::kInt);
    return at::fake_quantize_per_tensor_affine(x, scale, zero, 0, 255);
  }

  T running_mean(const T& x) {
    {
      const torch::NoGradGuard no_grad;
      vector_.lerp_(x.mean(0), 0.1);
      history_.add_(1);
    }
    return (x - vector_.clone()) / history_.sum();
  }

  T counted(const T& x) {
    const auto n = count_.item<std::int64_t>();
    count_.add_(1);
    return n % 2 == 0 ? x.sin() : x.cos() * x;
  }

  const std::size_t variant_;
  T weight_ = parameter({6, 6});
  const T vector_ = buffer(at::randn({6}));
  const T history_ = buffer(at::ones({4}));
  const T low_ = buffer(at::zeros({}));
  const T high_ = buffer(at::ones({}));
  const T count_ = buffer(at::zeros({}, at::kLong));
};

class Uncounted : public Piece {
 public:
  explicit Uncounted(PieceRandom& random)
      : variant_(pick(random, 4)),
        is_first_(pick(random, 2) == 0),
        is_late_(pick(random, 3) == 0),
        draws_(pick(random, 3) == 0) {}

  T run(const T& x, std::size_t call) override {
    if (draws_) {
      return with_drawn(x, drawn_[call]);
    }
    if (is_first_) {
      write(x);
    }
    const T y = x.sin() * (mean_ + 1).exp() + (x + variance_).cos();
    if (!is_first_ && !is_late_) {
      write(x);
    }
    return y;
  }

  bool differs_in_hooks() const override { return draws_; }
  bool may_end_in_error() const override { return is_late_ || !draws_; }

  void between_passes() override {
    if (is_late_) {
      write(at::linspace(-1, 1, 24).view({4, 6}));
      for (const T& drawn : draws_ ? drawn_ : std::vector<T>()) {
        update(drawn, momentum_);
      }
    }
  }

 private:
  // State that the code draws and autograd saves. The optimizer writes to what has been saved.
  T with_drawn(const T& x, const T& drawn) {
    {
      const torch::NoGradGuard no_grad;
      drawn.bernoulli_(0.5);
    }
    const T y = x.sin() * drawn;
    if (!is_late_) {
      update(drawn, x.detach().mean(0));
    }
    return is_first_ ? y * drawn.clone() : y;
  }
  static void update(const T& target, const T& gradient) {
    const torch::NoGradGuard no_grad;
    at::_fused_sgd_({target}, {gradient + 1}, {}, 0, 0, 0.1, 0, false, false, true);
  }
  void write(const T& x) {
    const torch::NoGradGuard no_grad;
    switch (variant_) {
      case 0:
        static_cast<void>(at::batch_norm(x, {}, {}, mean_, variance_, true, 0.1, 1e-5, false));
        return;
      case 1:
        static_cast<void>(
            at::_native_batch_norm_legit(x, {}, {}, mean_, variance_, true, 0.1, 1e-5));
        return;
      case 2:
        at::_fused_sgd_({mean_}, {x.mean(0)}, {momentum_}, 0.01, 0.9, 0.1, 0, false, false, false);
        return;
      default:
        at::_fused_adamw_({mean_}, {x.mean(0)}, {momentum_}, {variance_}, {}, {steps_}, 0.1, 0.9,
                          0.99, 0.01, 1e-8, false, false);
    }
  }

  const std::size_t variant_;
  const bool is_first_;
  const bool is_late_;
  const bool draws_;
  // One per call.
  const std::vector<T> drawn_ = [] {
    std::vector<T> made;
    for (int i = 0; i < 16; ++i) {
      made.push_back(at::ones({6}));
    }
    return made;
  }();
  T mean_ = buffer(at::zeros({6}));
  T variance_ = buffer(at::ones({6}));
  const T momentum_ = buffer(at::zeros({6}));
  const T steps_ = at::ones({});
};

}  // namespace state_pieces

std::shared_ptr<Piece> layers_with_state_piece(PieceRandom& random) {
  return std::make_shared<state_pieces::LayersWithState>(random);
}
std::shared_ptr<Piece> uncounted_piece(PieceRandom& random) {
  return std::make_shared<state_pieces::Uncounted>(random);
}

}  // namespace reprise::testing
