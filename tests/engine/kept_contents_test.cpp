// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Results that a policy keeps, and inputs that surrounding hooks pack, hold what forward's
// operators have read, or an error says that they do not.
#include <array>
#include <functional>
#include <memory>
#include <utility>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/errors.h"
#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/saved_tensor_hooks.h"
#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::kept_contents_test {
namespace {

using Code = std::function<at::Tensor(const at::Tensor&)>;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class KeptContentsTest : public ConformanceTest {
 protected:
  static at::Tensor in_scope(const CheckpointOptions& options, const Code& code,
                             const at::Tensor& x) {
    const CheckpointScope scope(options);
    return code(x);
  }

  static CheckpointOptions saves_sigmoid(std::shared_ptr<ActivationStore> store = nullptr) {
    return {.policy = [store = std::move(store)](const PolicyContext& context) {
      return context.op() == "aten::sigmoid" ? PolicyAnswer(CheckpointPolicy::MUST_SAVE, store)
                                             : PolicyAnswer(CheckpointPolicy::PREFER_RECOMPUTE);
    }};
  }

  // In a scope and in a function: the kept result changes between forward and backward.
  static void expect_mutation(const std::shared_ptr<ActivationStore>& store,
                              const std::function<void(const at::Tensor&)>& change,
                              const char* message) {
    const at::Tensor x = leaf({4, 6});
    at::Tensor made;
    const auto code = [&](const at::Tensor& t) {
      made = t.detach().sigmoid();
      return t * (made + 1);
    };
    const CheckpointOptions options = saves_sigmoid(store);
    for (const bool is_function : {false, true}) {
      const at::Tensor y = is_function ? checkpoint(options, code, x) : in_scope(options, code, x);
      change(made);
      EXPECT_THAT([&] { torch::autograd::grad({y.sum()}, {x}); },
                  ThrowsMessage<MutationError>(HasSubstr(message)));
    }
  }
};

// Nothing of it is saved: without regions, the later write reaches no gradient.
at::Tensor written_after_it_was_read(const at::Tensor& x) {
  const at::Tensor made = x.detach().sigmoid();
  const at::Tensor y = x * (made + 1);
  made.mutable_data_ptr<float>()[1] = 7;
  return y;
}

TEST_F(KeptContentsTest, AResultWrittenThroughAPointerInTheRegionIsComputedAgain) {
  const at::Tensor x = leaf({4, 6});
  const at::Tensor expected = torch::autograd::grad({written_after_it_was_read(x).sum()}, {x})[0];
  const CheckpointOptions options = saves_sigmoid();
  const at::Tensor of_scope = in_scope(options, written_after_it_was_read, x);
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({of_scope.sum()}, {x})[0], expected));
  const at::Tensor of_function = checkpoint(options, written_after_it_was_read, x);
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({of_function.sum()}, {x})[0], expected));
}

TEST_F(KeptContentsTest, AResultWrittenThroughAPointerAfterTheRegionIsAnError) {
  expect_mutation(
      nullptr, [](const at::Tensor& made) { made.mutable_data_ptr<float>()[1] = 7; },
      "was written through a pointer");
}

// A replay in a backward inside the region reads results that forward has just kept.
TEST_F(KeptContentsTest, AResultWrittenThroughAPointerBeforeABackwardInside) {
  const at::Tensor x = leaf({4, 6});
  const auto code = [](const at::Tensor& t) {
    const at::Tensor made = t.detach().sigmoid();
    made.mutable_data_ptr<float>()[1] = 7;
    const at::Tensor y = (t * made).sin();
    return y * torch::autograd::grad({y.sum()}, {t}, {}, true)[0].detach();
  };
  const at::Tensor expected = torch::autograd::grad({code(x).sum()}, {x})[0];
  const at::Tensor y = checkpoint(saves_sigmoid(), code, x);
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], expected));
}

TEST_F(KeptContentsTest, AResultChangedBeforeItsStoreHasReadItIsAMutation) {
  expect_mutation(
      stores::device(), [](const at::Tensor& made) { made.add_(1); },
      "that the policy keeps has been mutated");
}

// A store on a thread of its own may read it before or after the code writes.
TEST_F(KeptContentsTest, AResultWrittenThroughAPointerBesideItsStoreIsComputedAgain) {
  const at::Tensor x = leaf({4, 6});
  const auto code = [](const at::Tensor& t) {
    at::Tensor y = t;
    for (int i = 0; i < 4; ++i) {
      const at::Tensor made = y.detach().sigmoid();
      made.mutable_data_ptr<float>()[20] += 1;
      y = (y * 0.5 + (y * made).sin()).tanh();
    }
    return y;
  };
  const at::Tensor expected = torch::autograd::grad({code(x).sum()}, {x})[0];
  const std::array<std::shared_ptr<ActivationStore>, 2> all = {
      stores::disk({.min_bytes = 0}), stores::compressed({.min_bytes = 0})};
  for (std::size_t round = 0; round < 50; ++round) {
    const CheckpointOptions options = saves_sigmoid(all[round % 2]);
    const at::Tensor y = checkpoint(options, code, x);
    EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], expected)) << round;
  }
}

TEST_F(KeptContentsTest, AnInputPackedAfterAPointerHasWrittenItIsAnError) {
  const at::Tensor x = leaf({4, 6});
  const at::Tensor outside = at::rand({4, 6});
  const auto code = [&](const at::Tensor& t) {
    const at::Tensor y = t * (outside + 1);
    outside.mutable_data_ptr<float>()[3] += 1;
    return y;
  };
  const SavedTensorHooksGuard copies([](const at::Tensor& t) { return t.clone(); },
                                     [](const at::Tensor& t) { return t; });
  const at::Tensor y = in_scope({}, code, x);
  EXPECT_THAT([&] { torch::autograd::grad({y.sum()}, {x}); },
              ThrowsMessage<MutationError>(HasSubstr("written through a pointer")));
}

TEST_F(KeptContentsTest, AnExpandedInputThatAHookHasCopied) {
  const at::Tensor x = leaf({4, 6});
  const at::Tensor row = at::rand({6}).expand({4, 6});
  const auto code = [&](const at::Tensor& t) { return (t * (row + 1)).sin(); };
  const at::Tensor expected = torch::autograd::grad({code(x).sum()}, {x})[0];
  const SavedTensorHooksGuard copies(
      [](const at::Tensor& t) { return t.clone(at::MemoryFormat::Contiguous); },
      [](const at::Tensor& t) { return t; });
  const at::Tensor y = in_scope({}, code, x);
  EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], expected));
}

// Views of sparse tensors are other objects, which depend on the same modified value.
TEST_F(KeptContentsTest, AViewOfASparseTensorThatDependsOnAnotherMemberIsAnError) {
  const at::Tensor x = leaf({4, 6});
  const at::Tensor weight = leaf({6, 6});
  for (const bool is_transposed : {false, true}) {
    at::Tensor first = at::rand({6, 6});
    at::Tensor second = at::rand({6, 6});
    const auto code = [&](const at::Tensor& t) {
      const at::Tensor sparse = (first + 1).to_sparse();
      std::swap(first, second);
      const at::Tensor view = is_transposed ? sparse.t() : sparse.detach();
      return (view.to_dense() * weight).sum() + t.detach();
    };
    const at::Tensor y = checkpoint(code, x);
    EXPECT_THAT([&] { torch::autograd::grad({y.sum()}, {weight}); },
                ThrowsMessage<MutationError>(HasSubstr("in other memory")));
  }
}

// The scope inside retains an alias of the sparse tensor, which is one more object.
TEST_F(KeptContentsTest, ASparseTensorInAScopeInsideThatDependsOnAnotherMemberIsAnError) {
  const at::Tensor x = leaf({4, 6});
  const at::Tensor weight = leaf({6, 6});
  at::Tensor first = at::rand({6});
  at::Tensor second = at::rand({6});
  const auto code = [&](const at::Tensor& t) {
    const at::Tensor h = t.sin();
    const CheckpointScope scope;
    const at::Tensor y = h * (first + 1);
    std::swap(first, second);
    return at::_sparse_mm(y.detach().relu().to_sparse(), weight).tanh();
  };
  const at::Tensor y = checkpoint(code, x);
  EXPECT_THAT([&] { torch::autograd::grad({y.sum()}, {weight}); },
              ThrowsMessage<MutationError>(HasSubstr("in other memory")));
}

// A tape that fills all of its slots at once fills the one that backward asks for, if another one
// depends on a tensor that has changed.
TEST_F(KeptContentsTest, MayChangeIfNobodyAsks) {
  const at::Tensor x = leaf({4, 6});
  const CheckpointOptions options[] = {
      {.early_stop = false},
      {.early_stop = false},
      {.early_stop = false, .input_store = stores::packed({.min_bytes = 0})},
      {.early_stop = false, .input_store = stores::disk({.min_bytes = 0})}};
  for (const CheckpointOptions& each : options) {
    const at::Tensor state = at::ones({4, 6});
    at::Tensor unused;
    const auto code = [&](const at::Tensor& t) {
      unused = t.exp() * state;
      return t.sin().exp();
    };
    const at::Tensor y = in_scope(each, code, x);
    state.add_(1);
    expect_same_bits(torch::autograd::grad({y.sum()}, {x}),
                     torch::autograd::grad({code(x).sum()}, {x}));
    const at::Tensor z = in_scope(each, code, x);
    state.add_(1);
    EXPECT_THROW(torch::autograd::grad({z.sum() + unused.sum()}, {x}), c10::Error);
  }
}

}  // namespace
}  // namespace reprise::testing::kept_contents_test
