// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Pieces that keep something besides their result: members, views, averages, memory set with
// set_data(), results that nothing uses.
#include <torch/torch.h>

#include "reprise/engine/recomputing.h"
#include "tests/property/piece.h"
#include "tests/property/random_program.h"

namespace reprise::testing {
namespace kept_pieces {

using T = at::Tensor;

class Members : public Piece {
 public:
  explicit Members(PieceRandom& random) : variant_(pick(random, 8)) {}

  T run(const T& x, std::size_t call) override {
    const T h = x.mm(weight_).tanh();
    keep_something(h, call);
    return h.mm(weight_).tanh();
  }

  T auxiliary(std::size_t first) const override {
    T sum;
    for (auto at = auxiliary_.lower_bound(first); at != auxiliary_.end(); ++at) {
      sum = sum.defined() ? sum + at->second : at->second;
    }
    return sum;
  }

 private:
  void keep_something(const T& h, std::size_t call) {
    switch (variant_) {
      case 0:
        keep(call, h.mean(0) * 3 + 1);
        return;
      case 1:
        keep(call, (h * 2).detach().select(0, 0));
        return;
      case 2: {
        const T made = h.exp();
        keep(call, made.narrow(1, 1, 2), 0);
        keep(call, made.t(), 1);
        return;
      }
      case 3: {
        const T shifted = (h.detach() - 5).contiguous();
        keep(call, torch::tensor(std::vector<float>(shifted.const_data_ptr<float>(),
                                                    shifted.const_data_ptr<float>() + 24)));
        return;
      }
      case 4: {
        const auto parts = (h + 2).chunk(2, 1);
        keep(call, parts[1], 0);
        keep(call, parts[0].detach().cos(), 1);
        return;
      }
      case 5: {
        const T last = h.detach().clone();
        last.mul_(2);
        keep(call, last);
        return;
      }
      case 6:  // a term of the loss, as layers of experts keep one
        auxiliary_[call] = h.square().mean();
        return;
      default: {
        const torch::NoGradGuard no_grad;
        keep(call, at::cat({h, h.sin()}, 1).select(1, 3));
      }
    }
  }

  const std::size_t variant_;
  const T weight_ = parameter({6, 6});
  std::map<std::size_t, T> auxiliary_;
};

// What code accumulates by assignment.
class Accumulated : public Piece {
 public:
  T run(const T& x, std::size_t /*call*/) override {
    average_ = average_ * 0.9 + x.detach().mean(0) * 0.1;
    keep(0, average_);
    return x.cos();
  }

 private:
  T average_ = at::zeros({6});
};

class SetData : public Piece {
 public:
  explicit SetData(PieceRandom& random) : variant_(pick(random, 4)) {}

  T run(const T& x, std::size_t call) override {
    const T h = x.sin();
    switch (variant_) {
      case 0:
        return initialised_by_the_first_batch(h);
      case 1: {
        const T own = at::zeros({6}).requires_grad_();
        own.set_data(h.detach().mean(0).neg());
        keep(call, own);
        return (h + own).tanh();
      }
      case 2:
        shift_.data().copy_(h.detach().mean(0));
        return h.exp() + shift_.detach().clone();
      default: {
        const T fresh = at::zeros({4, 6});
        fresh.set_data(h.detach().exp());
        keep(call, fresh.select(1, 2));
        return h * fresh;
      }
    }
  }

 private:
  // As Glow's ActNorm.
  T initialised_by_the_first_batch(const T& h) {
    if (!flag_.item<bool>()) {
      shift_.set_data(h.mean(0).neg().detach());
      scale_.set_data((1.0 / (h.std(0, false, false) + 1e-6)).detach());
      flag_.fill_(true);
      keep(0, shift_, 0);
      keep(0, scale_, 1);
    }
    return (h + shift_) * scale_;
  }

  const std::size_t variant_;
  const T flag_ = buffer(at::zeros({}, at::kBool));
  const T shift_ = parameter({6});
  const T scale_ = parameter({6});
};

class Detached : public Piece {
 public:
  explicit Detached(PieceRandom& random) : variant_(pick(random, 3)) {}

  T run(const T& x, std::size_t call) override {
    T h = x.mm(weight_);
    const T used = (h + 1).sin();
    if (variant_ == 0) {
      h.detach_();
      keep(call, h);
      return used + h;
    }
    T state = h * 2;
    keep(call, state);
    state.detach_();
    return variant_ == 1 ? used * state : used + state.requires_grad_().exp();
  }

 private:
  const std::size_t variant_;
  const T weight_ = parameter({6, 6});
};

// Two buffers in turn: by their names, or by their contents.
class MemberSwaps : public Piece {
 public:
  explicit MemberSwaps(PieceRandom& random) : variant_(pick(random, 3)) {}

  T run(const T& x, std::size_t /*call*/) override {
    if (variant_ == 0) {
      const T y = x * (first_ + 1);
      std::swap(first_, second_);
      return y.sin();
    }
    const T y = (x + first_).sin() * second_.exp();
    if (variant_ == 1) {
      const T held = first_.clone();
      first_.copy_(second_);
      second_.copy_(held);
    }
    return y;
  }

  void between_passes() override {
    if (variant_ == 2) {
      std::swap(first_, second_);
    }
  }

 private:
  const std::size_t variant_;
  T first_ = buffer(at::randn({6}));
  T second_ = buffer(at::randn({6}));
};

// `.data = other` between forward and backward, of what plain autograd does not save.
class DataSwaps : public Piece {
 public:
  explicit DataSwaps(PieceRandom& random) : variant_(pick(random, 3)) {}

  T run(const T& x, std::size_t /*call*/) override {
    return (x + first_).sin() * (first_ + 1) + second_.exp();
  }

  void between_passes() override {
    const T held = first_.variable_data();
    if (variant_ == 0) {
      first_.set_data(at::full({6}, 0.5));
    } else if (variant_ == 1) {
      first_.set_data(second_.variable_data());
      second_.set_data(held);
    } else {
      held.fill_(0.25);
    }
  }

 private:
  const std::size_t variant_;
  const T first_ = buffer(at::randn({6}));
  const T second_ = buffer(at::randn({6}));
};

class Unused : public Piece {
 public:
  explicit Unused(PieceRandom& random) : variant_(pick(random, 8)) {}

  T run(const T& x, std::size_t /*call*/) override {
    const T h = x.mm(weight_);
    switch (variant_) {
      case 0:
        static_cast<void>(h.exp().mm(weight_).sin());
        break;
      case 1:
        static_cast<void>(at::dropout(h, 0.5, true) * at::rand_like(h));
        break;
      case 2: {
        T unused = h.sigmoid();
        unused.mul_(2).narrow(1, 0, 2).zero_();
        break;
      }
      case 3:
        return std::get<0>(h.sort(1)) + std::get<0>(h.max(0));
      case 4: {
        const torch::NoGradGuard no_grad;
        T sum = at::empty({6});
        at::sum_out(sum, h, 0);
        break;
      }
      case 5: {
        const T unused = h * state_;
        if (!is_recomputing()) {
          never_used_.push_back(unused);
        }
        break;
      }
      case 6:  // by a mask that is written in place
        static_cast<void>(at::combinations(h.select(0, 0), 2).prod(1).sin());
        break;
      default: {
        const auto [output, mean, rstd] = at::native_layer_norm(h, {6}, {}, {}, 1e-5);
        const T noise = at::empty_like(h).normal_();
        return output.tanh();
      }
    }
    return h.cos();
  }

  void between_passes() override { state_.add_(1); }

 private:
  const std::size_t variant_;
  const T weight_ = parameter({6, 6});
  const T state_ = buffer(at::ones({4, 6}));
  std::vector<T> never_used_;  // with their graphs
};

}  // namespace kept_pieces

std::shared_ptr<Piece> members_piece(PieceRandom& random) {
  return std::make_shared<kept_pieces::Members>(random);
}
std::shared_ptr<Piece> accumulated_piece() { return std::make_shared<kept_pieces::Accumulated>(); }
std::shared_ptr<Piece> set_data_piece(PieceRandom& random) {
  return std::make_shared<kept_pieces::SetData>(random);
}
std::shared_ptr<Piece> detached_piece(PieceRandom& random) {
  return std::make_shared<kept_pieces::Detached>(random);
}
std::shared_ptr<Piece> member_swaps_piece(PieceRandom& random) {
  return std::make_shared<kept_pieces::MemberSwaps>(random);
}
std::shared_ptr<Piece> data_swaps_piece(PieceRandom& random) {
  return std::make_shared<kept_pieces::DataSwaps>(random);
}
std::shared_ptr<Piece> unused_piece(PieceRandom& random) {
  return std::make_shared<kept_pieces::Unused>(random);
}

}  // namespace reprise::testing
