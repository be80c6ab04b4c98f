// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/planner/model_traces.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "tests/planner/step_builder.h"

namespace reprise::testing {
namespace {

using planner::Trace;
using planner::Value;
using planner::ValueId;
using planner::ValueKind;

constexpr double kFlopsPerSecond = 1e14;
constexpr double kBytesPerSecond = 1.5e12;
constexpr double kLaunchSeconds = 3e-6;
constexpr std::int64_t kElement = 2;  // bytes

// Operators of a model. Sizes are numbers of elements unless they are said to be bytes.
class Model {
 public:
  ValueId input(std::int64_t size) {
    return step_.add_existing(size * kElement, ValueKind::kInput, "input");
  }
  ValueId parameter(std::int64_t size) {
    return step_.add_existing(size * kElement, ValueKind::kParameter, "parameter");
  }

  // y = x W, of `rows` rows.
  ValueId linear(ValueId x, std::int64_t rows, std::int64_t in, std::int64_t out) {
    return multiply("linear", x, parameter(in * out), rows * out, 2.0 * rows * in * out);
  }

  ValueId multiply(const char* name, ValueId a, ValueId b, std::int64_t size, double flops) {
    return add({.op = named(name, {a, b}), .results = {activation(size)}, .saved_reads = {0, 1}},
               flops, 2)[0];
  }

  // An elementwise function whose backward needs its argument, or its result.
  ValueId of_argument(const char* name, ValueId x) {
    return add({.op = named(name, {x}), .results = {like(x)}, .saved_reads = {0}})[0];
  }
  ValueId of_result(const char* name, ValueId x, std::int64_t size = 0) {
    return add({.op = named(name, {x}),
                .results = {size == 0 ? like(x) : activation(size)},
                .saved_results = {0}})[0];
  }
  ValueId relu_in_place(ValueId x) {
    return add({.op = named("relu_", {x}),
                .results = {like(x)},
                .saved_results = {0},
                .is_in_place = true})[0];
  }

  ValueId sum(ValueId a, ValueId b) {
    return add({.op = named("add", {a, b}), .results = {like(a)}, .passes_gradient = true})[0];
  }
  ValueId add_in_place(ValueId a, ValueId b) {
    return add({.op = named("add_", {a, b}),
                .results = {like(a)},
                .is_in_place = true,
                .passes_gradient = true})[0];
  }

  ValueId product(ValueId a, ValueId b) {
    return add({.op = named("mul", {a, b}), .results = {like(a)}, .saved_reads = {0, 1}})[0];
  }

  // With one pair of numbers of 4 bytes for each of `groups`.
  ValueId norm(const char* name, ValueId x, std::int64_t groups, std::int64_t parameters) {
    return add({.op = named(name, {x, parameter(parameters)}),
                .results = {like(x), other(8 * groups, "statistics")},
                .saved_reads = {0, 1},
                .saved_results = {1}})[0];
  }

  ValueId dropout(ValueId x) {
    return add({.op = named("dropout", {x}),
                .results = {like(x), other(bytes(x) / kElement, "mask")},
                .saved_results = {1}})[0];
  }

  ValueId convolution(ValueId x, std::int64_t pixels, std::int64_t in, std::int64_t out,
                      std::int64_t kernel) {
    ForwardOperator forward{.op = named("conv", {x, parameter(in * out * kernel * kernel)}),
                            .results = {activation(pixels * out)},
                            .saved_reads = {0, 1}};
    forward.op.workspace_bytes = bytes(x) / 8;
    return add(std::move(forward), 2.0 * pixels * in * out * kernel * kernel, 2)[0];
  }

  // Backward gives the parts of the gradient as views.
  ValueId concatenation(const std::vector<ValueId>& parts) {
    std::int64_t size = 0;
    for (const ValueId part : parts) {
      size += bytes(part) / kElement;
    }
    return add(
        {.op = named("cat", parts), .results = {activation(size)}, .passes_gradient = true})[0];
  }

  ValueId fused_attention(ValueId qkv, std::int64_t rows, std::int64_t sequence,
                          std::int64_t width) {
    return add({.op = named("attention", {qkv}),
                .results = {activation(rows * width), other(4 * 16 * rows, "log_sum_exp")},
                .saved_reads = {0},
                .saved_results = {0, 1}},
               4.0 * rows * sequence * width, 2.5)[0];
  }

  ValueId pool(ValueId x) {
    const std::int64_t size = bytes(x) / kElement / 4;
    return add({.op = named("max_pool", {x}),
                .results = {activation(size), other(8 * size, "indices")},
                .saved_reads = {0},
                .saved_results = {1}})[0];
  }
  ValueId upsample(ValueId x) {
    return add({.op = named("upsample", {x}), .results = {activation(bytes(x) / kElement * 4)}})[0];
  }

  Trace finish_with_loss(ValueId x) {
    const ValueId log_softmax = of_result("log_softmax", x);
    const ValueId loss =
        add({.op = named("nll_loss", {log_softmax}), .results = {activation(2)}})[0];
    step_.hold(loss);
    return step_.finish();
  }

 private:
  static planner::Operator named(const char* name, std::vector<ValueId> reads) {
    return {.name = name, .reads = std::move(reads), .results = {}};
  }
  static Value activation(std::int64_t size) {
    return {.bytes = size * kElement, .name = "activation"};
  }
  static Value other(std::int64_t bytes, const char* name) {
    return {.bytes = bytes, .kind = ValueKind::kOther, .name = name};
  }
  std::int64_t bytes(ValueId value) const { return step_.forward().values[value].bytes; }
  Value like(ValueId value) const { return activation(bytes(value) / kElement); }

  static double roofline(double flops, std::int64_t bytes) {
    return kLaunchSeconds +
           std::max(flops / kFlopsPerSecond, static_cast<double>(bytes) / kBytesPerSecond);
  }

  // Backward does `factor` times the work, and moves about twice as many bytes.
  std::vector<ValueId> add(ForwardOperator forward, double flops = 0, double factor = 1) {
    std::int64_t moved = 0;
    for (const ValueId read : forward.op.reads) {
      moved += bytes(read);
    }
    for (const Value& result : forward.results) {
      moved += result.bytes;
    }
    forward.op.seconds = roofline(flops, moved);
    forward.backward_seconds = roofline(factor * flops, 2 * moved);
    return step_.add(std::move(forward));
  }

  StepBuilder step_{3 / kBytesPerSecond};
};

ValueId plain_attention(Model& model, ValueId qkv, std::int64_t rows, std::int64_t sequence,
                        std::int64_t width) {
  const std::int64_t scores = 16 * rows * sequence;  // of 16 heads
  const double flops = 2.0 * static_cast<double>(rows * sequence * width);
  const ValueId product = model.multiply("scores", qkv, qkv, scores, flops);
  const ValueId weights = model.dropout(model.of_result("softmax", product));
  return model.multiply("values", weights, qkv, rows * width, flops);
}

ValueId convolve(Model& model, ValueId x, std::int64_t pixels, std::int64_t in, std::int64_t out) {
  return model.of_result("relu", model.convolution(x, pixels, in, out, 3));
}

}  // namespace

Trace mlp(int layers, std::int64_t width, std::int64_t batch) {
  Model model;
  ValueId x = model.input(batch * width);
  for (int layer = 0; layer < layers; ++layer) {
    x = model.of_result("relu", model.linear(x, batch, width, width));
  }
  return model.finish_with_loss(x);
}

Trace transformer(int layers, std::int64_t width, std::int64_t sequence, std::int64_t batch,
                  bool fused) {
  Model model;
  const std::int64_t rows = batch * sequence;
  ValueId x = model.dropout(model.linear(model.input(rows * width), rows, width, width));
  for (int layer = 0; layer < layers; ++layer) {
    const ValueId qkv =
        model.linear(model.norm("layer_norm", x, rows, 2 * width), rows, width, 3 * width);
    const ValueId attention = fused ? model.fused_attention(qkv, rows, sequence, width)
                                    : plain_attention(model, qkv, rows, sequence, width);
    x = model.sum(x, model.dropout(model.linear(attention, rows, width, width)));
    const ValueId wide =
        model.linear(model.norm("layer_norm", x, rows, 2 * width), rows, width, 4 * width);
    const ValueId narrow = model.linear(model.of_argument("gelu", wide), rows, 4 * width, width);
    x = model.sum(x, model.dropout(narrow));
  }
  x = model.norm("layer_norm", x, rows, 2 * width);
  return model.finish_with_loss(model.linear(x, rows, width, 16 * width));
}

Trace swiglu_stack(int layers, std::int64_t width, std::int64_t sequence, std::int64_t batch) {
  Model model;
  const std::int64_t rows = batch * sequence;
  const std::int64_t hidden = (8 * width / 3 + 63) / 64 * 64;
  ValueId x = model.linear(model.input(rows * width), rows, width, width);
  for (int layer = 0; layer < layers; ++layer) {
    const ValueId qkv =
        model.linear(model.norm("rms_norm", x, rows, width), rows, width, 3 * width);
    const ValueId attention = model.fused_attention(qkv, rows, sequence, width);
    x = model.sum(x, model.linear(attention, rows, width, width));
    const ValueId normed = model.norm("rms_norm", x, rows, width);
    const ValueId gate = model.of_argument("silu", model.linear(normed, rows, width, hidden));
    const ValueId up = model.linear(normed, rows, width, hidden);
    x = model.sum(x, model.linear(model.product(gate, up), rows, hidden, width));
  }
  x = model.norm("rms_norm", x, rows, width);
  return model.finish_with_loss(model.linear(x, rows, width, 16 * width));
}

Trace resnet(int blocks, std::int64_t channels, std::int64_t side, std::int64_t batch) {
  Model model;
  const std::int64_t pixels = batch * side * side;
  const auto conv_norm = [&](ValueId x, std::int64_t in) {
    return model.norm("batch_norm", model.convolution(x, pixels, in, channels, 3), channels,
                      2 * channels);
  };
  ValueId x = model.relu_in_place(conv_norm(model.input(pixels * 3), 3));
  for (int block = 0; block < blocks; ++block) {
    const ValueId inner = model.relu_in_place(conv_norm(x, channels));
    x = model.relu_in_place(model.add_in_place(conv_norm(inner, channels), x));
  }
  return model.finish_with_loss(x);
}

Trace densenet(int layers, std::int64_t growth, std::int64_t side, std::int64_t batch) {
  Model model;
  const std::int64_t pixels = batch * side * side;
  const auto norm_relu = [&](ValueId x, std::int64_t channels) {
    return model.relu_in_place(model.norm("batch_norm", x, channels, 2 * channels));
  };
  std::vector<ValueId> features{model.convolution(model.input(pixels * 3), pixels, 3, growth, 3)};
  for (int layer = 0; layer < layers; ++layer) {
    const auto channels = growth * static_cast<std::int64_t>(features.size());
    const ValueId all = norm_relu(model.concatenation(features), channels);
    const ValueId bottleneck = model.convolution(all, pixels, channels, 4 * growth, 1);
    features.push_back(
        model.convolution(norm_relu(bottleneck, 4 * growth), pixels, 4 * growth, growth, 3));
  }
  return model.finish_with_loss(model.concatenation(features));
}

Trace unet(int levels, std::int64_t channels, std::int64_t side, std::int64_t batch) {
  Model model;
  std::int64_t pixels = batch * side * side;
  std::int64_t in = 3;
  std::int64_t out = channels;
  ValueId x = model.input(pixels * in);
  std::vector<ValueId> skipped;
  for (int level = 0; level < levels; ++level, pixels /= 4, in = out, out *= 2) {
    x = convolve(model, convolve(model, x, pixels, in, out), pixels, out, out);
    skipped.push_back(x);
    x = model.pool(x);
  }
  x = convolve(model, x, pixels, in, out);
  for (int level = levels - 1; level >= 0; --level, out /= 2) {
    pixels *= 4;
    x = model.concatenation({model.upsample(x), skipped[level]});
    x = convolve(model, convolve(model, x, pixels, out + out / 2, out / 2), pixels, out / 2,
                 out / 2);
  }
  return model.finish_with_loss(x);
}

Trace lstm(int steps, std::int64_t width, std::int64_t batch) {
  Model model;
  const std::int64_t size = batch * width;
  const ValueId of_input = model.parameter(4 * width * width);
  const ValueId of_hidden = model.parameter(4 * width * width);
  const double flops = 8.0 * static_cast<double>(size * width);
  ValueId hidden = model.input(size);
  ValueId cell = model.input(size);
  for (int step = 0; step < steps; ++step) {
    const ValueId gates =
        model.sum(model.multiply("linear", model.input(size), of_input, 4 * size, flops),
                  model.multiply("linear", hidden, of_hidden, 4 * size, flops));
    const ValueId forgotten = model.product(model.of_result("sigmoid", gates, size), cell);
    const ValueId entered = model.product(model.of_result("sigmoid", gates, size),
                                          model.of_result("tanh", gates, size));
    cell = model.sum(forgotten, entered);
    hidden = model.product(model.of_result("sigmoid", gates, size), model.of_result("tanh", cell));
  }
  return model.finish_with_loss(hidden);
}

}  // namespace reprise::testing
