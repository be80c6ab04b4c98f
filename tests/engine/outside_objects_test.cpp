// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors from outside that have no memory to be followed by (sparse, nested), and ones that are
// gone when forward ends: replaced or changed, they are an error.
#include <deque>
#include <memory>
#include <stdexcept>
#include <utility>

#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/errors.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::outside_objects_test {
namespace {

enum class Kind { kCoo, kCsr, kNested };
enum class Change { kNone, kReplaced, kInPlace };

at::Tensor matrix(Kind kind) {
  const at::Tensor dense = at::rand({6, 6}) + 0.1;
  if (kind == Kind::kCoo) {
    return dense.to_sparse();
  }
  return kind == Kind::kCsr
             ? dense.to_sparse_csr()
             : at::_nested_tensor_from_tensor_list({at::rand({2, 6}), at::rand({3, 6})});
}

at::Tensor layer_of(const at::Tensor& m, const at::Tensor& t) {
  return m.is_nested() ? at::nested_to_padded_tensor(at::linear(m, t.sin()), 0.0).sin()
                       : at::mm(m, t.sin()).sin();
}

enum class Form { kPlain, kFunction, kScope };

// The gradient, when the matrix has been changed after forward.
at::Tensor gradient(Form form, Kind kind, bool is_argument, Change change) {
  torch::manual_seed(0);
  const auto held = std::make_shared<at::Tensor>(matrix(kind));
  const at::Tensor other = matrix(kind);
  const at::Tensor x = leaf(kind == Kind::kNested ? at::IntArrayRef{6, 6} : at::IntArrayRef{6, 3});
  const auto code = [=](const at::Tensor& t, const at::Tensor& m) {
    return layer_of(is_argument ? m : *held, t);
  };
  at::Tensor y;
  if (form == Form::kFunction) {
    y = checkpoint(code, x, is_argument ? *held : at::Tensor());
  } else if (form == Form::kScope) {
    const CheckpointScope scope;
    y = code(x, *held);
  } else {
    y = code(x, *held);
  }
  if (change == Change::kReplaced) {
    *held = other;
  } else if (change == Change::kInPlace) {
    const at::NoGradGuard no_grad;
    held->mul_(2);
  }
  return torch::autograd::grad({y.sum()}, {x})[0];
}

class OutsideObjectsTest : public ConformanceTest {
 protected:
  static constexpr Kind kKinds[] = {Kind::kCoo, Kind::kCsr, Kind::kNested};
};

TEST_F(OutsideObjectsTest, AreAsInPlain) {
  for (const Kind kind : kKinds) {
    for (const bool is_argument : {false, true}) {
      SCOPED_TRACE(static_cast<int>(kind));
      const at::Tensor plain = gradient(Form::kPlain, kind, is_argument, Change::kNone);
      for (const Form form : {Form::kFunction, Form::kScope}) {
        EXPECT_TRUE(bitwise_equal(gradient(form, kind, is_argument, Change::kNone), plain));
      }
    }
  }
}

TEST_F(OutsideObjectsTest, AreAnErrorIfReplaced) {
  for (const Kind kind : kKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    const at::Tensor plain = gradient(Form::kPlain, kind, false, Change::kNone);
    EXPECT_THROW(gradient(Form::kFunction, kind, false, Change::kReplaced), MutationError);
    EXPECT_TRUE(bitwise_equal(gradient(Form::kScope, kind, false, Change::kReplaced), plain));
  }
}

// The code reads the caller's variable, which is its argument too.
TEST_F(OutsideObjectsTest, AreAnErrorIfReplacedAlthoughTheyAreAnArgumentToo) {
  for (const Kind kind : kKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    at::Tensor held = matrix(kind);
    const at::Tensor x =
        leaf(kind == Kind::kNested ? at::IntArrayRef{6, 6} : at::IntArrayRef{6, 3});
    const auto code = [&](const at::Tensor& t, const at::Tensor&) { return layer_of(held, t); };
    for (const bool is_replaced : {false, true}) {
      const at::Tensor plain = torch::autograd::grad({code(x, held).sum()}, {x})[0];
      const at::Tensor y = checkpoint(code, x, held);
      const at::Tensor nested = checkpoint(
          [&](const at::Tensor& t, const at::Tensor& m) { return checkpoint(code, t, m); }, x,
          held);
      if (is_replaced) {
        held = matrix(kind);
        EXPECT_THROW(torch::autograd::grad({y.sum()}, {x}), CheckpointError);
        EXPECT_THROW(torch::autograd::grad({nested.sum()}, {x}), CheckpointError);
      } else {
        EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], plain));
        EXPECT_TRUE(bitwise_equal(torch::autograd::grad({nested.sum()}, {x})[0], plain));
      }
    }
  }
}

TEST_F(OutsideObjectsTest, AreAnErrorIfChangedInPlace) {
  for (const Kind kind : kKinds) {
    for (const bool is_argument : {false, true}) {
      SCOPED_TRACE(static_cast<int>(kind));
      EXPECT_ANY_THROW(gradient(Form::kFunction, kind, is_argument, Change::kInPlace));
      EXPECT_ANY_THROW(gradient(Form::kScope, kind, is_argument, Change::kInPlace));
    }
  }
}

// Made in each run anew.
TEST_F(OutsideObjectsTest, AreNoneIfTheRegionMakesThem) {
  expect_as_plain([](const auto& run) {
    const at::Tensor dense = at::rand({6, 6});
    const at::Tensor x = at::randn({6, 3}).requires_grad_();
    Tensors results;
    for (const bool csr : {false, true}) {
      const at::Tensor y = run(
          [&](const at::Tensor& t) {
            const at::Tensor m = csr ? dense.to_sparse_csr() : dense.to_sparse();
            return (at::mm(m, t.sin()) + at::mm(m.detach(), t.cos())).sin();
          },
          x);
      results.push_back(torch::autograd::grad({y.sum()}, {x})[0]);
    }
    return results;
  });
}

TEST_F(OutsideObjectsTest, AreAnErrorIfTakenFromAQueue) {
  for (const bool is_owned : {false, true}) {
    for (const bool is_saved : {false, true}) {
      std::deque<at::Tensor> queue = {at::randn({8}), at::randn({8})};
      const at::Tensor owner = is_owned ? queue.front() : at::Tensor();
      const at::Tensor x = leaf({8});
      const at::Tensor y = checkpoint(
          [&queue, is_saved](const at::Tensor& t) {
            const at::Tensor m = queue.front();
            queue.pop_front();
            return is_saved ? (t * m).sin() : (t + m).sin();
          },
          x);
      EXPECT_THROW(y.sum().backward(), MutationError) << is_owned << is_saved;
    }
  }
}

at::Tensor gradient_with_queue(at::Tensor first, at::Tensor second, const at::Tensor& x) {
  std::deque<at::Tensor> queue;
  queue.push_back(std::move(first));
  queue.push_back(std::move(second));
  const at::Tensor y = checkpoint(
      [&queue](const at::Tensor& t) {
        const at::Tensor m = std::move(queue.front());
        queue.pop_front();
        return m.layout() == at::kStrided ? (t + m).sin() : at::mm(m, t).sin();
      },
      x);
  return torch::autograd::grad({y.sum()}, {x})[0];
}

TEST_F(OutsideObjectsTest, AreAnErrorIfTheNextOneDiffersInOneElement) {
  for (int trial = 0; trial < 20; ++trial) {
    const at::Tensor value = at::rand({64, 64}) + 0.1;
    at::Tensor other = value.clone();
    other.view(-1)[at::randint(64 * 64, {}).item<std::int64_t>()] += 0.25;
    const at::Tensor x = leaf({64, 64});
    EXPECT_THROW(gradient_with_queue(value.clone(), other, x), MutationError);
    EXPECT_THROW(gradient_with_queue(value.to_sparse(), other.to_sparse(), x), MutationError);
    EXPECT_THROW(gradient_with_queue(value.to_sparse_csr(), other.to_sparse_csr(), x),
                 MutationError);
    EXPECT_NO_THROW(gradient_with_queue(value.to_sparse(), value.to_sparse(), x));
  }
}

// An equal one is as good.
TEST_F(OutsideObjectsTest, AreNoErrorIfTheQueueHasTheSameAgain) {
  const at::Tensor value = at::randn({8});
  std::deque<at::Tensor> queue = {value.clone(), value.clone()};
  const at::Tensor x = leaf({8});
  const at::Tensor y = checkpoint(
      [&queue](const at::Tensor& t) {
        const at::Tensor m = queue.front();
        queue.pop_front();
        return (t + m).sin();
      },
      x);
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], (x + value).cos()));
}

// A compressed sparse tensor owns the graph of the values that it was made of.
at::Tensor compressed(const at::Tensor& t) {
  const at::Tensor rows = torch::tensor({0, 1, 1, 2, 2, 3, 3}, at::kLong);
  const at::Tensor columns = torch::tensor({1, 2, 0}, at::kLong);
  return at::sparse_compressed_tensor(rows, columns, t.select(0, 0).narrow(0, 0, 3), {6, 8},
                                      at::TensorOptions(at::kFloat).layout(at::kSparseCsr));
}

TEST_F(OutsideObjectsTest, LeaveNothingIfAnInnerScopeDropsThem) {
  const at::Tensor x = leaf({6, 8});
  const CheckpointScope outer;
  const at::Tensor y = x.sin();
  at::Tensor unused;
  {
    const CheckpointScope inner;
    unused = compressed(y.sin()).to_dense();
  }
}

TEST_F(OutsideObjectsTest, LeaveNothingIfForwardFails) {
  const auto saves = [](const PolicyContext&) { return CheckpointPolicy::PREFER_SAVE; };
  for (const CheckpointOptions& options :
       {CheckpointOptions{}, CheckpointOptions{.policy = saves},
        CheckpointOptions{.determinism_check = DeterminismCheck::kValues},
        CheckpointOptions{.replay = ReplayMode::kTape}}) {
    for (const bool is_nested : {false, true}) {
      const auto fails = [](const at::Tensor& t) -> at::Tensor {
        const at::Tensor dense = (compressed(t.tanh()) * 2).to_dense().sin();
        throw std::runtime_error("fails");
      };
      const auto outer = [&](const at::Tensor& t) { return checkpoint(options, fails, t.sin()); };
      const at::Tensor x = leaf({6, 8});
      EXPECT_THROW(is_nested ? checkpoint(options, outer, x) : checkpoint(options, fails, x),
                   std::runtime_error);
    }
  }
}

}  // namespace
}  // namespace reprise::testing::outside_objects_test
