// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Trains a ResNet on photographs with and without activation checkpointing. See README.md.

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <csignal>
#include <cstdint>
#include <exception>
#include <iomanip>
#include <iostream>
#include <numeric>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "images.h"
#include "memory_limit.h"
#include "options.h"
#include "progress.h"
#include "reprise/engine/cpu_memory.h"
#include "trainer.h"

namespace resnet {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr const char* kHeader =
    "epoch  run             loss  accuracy   kept after fwd    its peak  training";

std::string mebibytes_text(std::int64_t bytes) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(2) << static_cast<double>(bytes) / (1 << 20) << " MiB";
  return text.str();
}

std::string epoch_text(std::int64_t number, const std::string& run, const Epoch& epoch) {
  const double loss = std::accumulate(epoch.losses.begin(), epoch.losses.end(), 0.0) /
                      static_cast<double>(epoch.losses.size());
  std::ostringstream text;
  text << std::setw(5) << number << "  " << std::left << std::setw(12) << run << std::right
       << std::fixed << std::setprecision(4) << std::setw(8) << loss << std::setprecision(2)
       << std::setw(8) << 100 * epoch.accuracy << " %" << std::setw(17)
       << mebibytes_text(epoch.kept_bytes) << std::setw(12) << mebibytes_text(epoch.peak_bytes)
       << std::setprecision(1) << std::setw(8) << epoch.train_seconds << " s";
  return text.str();
}

struct TwoRuns {
  std::vector<Epoch> plain;
  std::vector<Epoch> checkpointed;
};

// The runs take turns, an epoch each.
TwoRuns train(Trainer& plain, Trainer& checkpointed, const ImageSet& test,
              std::int64_t steps_of_an_epoch, const Options& options) {
  TwoRuns runs;
  Progress progress("training", 2 * options.epochs * steps_of_an_epoch);
  progress.print(kHeader);
  for (std::int64_t number = 1; number <= options.epochs; ++number) {
    runs.plain.push_back(plain.run_epoch(test, progress));
    progress.print(epoch_text(number, "plain", runs.plain.back()));
    runs.checkpointed.push_back(checkpointed.run_epoch(test, progress));
    progress.print(epoch_text(number, "checkpointed", runs.checkpointed.back()));
  }
  return runs;
}

// Prints whether the runs did the same, and returns it.
bool compare(const Trainer& plain, const Trainer& checkpointed, const TwoRuns& runs) {
  bool has_losses = true;
  bool has_accuracies = true;
  for (std::size_t i = 0; i < runs.plain.size(); ++i) {
    has_losses = has_losses && runs.plain[i].losses == runs.checkpointed[i].losses;
    has_accuracies = has_accuracies && runs.plain[i].accuracy == runs.checkpointed[i].accuracy;
  }
  const bool has_parameters = plain.parameter_bytes() == checkpointed.parameter_bytes();
  const bool has_statistics = plain.statistics_bytes() == checkpointed.statistics_bytes();
  const auto print = [](const char* subject, bool is_equal) {
    std::cout << subject << (is_equal ? ": bitwise equal\n" : ": DIFFERENT\n");
  };
  std::cout << '\n';
  print("losses of all steps", has_losses);
  print("accuracies of all epochs", has_accuracies);
  print("parameters at the end", has_parameters);
  print("batch-norm statistics at the end", has_statistics);
  return has_losses && has_accuracies && has_parameters && has_statistics;
}

void show_largest_batches(const Options& options, const ImageSet& images, const Epoch& plain) {
  const std::int64_t limit_bytes = plain.bytes_before + plain.peak_bytes;
  std::cout << "\nlargest batch below a limit of " << mebibytes_text(limit_bytes)
            << " for all tensors, the bytes of the plain run with batch " << options.batch << '\n';
  const auto show = [&](const char* name, StepKind kind) {
    std::cout << "  " << std::left << std::setw(14) << name << std::right << std::setw(6)
              << find_largest_batch(options, images, kind, limit_bytes) << std::endl;
  };
  show("plain", StepKind::kPlain);
  show("checkpointed", StepKind::kCheckpointed);
  show("memory budget", StepKind::kBudgeted);
}

int run(const Options& options) {
  if (options.threads > 0) {
    at::set_num_threads(options.threads);
  }
  reprise::install_cpu_memory_counter();  // sees only what is allocated afterwards
  const ImageSet images = load_images(options.data, "train", options.train_images);
  const ImageSet test = load_images(options.data, "t10k", options.test_images);
  std::optional<Trainer> plain(std::in_place, options, images);
  std::optional<Trainer> checkpointed(std::in_place, options, images);
  checkpointed->checkpoint_blocks();
  std::cout << images.size() << " images to train on, " << test.size() << " to test with; "
            << plain->parameters() << " parameters, batch " << options.batch << "\n\n";

  const TwoRuns runs = train(*plain, *checkpointed, test, images.size() / options.batch, options);
  const bool is_equal = compare(*plain, *checkpointed, runs);
  plain.reset();
  checkpointed.reset();
  show_largest_batches(options, images, runs.plain.back());
  return is_equal ? 0 : kExitFailure;
}

int run_reporting_errors(int argc, const char* const* argv) {
  try {
    const std::optional<Options> options = parse_options(argc, argv);
    return options ? run(*options) : 0;
  } catch (const UsageError& error) {
    std::cerr << "resnet: " << error.what() << '\n';
    return kExitUsage;
  } catch (const c10::Error& error) {
    std::cerr << "resnet: " << error.what_without_backtrace() << '\n';
    return kExitFailure;
  } catch (const std::exception& error) {
    std::cerr << "resnet: " << error.what() << '\n';
    return kExitFailure;
  }
}

}  // namespace
}  // namespace resnet

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a progress bar that ends early must not end the training
  return resnet::run_reporting_errors(argc, argv);
}
