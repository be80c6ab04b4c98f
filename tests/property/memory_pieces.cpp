// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Pieces that use memory again: workspaces, tables that the first call makes, weights that are
// gathered into freed memory or streamed through a few slots.
#include <ATen/native/Resize.h>
#include <torch/torch.h>

#include <array>

#include "tests/property/buffer_reads.h"
#include "tests/property/piece.h"
#include "tests/property/random_program.h"

namespace reprise::testing {
namespace memory_pieces {

using T = at::Tensor;

class Workspaces : public Piece {
 public:
  explicit Workspaces(PieceRandom& random)
      : fill_(pick(random, 7)), read_(pick(random, kReads)), takes_turns_(pick(random, 2) == 0) {}

  T run(const T& x, std::size_t call) override {
    T& slot = slots_[takes_turns_ ? call % 2 : 0];
    fill(slot, x.detach());
    return read(read_, x, slot);
  }

 private:
  void fill(T& slot, const T& x) const {
    const torch::NoGradGuard no_grad;
    switch (fill_) {
      case 0:
        slot.copy_(x).mul_(3);
        return;
      case 1:
        at::mul_out(slot, x, x);
        return;
      case 2:
        slot.zero_().add_(x, 0.5);
        return;
      case 3:
        slot.fill_(0.25);
        slot.select(0, 1).copy_(x[2]);
        return;
      case 4:
        slot.bernoulli_(0.5).div_(0.5);
        return;
      case 5:
        slot.data().copy_(x);
        return;
      default:
        slot.normal_().add_(x);
    }
  }

  const std::size_t fill_;
  const std::size_t read_;
  const bool takes_turns_;
  std::array<T, 2> slots_ = {buffer(at::zeros({4, 6})), buffer(at::empty({4, 6}).zero_())};
};

// A table that the first call makes.
class LazyState : public Piece {
 public:
  explicit LazyState(PieceRandom& random) : variant_(pick(random, 3)), read_(pick(random, 3)) {}

  T run(const T& x, std::size_t /*call*/) override {
    const torch::AutoGradMode no_grad(false);
    if (!made_.defined()) {
      made_ = make(x);
      keep(0, made_);
    }
    const torch::AutoGradMode grad(true);
    return variant_ == 2 ? x.mm(made_) : read(read_, x, made_);
  }

 private:
  T make(const T& x) const {
    switch (variant_) {
      case 0:
        return at::ones({4, 6}).tril();
      case 1:
        return x.exp();
      default:  // quantised at the first call
        return (weight_ * 8).round().to(at::kChar).to(at::kFloat) / 8;
    }
  }

  const std::size_t variant_;
  const std::size_t read_;
  const T weight_ = parameter({6, 6});
  T made_;
};

// A buffer that the first call makes and each call fills. A policy may keep its contents, which a
// later forward overwrites.
class LazyBuffer : public Piece {
 public:
  explicit LazyBuffer(PieceRandom& random) : read_(pick(random, 3)) {}

  T run(const T& x, std::size_t /*call*/) override {
    {
      const torch::NoGradGuard no_grad;
      if (!made_.defined()) {
        made_ = at::empty({4, 6});
        keep(0, made_);
      }
      made_.copy_(x).mul_(0.5);
    }
    return read(read_, x, made_);
  }

 private:
  const std::size_t read_;
  T made_;
};

// Weights in shards, as FSDP2's units: gathered before the forward and before the backward into
// memory that is freed in between. What it believes gathered is gathered.
class Unit : public Piece {
 public:
  explicit Unit(PieceRandom& random)
      : writes_through_parameter_(pick(random, 2) == 0), has_two_(pick(random, 2) == 0) {
    for (Weight& weight : weights_) {
      weight.shard = at::randn({36}).mul_(0.4);
      weight.gathered = at::empty({36});
      weight.full = parameter({6, 6});
      weight.full.set_data(weight.gathered.view({6, 6}));
      free(weight);
    }
  }

  T run(const T& x, std::size_t /*call*/) override {
    const T y = run_unit(weights_[0], x);
    return has_two_ ? run_unit(weights_[1], y) : y;
  }

 private:
  struct Weight {
    T shard;
    T gathered;  // the memory of `full`
    T full;
    bool is_gathered = true;
    bool is_in_backward = false;
  };

  T run_unit(Weight& weight, const T& x) {
    gather(weight);
    const T in = x.sin();
    if (in.requires_grad()) {
      in.register_hook([&weight](const T& /*gradient*/) {
        weight.is_in_backward = false;
        free(weight);
      });
    }
    const T y = in.mm(weight.full);
    if (!weight.is_in_backward) {
      free(weight);
    }
    if (y.requires_grad()) {
      y.register_hook([this, &weight](const T& /*gradient*/) {
        weight.is_in_backward = true;
        gather(weight);
      });
    }
    return y.tanh();
  }

  void gather(Weight& weight) const {
    if (weight.is_gathered) {
      return;
    }
    const torch::NoGradGuard no_grad;
    resize(weight, 36 * sizeof(float));
    if (writes_through_parameter_) {
      c10::VariableVersion counter = weight.full.unsafeGetTensorImpl()->version_counter();
      const std::uint32_t version = counter.current_version();
      weight.full.view({36}).copy_(weight.shard);
      counter.set_version(version);
    } else {
      weight.gathered.copy_(weight.shard);
    }
    weight.is_gathered = true;
  }

  static void free(Weight& weight) {
    if (weight.is_gathered) {
      resize(weight, 0);
      weight.is_gathered = false;
    }
  }

  static void resize(const Weight& weight, std::size_t bytes) {
    at::native::resize_bytes_cpu(weight.gathered.storage().unsafeGetStorageImpl(), bytes);
  }

  const bool writes_through_parameter_;
  const bool has_two_;
  std::array<Weight, 2> weights_;
};

// Frozen weights in two recycled slots: without regions, autograd needs one a layer.
class Streamed : public Piece {
 public:
  // takes_turns: a recomputation then takes other slots.
  Streamed(PieceRandom& random, bool is_plain, bool takes_turns)
      : how_(pick(random, 3)), takes_turns_(takes_turns), is_plain_(is_plain) {}

  T run(const T& x, std::size_t call) override {
    const T weight = fetch(sources_[call % 3], call);
    return (x + x.mm(adapter_)).mm(weight).tanh();
  }

 private:
  T fetch(const T& source, std::size_t call) {
    if (is_plain_) {
      return source.clone();
    }
    const T& slot = slots_[takes_turns_ ? next_++ % 2 : call % 2];
    if (how_ == 0) {
      slot.copy_(source);
    } else if (how_ == 1) {
      slot.data().copy_(source);
    } else {
      slot.variable_data().copy_(source);
    }
    return slot;
  }

  const std::size_t how_;
  const bool takes_turns_;
  const bool is_plain_;
  std::size_t next_ = 0;
  const T adapter_ = parameter({6, 6});
  const std::array<T, 3> sources_ = {at::randn({6, 6}), at::randn({6, 6}), at::randn({6, 6})};
  const std::array<T, 2> slots_ = {at::empty({6, 6}), at::empty({6, 6})};
};

}  // namespace memory_pieces

std::shared_ptr<Piece> workspaces_piece(PieceRandom& random) {
  return std::make_shared<memory_pieces::Workspaces>(random);
}
std::shared_ptr<Piece> lazy_state_piece(PieceRandom& random) {
  return std::make_shared<memory_pieces::LazyState>(random);
}
std::shared_ptr<Piece> lazy_buffer_piece(PieceRandom& random) {
  return std::make_shared<memory_pieces::LazyBuffer>(random);
}
std::shared_ptr<Piece> units_piece(PieceRandom& random) {
  return std::make_shared<memory_pieces::Unit>(random);
}
std::shared_ptr<Piece> streamed_piece(PieceRandom& random, bool is_plain, bool takes_turns) {
  return std::make_shared<memory_pieces::Streamed>(random, is_plain, takes_turns);
}

}  // namespace reprise::testing
