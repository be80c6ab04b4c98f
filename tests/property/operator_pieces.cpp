// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Operators that are unusual as operators: that look at which objects they are given, that draw
// without saying so, whose results share memory, that save first and fill afterwards, with tensors
// of other layouts; and operators that run on other threads.
#include <ATen/ThreadLocalState.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <exception>
#include <functional>
#include <optional>
#include <thread>
#include <tuple>

#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/store_guard.h"
#include "tests/property/piece.h"
#include "tests/property/random_program.h"

namespace reprise::testing {
namespace operator_pieces {

using T = at::Tensor;

T scaled_by_sameness(const T& a, const T& b) { return a * (a.is_same(b) ? 1.0 : 2.0); }
T mask(const T& x) { return (at::rand_like(x) > 0.5).to(at::kFloat) * 2; }
std::tuple<T, T> halves(const T& x) {
  const T both = at::cat({x, x * 2});
  return {both.narrow(0, 0, x.size(0)), both.narrow(0, x.size(0), x.size(0))};
}

TORCH_LIBRARY(reprise_property, library) {
  library.def("scaled_by_sameness(Tensor a, Tensor b) -> Tensor");
  library.def("mask(Tensor x) -> Tensor");
  library.def("halves(Tensor x) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(reprise_property, CPU, library) {
  library.impl("scaled_by_sameness", &scaled_by_sameness);
  library.impl("mask", &mask);
  library.impl("halves", &halves);
}

template <class Signature>
auto operator_named(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

class SameArgument : public Piece {
 public:
  explicit SameArgument(PieceRandom& random) : variant_(pick(random, 3)) {}

  T run(const T& x, std::size_t /*call*/) override {
    static const auto kScaled =
        operator_named<T(const T&, const T&)>("reprise_property::scaled_by_sameness");
    const T h = x.detach().sin();
    if (variant_ == 0) {
      const T view = h.t();
      return kScaled.call(view, view).t() * x;
    }
    if (variant_ == 1) {
      const T view = h.t();
      return kScaled.call(view, h.t()).t() * x + kScaled.call(h, h);
    }
    const T q = h.view({1, 4, 6});
    return std::get<0>(at::_native_multi_head_attention(q, q, q, 6, 2, in_, in_bias_, out_,
                                                        out_bias_, {}, false)) *
           x;
  }

 private:
  const std::size_t variant_;
  const T in_ = at::randn({18, 6});
  const T in_bias_ = at::randn({18});
  const T out_ = at::randn({6, 6});
  const T out_bias_ = at::randn({6});
};

class UntaggedDraws : public Piece {
 public:
  T run(const T& x, std::size_t /*call*/) override {
    static const auto kMask = operator_named<T(const T&)>("reprise_property::mask");
    const T h = x.sin();
    return (h * kMask.call(h.detach())).tanh();
  }
};

class OneBuffer : public Piece {
 public:
  explicit OneBuffer(PieceRandom& random) : variant_(pick(random, 2)) {}

  T run(const T& x, std::size_t call) override {
    static const auto kHalves =
        operator_named<std::tuple<T, T>(const T&)>("reprise_property::halves");
    if (variant_ == 0) {
      const auto [first, second] = kHalves.call(x.detach());
      keep(call, second);
      return first * x + second * x.sin();
    }
    const T h = x.detach().repeat({1, 3}).view({1, 4, 18});
    const auto [q, k, v] = at::_transform_bias_rescale_qkv(h, at::ones({18}), 2);
    return (q + v).reshape({4, 6}) * x;
  }

 private:
  const std::size_t variant_;
};

// Saves memory that the operator fills afterwards, large enough for a store to take its time: one
// of the program's, or one around the operator alone.
class SavedFirst : public Piece {
 public:
  SavedFirst(PieceRandom& random, bool is_plain) : store_(random_store(random, is_plain)) {}

  T run(const T& x, std::size_t /*call*/) override {
    std::optional<StoreGuard> guard;
    if (store_) {
      guard.emplace(store_);
    }
    const T large = x.repeat({64, 64});
    return at::rrelu(large.sin(), 0.1, 0.4, true).narrow(0, 100, 4).narrow(1, 100, 6) +
           large.mean();
  }

 private:
  static std::shared_ptr<ActivationStore> random_store(PieceRandom& random, bool is_plain) {
    const std::size_t variant = pick(random, 4);
    if (is_plain || variant == 0) {
      return nullptr;
    }
    const auto disk = stores::disk({.min_bytes = 0});
    return variant == 1 ? disk : variant == 2 ? stores::slab({}) : stores::packed({}) | disk;
  }

  const std::shared_ptr<ActivationStore> store_;
};

class OddTensors : public Piece {
 public:
  explicit OddTensors(PieceRandom& random) : variant_(pick(random, 8)) {}

  T run(const T& x, std::size_t call) override {
    const T some = x.detach();
    switch (variant_) {
      case 0: {
        const T zero = at::_efficientzerotensor({4, 6});
        return x.sin() * (zero + 1) + zero;
      }
      case 1: {
        const T q = at::quantize_per_tensor(some, 0.1, 10, at::kQUInt8);
        keep(call, q.dequantize());
        return x * q.dequantize();
      }
      case 2:
        return at::_sparse_mm(some.relu().to_sparse(), weight_).tanh();
      case 3:
        return some.relu().to_sparse_csr().matmul(weight_);
      case 4: {
        const T s = (x * 2).to_sparse();
        keep(call, s);
        return s.to_dense().sin();
      }
      case 5: {
        const T nested = torch::nested::as_nested_tensor({x.narrow(0, 0, 1), x.narrow(0, 1, 3)});
        const T parts = at::linear(nested * 2, weight_);
        return parts.to_padded_tensor(0).sin();
      }
      case 6:
        return x.contiguous().to_mkldnn().relu().to_dense().exp();
      default: {
        const T shape = at::empty({4, 6}, at::kMeta).mm(at::empty({6, 3}, at::kMeta));
        return x.cos() * static_cast<double>(shape.size(1));
      }
    }
  }

 private:
  const std::size_t variant_;
  const T weight_ = parameter({6, 6});
};

// inherits: the thread has the state of the one that starts it, as those of at::parallel_for.
class Threads : public Piece {
 public:
  Threads(PieceRandom& random, bool inherits) : variant_(pick(random, 4)), inherits_(inherits) {
    // Nothing shows a region that a thread without its state writes to what the region never reads:
    // docs/semantics.md, Threads.
    variant_ = variant_ == 1 && !inherits ? 0 : variant_;
  }

  T run(const T& x, std::size_t call) override {
    T h = x.detach().sigmoid();
    T other;
    elsewhere([&] {
      const torch::AutoGradMode grad(variant_ == 3);
      if (variant_ == 0) {
        h.select(0, 2).fill_(0.25);
      } else if (variant_ == 1) {
        count_.select(0, 1).add_(1);
      } else if (variant_ == 2) {
        other = h.exp().mul_(2);
      } else {
        other = x.mm(weight_).sin();
      }
    });
    keep(call, h);
    return other.defined() ? (x * other).tanh() : (x * h).sin();
  }

 private:
  void elsewhere(const std::function<void()>& code) const {
    const at::ThreadLocalState state;
    std::exception_ptr thrown;
    std::thread([&] {
      std::optional<at::ThreadLocalStateGuard> inherited;
      if (inherits_) {
        inherited.emplace(state);
      }
      try {
        code();
      } catch (...) {
        thrown = std::current_exception();
      }
    }).join();
    if (thrown) {
      std::rethrow_exception(thrown);
    }
  }

  std::size_t variant_;
  const bool inherits_;
  const T weight_ = parameter({6, 6});
  const T count_ = buffer(at::zeros({4}));
};

}  // namespace operator_pieces

std::shared_ptr<Piece> operators_piece(Kind kind, PieceRandom& random, bool is_plain) {
  switch (kind) {
    case Kind::kSameArgument:
      return std::make_shared<operator_pieces::SameArgument>(random);
    case Kind::kUntaggedDraws:
      return std::make_shared<operator_pieces::UntaggedDraws>();
    case Kind::kOneBuffer:
      return std::make_shared<operator_pieces::OneBuffer>(random);
    case Kind::kSavedFirst:
      return std::make_shared<operator_pieces::SavedFirst>(random, is_plain);
    default:
      return std::make_shared<operator_pieces::OddTensors>(random);
  }
}

std::shared_ptr<Piece> threads_piece(PieceRandom& random, bool inherits) {
  return std::make_shared<operator_pieces::Threads>(random, inherits);
}

}  // namespace reprise::testing
