// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "options.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <iostream>
#include <limits>
#include <string>

namespace resnet {
namespace {

void add_options(CLI::App& app, Options& options) {
  const CLI::Range size(std::int64_t{1}, std::int64_t{65536});
  app.add_option("--data", options.data, "folder of a data set in the format of MNIST");
  app.add_option("--train-images", options.train_images, "images to train on")->check(size);
  app.add_option("--test-images", options.test_images, "images to measure the accuracy with")
      ->check(size);
  app.add_option("--width", options.width, "channels of the first stage")->check(size);
  app.add_option("--blocks", options.blocks, "residual blocks of each stage")->check(size);
  app.add_option("--batch", options.batch, "images of a step")
      ->check(CLI::Range(std::int64_t{2}, std::int64_t{65536}));
  app.add_option("--epochs", options.epochs, "passes over the training images")->check(size);
  app.add_option("--lr", options.rate, "peak learning rate of SGD")->check(CLI::Range(0.0, 10.0));
  app.add_option("--seed", options.seed, "seed of weights, order and flips")
      ->check(CLI::Range(std::int64_t{0}, std::numeric_limits<std::int64_t>::max()));
  app.add_option("--threads", options.threads,
                 "threads of an operator (default: LibTorch's choice)")
      ->check(CLI::Range(0, 1024));
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv) {
  Options options;
  CLI::App app(
      "Trains a ResNet on photographs with and without activation checkpointing, and compares "
      "batch-norm statistics, accuracy, memory and time.",
      "resnet");
  app.option_defaults()->always_capture_default()->multi_option_policy(
      CLI::MultiOptionPolicy::TakeLast);
  add_options(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::string line = error.what();
    std::replace(line.begin(), line.end(), '\n', ' ');
    throw UsageError(line);
  }
  if (options.batch > options.train_images) {
    throw UsageError("--batch " + std::to_string(options.batch) + " is more than --train-images " +
                     std::to_string(options.train_images));
  }
  return options;
}

}  // namespace resnet
