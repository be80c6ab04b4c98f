// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Scopes whose code writes through pointers, out of the dispatcher's sight.
#include "reprise/engine/checkpoint_scope.h"
#include "reprise/engine/value_annotations.h"
#include "reprise/engine/watch/memory_sample.h"
#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/stores.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"
#include "tests/engine/under_policies.h"

namespace reprise::testing::scope_pointer_test {
namespace {

using Make = std::function<at::Tensor(const at::Tensor& like)>;

struct NamedMake {
  std::string name;
  Make make;
};

// Tensors as code makes them to fill them.
std::vector<NamedMake> makes() {
  return {
      {"empty", [](const at::Tensor& like) { return at::empty(like.sizes()); }},
      {"empty_like", [](const at::Tensor& like) { return at::empty_like(like); }},
      {"new_empty",
       [](const at::Tensor& like) {
         return like.new_empty({4, 8});
       }},
      {"zeros", [](const at::Tensor& like) { return at::zeros(like.sizes()); }},
      {"full", [](const at::Tensor& like) { return at::full(like.sizes(), 2.0); }},
      {"arange",
       [](const at::Tensor&) {
         return at::arange(32, at::kFloat).view({4, 8});
       }},
      {"zeros_like", [](const at::Tensor& like) { return at::zeros_like(like); }},
      {"ones_like", [](const at::Tensor& like) { return at::ones_like(like); }},
      {"full_like", [](const at::Tensor& like) { return at::full_like(like, 2.0); }},
      {"new_zeros",
       [](const at::Tensor& like) {
         return like.new_zeros({4, 8});
       }},
      {"new_ones",
       [](const at::Tensor& like) {
         return like.new_ones({4, 8});
       }},
      {"new_full",
       [](const at::Tensor& like) {
         return like.new_full({4, 8}, 2.0);
       }},
      {"empty, zero_", [](const at::Tensor& like) { return at::empty(like.sizes()).zero_(); }},
      {"empty_like, fill_", [](const at::Tensor& like) { return at::empty_like(like).fill_(3); }},
      {"tensor({..})",
       [](const at::Tensor&) {
         return torch::tensor({{0., 1., 2., 3.}, {4., 5., 6., 7.}}, at::kFloat).repeat({2, 2});
       }},
      {"tensor({..}) of one element",
       [](const at::Tensor&) {
         return torch::tensor({1.F}).expand({4, 8}).contiguous();
       }},
      {"rows filled",
       [](const at::Tensor& like) {
         const at::Tensor rows = at::empty(like.sizes());
         for (int i = 0; i < 4; ++i) {
           rows[i].fill_(i);
         }
         return rows;
       }},
      {"zeros, contiguous",
       [](const at::Tensor& like) {
         return at::zeros_like(like).t().contiguous().view({4, 8});
       }},
      {"to",
       [](const at::Tensor& like) { return at::zeros_like(like, at::kDouble).to(at::kFloat); }},
      {"clone", [](const at::Tensor& like) { return like.detach().clone(); }},
      {"rand", [](const at::Tensor& like) { return at::rand(like.sizes()); }},
      {"rand_like", [](const at::Tensor& like) { return at::rand_like(like); }}};
}

void write_through_pointer(const at::Tensor& tensor, float first) {
  auto* const data = tensor.mutable_data_ptr<float>();
  for (int i = 0; i < tensor.numel(); ++i) {
    data[i] = first + static_cast<float>(i) / 7;
  }
}

// A user's kernel: writes its result through a pointer, and saves it.
struct ByHand : torch::autograd::Function<ByHand> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& in,
                            const Make& make) {
    at::Tensor out = make(in);
    auto* const to = out.mutable_data_ptr<float>();
    const auto* const from = static_cast<const float*>(in.const_data_ptr());
    for (int i = 0; i < in.numel(); ++i) {
      to[i] = from[i] * from[i];
    }
    context->save_for_backward({in, out});
    return out;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {gradients[0] * (saved[0] * 2 + saved[1]), at::Tensor()};
  }
};

class ScopePointerTest : public ConformanceTest {
 protected:
  using Code = std::function<at::Tensor(const at::Tensor& x)>;

  void expect_plain_bits(const Code& code, const CheckpointOptions& options = {}) {
    const at::Tensor x = leaf({4, 8});
    const auto run = [&](bool in_scope) {
      torch::manual_seed(5);
      std::optional<CheckpointScope> scope;
      if (in_scope) {
        scope.emplace(options);
      }
      const at::Tensor y = code(x);
      scope.reset();
      return Tensors{y.detach(), torch::autograd::grad({watch(y).sum()}, {x})[0]};
    };
    expect_same_bits(run(true), run(false));
  }

  void expect_plain_bits_with_options(const Code& code) {
    const std::vector<CheckpointOptions> kinds = {
        {},
        {.determinism_check = DeterminismCheck::kValues},
        {.policy = policies::save_everything()},
        {.policy =
             policies::keep_in(stores::packed({.min_bytes = 0}), policies::save_everything())}};
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      SCOPED_TRACE(kind);
      expect_plain_bits(code, kinds[kind]);
    }
  }
};

TEST_F(ScopePointerTest, KeepsMemoryThatAFunctionWritesThroughAPointer) {
  for (const NamedMake& made : makes()) {
    SCOPED_TRACE(made.name);
    expect_plain_bits_with_options(
        [&](const at::Tensor& x) { return at::sin(ByHand::apply(x.exp(), made.make)) * 2; });
  }
}

TEST_F(ScopePointerTest, KeepsMemoryThatCodeWritesThroughAPointer) {
  for (const NamedMake& made : makes()) {
    SCOPED_TRACE(made.name);
    expect_plain_bits_with_options([&](const at::Tensor& x) {
      const at::Tensor table = made.make(x);
      write_through_pointer(table, 1);
      return at::sin(at::exp(x) * table);
    });
  }
}

// Also if the next operator writes there itself, to a part.
TEST_F(ScopePointerTest, KeepsMemoryThatIsOverwrittenInPart) {
  for (const NamedMake& made : makes()) {
    SCOPED_TRACE(made.name);
    expect_plain_bits_with_options([&](const at::Tensor& x) {
      const at::Tensor table = made.make(x);
      write_through_pointer(table, 1);
      for (int i = 0; i < 4; ++i) {
        table[0].fill_(i);
      }
      return at::sin(at::exp(x) * table);
    });
  }
}

// Large enough for a sample of the bytes.
TEST_F(ScopePointerTest, WriteToTheEndOfALargeValueIsNoticed) {
  expect_plain_bits_with_options([&](const at::Tensor& x) {
    const at::Tensor table = x.detach().repeat({100, 100}).exp();
    table.mutable_data_ptr<float>()[table.numel() - 1] = 7;
    return at::sin(x.repeat({100, 100}) * table).sum();
  });
}

// As without the scope, where autograd's SavedVariables look at the memory.
TEST_F(ScopePointerTest, SlotHoldsMemoryWrittenThroughAPointerLater) {
  expect_plain_bits_with_options([](const at::Tensor& x) {
    const at::Tensor table = x.detach().exp();
    const at::Tensor a = x * table;           // saves it
    const at::Tensor b = at::sin(x + table);  // reads it
    write_through_pointer(table, 3);
    const at::Tensor c = at::cos(x + table);
    return a + b * c;
  });
}

TEST_F(ScopePointerTest, ScratchMemoryThatOnlySlotsReadMayBeWrittenAgain) {
  expect_plain_bits_with_options([](const at::Tensor& x) {
    const at::Tensor scratch = at::empty({4, 8});
    at::Tensor y = x;
    for (int i = 0; i < 3; ++i) {
      write_through_pointer(scratch, static_cast<float>(i));
      y = y + x * scratch;
    }
    return y;
  });
}

TEST_F(ScopePointerTest, ScratchMemoryThatAReplayMustReadIsAnErrorWhenItIsWrittenAgain) {
  for (const bool is_outside : {false, true}) {
    const at::Tensor x = leaf({4, 8});
    const at::Tensor outside = at::zeros({4, 8});
    at::Tensor y;
    {
      const CheckpointScope scope({.name = "steps"});
      const at::Tensor scratch = is_outside ? outside : at::empty({4, 8});
      write_through_pointer(scratch, 1);
      y = at::sin(x * scratch);  // whose argument a replay computes again
      write_through_pointer(scratch, 2);
      y = y + x * scratch;
    }
    try {
      torch::autograd::grad({watch(y).sum()}, {x});
      FAIL();
    } catch (const MutationError& error) {
      EXPECT_THAT(error.what_without_backtrace(),
                  ::testing::AllOf(::testing::HasSubstr("region 'steps': operator "),
                                   ::testing::HasSubstr("aten::mul.Tensor reads a tensor"),
                                   ::testing::HasSubstr("Float [4, 8]"),
                                   ::testing::HasSubstr("written through a pointer")));
    }
  }
}

TEST_F(ScopePointerTest, AllowsSavingResultsOfScratchMemory) {
  expect_plain_bits([](const at::Tensor& x) {
    const at::Tensor scratch = at::empty({4, 8});
    at::Tensor y = x;
    for (int i = 0; i < 3; ++i) {
      write_through_pointer(scratch, static_cast<float>(i));
      y = y + at::sin(must_save(x.detach() * scratch + x));
    }
    return y;
  });
}

TEST_F(ScopePointerTest, KeepsNoMemoryThatIsReadThroughAPointer) {
  const at::Tensor x = leaf({4, 8});
  for (const NamedMake& made : makes()) {
    if (made.name.starts_with("empty") || made.name == "new_empty") {
      continue;
    }
    SCOPED_TRACE(made.name);
    const std::int64_t before = live_cpu_bytes();
    at::Tensor y;
    {
      const CheckpointScope scope;
      const at::Tensor table = made.make(x);
      float sum = 0;
      for (int i = 0; i < table.numel(); ++i) {
        sum += table.data_ptr<float>()[i];
      }
      y = at::sin(x * table).sum() * sum;
    }
    EXPECT_EQ(live_cpu_bytes() - before, y.nbytes());
    torch::autograd::grad({watch(y)}, {x});
  }
}

TEST_F(ScopePointerTest, SampleDependsOnBothEndsAndOnAllOfLittle) {
  using engine_internal::sample_memory;
  for (const bool of_all_bytes : {false, true}) {
    for (const std::int64_t size : {1, 7, 60, 61, 1000}) {
      const at::Tensor tensor = at::zeros({size}, at::kFloat);
      const auto sample = sample_memory(tensor, of_all_bytes);
      EXPECT_NE(sample, 0U);
      EXPECT_EQ(sample_memory(at::zeros({size}), of_all_bytes), sample);
      for (std::int64_t i = 0; i < size; ++i) {
        const bool is_seen = of_all_bytes || size <= 60 || i == 0 || i == size - 1;
        tensor.mutable_data_ptr<float>()[i] = 1;
        if (is_seen) {
          EXPECT_NE(sample_memory(tensor, of_all_bytes), sample) << size << " " << i;
        }
        tensor.mutable_data_ptr<float>()[i] = 0;
      }
    }
  }
  EXPECT_EQ(sample_memory(at::empty({0}), true), 0U);
  EXPECT_EQ(sample_memory(at::empty({2}, at::kMeta), true), 0U);
}

// A store on a thread of its own may read a result that a policy keeps only after that.
TEST_F(ScopePointerTest, AResultThatIsWrittenBeforeItsStoreHasReadItIsAnError) {
  const at::Tensor x = leaf({4, 6});
  const auto code = [&x] {
    at::Tensor y = x.sin();
    {
      const at::Tensor scratch = at::zeros({4, 6});
      y = y * scratch.clone();
      scratch.mutable_data_ptr<float>()[20] = 7;
    }
    return (x + y).tanh().sin();
  };
  const at::Tensor expected = torch::autograd::grad({code().sum()}, {x})[0];
  const std::vector<std::shared_ptr<ActivationStore>> all = {
      stores::disk({.min_bytes = 0}), stores::compressed({.min_bytes = 0}), stores::slab({}),
      stores::packed({.min_bytes = 0}), stores::device()};
  for (const auto& store : all) {
    for (std::uint64_t bits = 0; bits < 64; ++bits) {
      SCOPED_TRACE(bits);
      at::Tensor y;
      {
        const CheckpointScope scope(
            CheckpointOptions{.policy = by_ordinal_in(store, bits, /*must=*/false)});
        y = code();
      }
      try {
        EXPECT_TRUE(bitwise_equal(torch::autograd::grad({y.sum()}, {x})[0], expected));
      } catch (const MutationError& error) {
        const bool is_clone_kept = (bits >> 2 & 1U) != 0;
        EXPECT_FALSE(is_clone_kept) << error.what_without_backtrace();
      }
    }
  }
}

}  // namespace
}  // namespace reprise::testing::scope_pointer_test
