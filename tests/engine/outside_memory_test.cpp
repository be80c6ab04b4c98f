// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Layers that write to memory from outside and read it again: workspaces, pools of weights, layers
// with state, and memory that is freed and filled again. Plain code is right, and so are regions.
#include <ATen/native/Resize.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reprise/engine/policy_bypass.h"
#include "reprise/policies/policies.h"
#include "tests/conformance/conformance_fixture.h"

namespace reprise::testing::outside_memory_test {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

using Code = std::function<at::Tensor(const at::Tensor&)>;
using Runner = std::function<at::Tensor(const Code&, const at::Tensor&)>;

// Layers that run one after the other, with what they share.
struct Model {
  std::vector<Code> layers;
  Tensors parameters;
  Tensors outside;
};

struct ModelCase {
  std::string name;
  bool has_state = false;  // that is overwritten: without a watch there are no copies of it
  bool runs_once = false;  // another forward would count a version of memory that it only fills
  std::function<Model(bool is_truth)> make;  // the truth has memory of its own for each read
  bool is_refilled = false;  // as a whole before each read: nothing has to be copied
};

void PrintTo(const ModelCase& tested, std::ostream* out) { *out << tested.name; }

using OptionKinds = std::vector<std::pair<std::string, CheckpointOptions>>;

OptionKinds option_kinds(const ModelCase& tested) {
  OptionKinds kinds = {{"default", {}},
                       {"none", {.determinism_check = DeterminismCheck::kNone}},
                       {"not watched", {.watch_operators = false}},
                       {"values", {.determinism_check = DeterminismCheck::kValues}},
                       {"external mutation allowed", {.allow_external_mutation = true}},
                       {"no early stop", {.early_stop = false}},
                       {"matmuls saved", {.policy = policies::save_matmuls()}},
                       {"everything saved", {.policy = policies::save_everything()}},
                       {"nothing saved", {.policy = policies::save_nothing()}}};
  OptionKinds on_tapes = kinds;
  for (auto& [name, options] : on_tapes) {
    name += ", tape";
    options.replay = ReplayMode::kTape;
  }
  kinds.insert(kinds.end(), on_tapes.begin(), on_tapes.end());
  if (tested.is_refilled) {
    kinds.emplace_back("no copies", CheckpointOptions{.copied_state_limit_bytes = 0});
    kinds.emplace_back("no copies, tape", CheckpointOptions{.replay = ReplayMode::kTape,
                                                            .copied_state_limit_bytes = 0});
  }
  return kinds;
}

// Workspaces: each layer fills the buffer before it reads it.

template <class Fill>
ModelCase workspace(std::string name, Fill fill) {
  return {std::move(name), false, false, [fill](bool) {
            const at::Tensor buffer = at::zeros({8});
            Model model{{}, {leaf({8})}, {buffer}};
            const at::Tensor w = model.parameters[0];
            for (int layer = 0; layer < 3; ++layer) {
              model.layers.emplace_back([=](const at::Tensor& x) {
                {
                  const at::NoGradGuard guard;
                  fill(buffer, x);
                }
                return (x * w * buffer.clone()).sin();
              });
            }
            return model;
          }};
}

// Weights that are copied to the slots of a pool, layer by layer. The slots take turns, also in the
// recomputation, or each layer has one.
template <class Fill>
ModelCase pool(std::string name, bool takes_turns, bool is_saved, Fill fill) {
  return {std::move(name), false, false,
          [=](bool is_truth) {
            struct Pool {
              Tensors slots{at::zeros({4, 4}), at::zeros({4, 4})};
              std::size_t next = 0;
            };
            const auto shared = std::make_shared<Pool>();
            Model model{{}, {}, {}};
            for (std::size_t layer = 0; layer < 5; ++layer) {
              const at::Tensor weight = at::randn({4, 4});
              const at::Tensor adapter = leaf({4, 4});
              model.parameters.push_back(adapter);
              model.layers.emplace_back([=](const at::Tensor& x) {
                const std::size_t place = takes_turns ? shared->next++ : layer;
                const at::Tensor slot =
                    is_truth ? at::zeros({4, 4}) : shared->slots[place % shared->slots.size()];
                fill(slot, weight);
                const at::Tensor h = x.mm(adapter);
                return (is_saved ? h.mm(slot) : h.mm(slot.clone())).tanh();
              });
            }
            return model;
          },
          /*is_refilled=*/true};
}

// Layers that change their state and use it.

ModelCase spectral_norm() {
  return {"spectral norm", /*has_state=*/true, false, [](bool) {
            Model model{{}, {leaf({4, 4})}, {at::randn({4})}};
            const at::Tensor w = model.parameters[0];
            const at::Tensor u = model.outside[0];
            const Code layer = [=](const at::Tensor& x) {
              {
                const at::NoGradGuard guard;
                const at::Tensor v = w.t().mv(u);
                const at::Tensor next = w.mv(v / v.norm());
                u.copy_(next / next.norm());
              }
              const at::Tensor direction = u.clone();
              const at::Tensor sigma = direction.dot(w.mv(w.t().mv(direction).detach()));
              return x.matmul(w / sigma).tanh();
            };
            model.layers = {layer, layer};
            return model;
          }};
}

ModelCase delayed_scaling() {
  return {"delayed scaling", false, false, [](bool) {
            Model model{{}, {leaf({4, 4})}, {at::ones({4})}};
            const at::Tensor w = model.parameters[0];
            const at::Tensor history = model.outside[0];
            const Code layer = [=](const at::Tensor& x) {
              const at::Tensor scale = history.max() / 127;
              {
                const at::NoGradGuard guard;
                history.copy_(history.roll(1));
                history[0] = x.abs().max();
              }
              return ((x / scale).round() * scale).matmul(w).tanh();
            };
            model.layers = {layer, layer, layer};
            return model;
          }};
}

// Reads a history between two writes.
ModelCase running_mean() {
  return {"running mean", /*has_state=*/true, false, [](bool) {
            Model model{{}, {leaf({4, 4})}, {at::ones({4})}};
            const at::Tensor w = model.parameters[0];
            const at::Tensor mean = model.outside[0];
            const Code layer = [=](const at::Tensor& x) {
              const at::Tensor h = (x - mean.clone()).mm(w);
              {
                const at::NoGradGuard guard;
                mean.mul_(0.9).add_(h.mean(0), 0.1);
              }
              const at::Tensor centred = h - mean.clone();
              {
                const at::NoGradGuard guard;
                mean.add_(1);
              }
              return (centred * mean.clone()).tanh();
            };
            model.layers = {layer, layer};
            return model;
          }};
}

ModelCase renormalised_embedding() {
  return {"renormalised embedding", false, false, [](bool) {
            Model model{{}, {leaf({6, 4})}, {}};
            const at::Tensor table = model.parameters[0];
            const Code layer = [=](const at::Tensor& x) {
              const at::Tensor index = x.detach().abs().sum(1).to(at::kLong).remainder(6);
              {
                const at::NoGradGuard guard;
                at::Tensor raw = table.data();
                at::embedding_renorm_(raw, index, 0.5, 2.0);
              }
              return (x + at::embedding(table, index)).tanh();
            };
            model.layers = {layer, layer};
            return model;
          }};
}

// Units as fully_shard() makes them: each gathers its weights into memory that has none, and frees
// the memory behind its forward, but not in a recomputation.

struct Unit {
  at::Tensor shard;
  at::Tensor whole;
  bool is_made_by_region = false;
  bool keeps_version = true;
  int gathers = 0;

  void gather() {
    if (!whole.defined()) {
      whole = at::empty(shard.sizes());
    }
    if (whole.storage().nbytes() == 0 || gathers == 0) {
      at::native::resize_bytes_nocuda(whole.storage(), static_cast<std::int64_t>(shard.nbytes()));
      const at::NoGradGuard guard;
      const std::int64_t version = whole._version();
      whole.copy_(shard);
      if (keeps_version) {
        c10::VariableVersion counter = whole.unsafeGetTensorImpl()->version_counter();
        counter.set_version(version);
      }
      ++gathers;
    }
  }
  void free() const { at::native::resize_bytes_nocuda(whole.storage(), 0); }
};

ModelCase units(std::string name, std::size_t in_region, bool is_made_by_region, bool bypasses,
                bool keeps_version = true) {
  return {std::move(name), false, /*runs_once=*/!keeps_version,
          [=](bool is_truth) {
            Model model{{}, {leaf({4, 4})}, {}};
            const at::Tensor w = model.parameters[0];
            std::vector<std::shared_ptr<Unit>> all;
            for (std::size_t i = 0; i < in_region; ++i) {
              const auto unit = std::make_shared<Unit>();
              unit->shard = at::randn({4, 4});
              unit->keeps_version = keeps_version;
              if (!is_made_by_region) {
                unit->whole = at::empty({4, 4});
                unit->free();
              }
              all.push_back(unit);
            }
            model.layers.emplace_back([=](const at::Tensor& x) {
              at::Tensor h = x.mm(w);
              for (const auto& unit : all) {
                {
                  std::optional<PolicyBypassGuard> hidden;
                  if (bypasses) {
                    hidden.emplace();
                  }
                  unit->gather();
                }
                h = h.mm(is_truth ? unit->whole.clone() : unit->whole).sin();
                if (!is_recomputing()) {
                  unit->free();
                }
              }
              return h.exp();
            });
            return model;
          },
          /*is_refilled=*/true};
}

std::vector<ModelCase> all_models() {
  std::vector<ModelCase> all = {
      workspace("copy_", [](const at::Tensor& b, const at::Tensor& x) { b.copy_(x).mul_(3); }),
      workspace("out=",
                [](at::Tensor b, const at::Tensor& x) { at::mul_out(b, x, at::scalar_tensor(3)); }),
      workspace("zero_, add_",
                [](const at::Tensor& b, const at::Tensor& x) { b.zero_().add_(x, 3); }),
      workspace("index",
                [](at::Tensor b, const at::Tensor& x) {
                  b.index_put_({torch::indexing::Slice()}, x * 3);
                }),
      workspace("hidden copy_",
                [](const at::Tensor& b, const at::Tensor& x) {
                  const PolicyBypassGuard hidden;
                  b.copy_(x * 3);
                }),
      spectral_norm(),
      delayed_scaling(),
      running_mean(),
      renormalised_embedding()};
  for (const bool takes_turns : {false, true}) {
    for (const bool is_saved : {false, true}) {
      const std::string name =
          std::string(takes_turns ? ", slots in turn" : ", a slot for a layer") +
          (is_saved ? ", saved" : "");
      all.push_back(pool("pool, copy_" + name, takes_turns, is_saved,
                         [](const at::Tensor& slot, const at::Tensor& w) { slot.copy_(w); }));
      all.push_back(pool("pool, hidden copy_" + name, takes_turns, is_saved,
                         [](const at::Tensor& slot, const at::Tensor& w) {
                           const PolicyBypassGuard hidden;
                           slot.copy_(w);
                         }));
      all.push_back(
          pool("pool, data().copy_" + name, takes_turns, is_saved,
               [](const at::Tensor& slot, const at::Tensor& w) { slot.data().copy_(w); }));
      all.push_back(
          pool("pool, variable_data().copy_" + name, takes_turns, is_saved,
               [](const at::Tensor& slot, const at::Tensor& w) { slot.variable_data().copy_(w); }));
    }
  }
  for (const std::size_t count : {1U, 2U, 3U}) {
    for (const bool is_made_by_region : {false, true}) {
      for (const bool bypasses : {false, true}) {
        const std::string name =
            c10::str(count, " units, made ", is_made_by_region ? "inside" : "before",
                     bypasses ? ", hidden" : "");
        all.push_back(units(name, count, is_made_by_region, bypasses));
        all.push_back(units(name + ", counted", count, is_made_by_region, bypasses, false));
      }
    }
  }
  return all;
}

class OutsideMemoryTest : public ConformanceTest, public ::testing::WithParamInterface<ModelCase> {
 protected:
  struct Outcome {
    Tensors results;
    Tensors outside;  // as forward left it
  };

  static Outcome step(const Model& model, const Runner& run, int forwards, int backwards) {
    const at::Tensor x = at::randn({3, 4}).requires_grad_();
    const at::Tensor flat = at::randn({8}).requires_grad_();
    const bool is_flat = model.parameters[0].dim() == 1;
    at::Tensor loss = at::zeros({});
    for (int forward = 0; forward < forwards; ++forward) {
      at::Tensor h = is_flat ? flat : x;
      for (const Code& layer : model.layers) {
        h = run(layer, h);
      }
      loss = loss + h.square().sum();
    }
    Tensors outside = model.outside;
    Tensors before;
    std::vector<std::int64_t> versions;
    for (const at::Tensor& each : outside) {
      before.push_back(each.detach().clone());
      versions.push_back(each._version());
    }
    Outcome outcome{{loss.detach()}, before};
    for (int backward = 0; backward < backwards; ++backward) {
      const Tensors found = torch::autograd::grad(
          {loss}, model.parameters, {}, backward + 1 < backwards, false, /*allow_unused=*/true);
      outcome.results.insert(outcome.results.end(), found.begin(), found.end());
    }
    for (std::size_t i = 0; i < outside.size(); ++i) {
      EXPECT_TRUE(bitwise_equal(outside[i].detach(), before[i]))
          << "backward has changed memory " << i;
      EXPECT_EQ(outside[i]._version(), versions[i]) << "of memory " << i;
    }
    return outcome;
  }
};

INSTANTIATE_TEST_SUITE_P(Models, OutsideMemoryTest, ::testing::ValuesIn(all_models()),
                         [](const auto& info) { return c10::str("Model", info.index); });

TEST_P(OutsideMemoryTest, IsAsWithoutCheckpointing) {
  for (const int forwards : {1, 2}) {
    for (const int backwards : {1, 2}) {
      if (forwards > 1 && GetParam().runs_once) {
        continue;
      }
      const auto outcome = [&](bool is_truth, const Runner& run) {
        torch::manual_seed(5);
        return step(GetParam().make(is_truth), run, forwards, backwards);
      };
      const Outcome expected =
          outcome(true, [](const Code& code, const at::Tensor& x) { return code(x); });
      for (const auto& [name, options] : option_kinds(GetParam())) {
        if (GetParam().has_state && options.replay == ReplayMode::kFunction &&
            !options.watch_operators) {
          continue;
        }
        SCOPED_TRACE(c10::str(GetParam().name, ", ", name, ", ", forwards, " forwards, ", backwards,
                              " backwards"));
        try {
          const Outcome got =
              outcome(false, [&options = options](const Code& code, const at::Tensor& x) {
                return checkpoint(options, code, x);
              });
          expect_same_bits(got.results, expected.results);
          expect_same_bits(got.outside, expected.outside);
        } catch (const c10::Error& error) {
          ADD_FAILURE() << error.what_without_backtrace();
        }
      }
    }
  }
}

TEST_P(OutsideMemoryTest, IsAsWithoutCheckpointingInNestedRegions) {
  const auto outcome = [&](bool is_truth, const Runner& run) {
    torch::manual_seed(5);
    return step(GetParam().make(is_truth), run, 1, 1);
  };
  const Outcome expected =
      outcome(true, [](const Code& code, const at::Tensor& x) { return code(x.exp()).sin(); });
  for (const auto& [outer_name, outer] : option_kinds(GetParam())) {
    for (const auto& [inner_name, inner] : option_kinds(GetParam())) {
      const auto is_to_be_tried = [](const CheckpointOptions& options, const std::string& name) {
        return name.starts_with("default") || name.starts_with("everything saved") ||
               options.determinism_check == DeterminismCheck::kValues;
      };
      // The trace of a policy begins with the memory that only the first run makes.
      const bool is_refused = GetParam().name.find("made inside") != std::string::npos &&
                              outer.replay == ReplayMode::kFunction &&
                              outer_name.find("saved") != std::string::npos &&
                              inner.replay == ReplayMode::kTape;
      if (is_refused || !is_to_be_tried(outer, outer_name) || !is_to_be_tried(inner, inner_name)) {
        continue;
      }
      SCOPED_TRACE(c10::str(GetParam().name, ", ", outer_name, " around ", inner_name));
      try {
        const auto layer = [&inner = inner](const Code& code) {
          return [&inner, code](const at::Tensor& h) {
            return checkpoint(inner, code, h.exp()).sin();
          };
        };
        const Outcome got =
            outcome(false, [&, &outer = outer](const Code& code, const at::Tensor& x) {
              return checkpoint(outer, layer(code), x);
            });
        expect_same_bits(got.results, expected.results);
        expect_same_bits(got.outside, expected.outside);
      } catch (const c10::Error& error) {
        ADD_FAILURE() << error.what_without_backtrace();
      }
    }
  }
}

}  // namespace
}  // namespace reprise::testing::outside_memory_test
