// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/property/random_program.h"

#include <torch/torch.h>

#include <optional>
#include <utility>

#include "reprise/engine/checkpoint.h"
#include "reprise/engine/checkpoint_scope.h"

namespace reprise::testing {
std::vector<at::Tensor> run_as(Form form, const CheckpointOptions& options, const Code& code,
                               const std::vector<at::Tensor>& inputs) {
  if (form == Form::kPlain) {
    return code(inputs);
  }
  if (form == Form::kScope) {
    const CheckpointScope scope(options);
    return code(inputs);
  }
  CheckpointOptions with_form = options;
  with_form.replay = form == Form::kTape ? ReplayMode::kTape : ReplayMode::kFunction;
  return checkpoint(with_form, code, inputs);
}

std::vector<at::Tensor> RandomProgram::run(Form form, const std::vector<at::Tensor>& inputs,
                                           const at::Tensor& outside) const {
  outside.add_(inputs[0].detach().sum(1));
  Pool pool = {inputs[0].sin(), inputs[1].cos(), inputs[0] * inputs[1] + outside};
  pool = steps(seed_, length_, form, std::move(pool), outside);
  at::Tensor result = inputs[0] + inputs[1];
  for (std::size_t i = 3; i < pool.size(); i += 2) {
    result = result + pool[i];
  }
  return {result + pool.back()};
}

RandomProgram::Pool RandomProgram::steps(std::uint64_t seed, int length, Form form, Pool pool,
                                         const at::Tensor& outside) const {
  Random random(seed);
  for (int i = 0; i < length; ++i) {
    if (length > 4 && pick(random, 12) == 0) {
      const std::uint64_t inner_seed = random();
      const bool is_other = pick(random, 2) == 1;
      const Form other = form == Form::kFunction ? Form::kScope : Form::kFunction;
      const Form inner = form != Form::kPlain && is_other ? other : form;
      const auto code = [this, inner_seed, inner, outside](const Pool& given) {
        return steps(inner_seed, 4, inner, given, outside);
      };
      pool = run_as(inner, {}, code, pool);
    } else {
      pool.push_back(step(random, pool, outside));
    }
  }
  return pool;
}

at::Tensor RandomProgram::step(Random& random, const Pool& pool, const at::Tensor& outside) {
  const at::Tensor a = pool[pick(random, pool.size())];
  const at::Tensor b = pool[pick(random, pool.size())];
  switch (pick(random, 3)) {
    case 0:
      return functional_step(random, a, b);
    case 1:
      return writing_step(random, a, b, outside);
    default:
      return view_step(random, a, b);
  }
}

at::Tensor RandomProgram::functional_step(Random& random, const at::Tensor& a,
                                          const at::Tensor& b) {
  switch (pick(random, 10)) {
    case 0:
      return a.mm(b).tanh();
    case 1:
      return (a * b).tanh();
    case 2:
      return torch::dropout(a, 0.4, true);
    case 3:
      return std::get<0>(a.sort(1));
    case 4:
      return at::layer_norm(a, {4});
    case 5:
      return a.softmax(1);
    case 6:
      return a * at::rand_like(b);
    case 7: {
      const auto [values, indices] = a.topk(2, 1);
      return at::zeros_like(a).scatter(1, indices, values) + b;
    }
    case 8:
      return at::where(a > b, a.sigmoid(), b.exp().clamp_max(3));
    default:
      return a.std(1, true).expand_as(a) + b.logsumexp(0);
  }
}

at::Tensor RandomProgram::writing_step(Random& random, const at::Tensor& a, const at::Tensor& b,
                                       const at::Tensor& outside) {
  switch (pick(random, 8)) {
    case 0:
      return (a + 1).mul_(0.5).add_(b);
    case 1: {
      const at::Tensor result = a.clone();
      result.narrow(0, 1, 2).sigmoid_();
      return result;
    }
    case 2: {
      const at::Tensor noise = at::empty_like(a).normal_();
      const at::Tensor sum = a + noise;  // which saves neither
      noise.fill_(0.5);
      return sum * noise;
    }
    case 3: {
      const at::Tensor result = at::zeros({4, 4});
      result.select(0, 1).copy_(a[0]);
      result.t().select(0, 2).add_(b[3]);
      return result;
    }
    case 4: {
      const at::Tensor mask = at::empty({4, 4}).bernoulli_(0.5).div_(0.5);
      return (a * mask).relu_();
    }
    case 5: {
      const at::NoGradGuard no_grad;
      at::Tensor note = at::empty({4});
      at::sum_out(note, a.detach(), 1);
      return note.add_(outside).unsqueeze_(1).expand({4, 4}).tanh();
    }
    case 6:
      return a.clone().index_put_({torch::tensor({0, 2})}, b.narrow(0, 1, 2)).square();
    default: {
      at::Tensor result = a * 2;
      result.t_().mul_(0.5);
      return result.exp_().clamp_max(4);
    }
  }
}

at::Tensor RandomProgram::view_step(Random& random, const at::Tensor& a, const at::Tensor& b) {
  switch (pick(random, 8)) {
    case 0:
      return a.t().contiguous();
    case 1:
      return a.t() * b;
    case 2:
      return a + b.narrow(0, 1, 1);
    case 3:
      return at::cat({a.narrow(1, 0, 2), b.narrow(1, 2, 2)}, 1);
    case 4: {
      const auto parts = a.chunk(2, 1);
      return at::cat({parts[1] * parts[0], parts[0].sin()}, 1);
    }
    case 5:
      return a.contiguous().view({2, 8}).cos().view({4, 4}) + b.flatten()[5];
    case 6:
      return at::stack(b.unbind(1), 0).sin() * a;
    default:
      return a.contiguous().as_strided({4, 4}, {1, 4}).tanh() + b.diagonal();
  }
}

}  // namespace reprise::testing
