// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iomanip>
#include <map>
#include <sstream>

namespace tensor_parallel_gpt {
namespace {

// This rank's measurements of one variant.
struct Run {
  StepBytes bytes;
  std::vector<double> losses;
  std::vector<std::byte> gradients;
};
using Runs = std::map<std::string, Run>;

constexpr double kTolerance = 0.01;

void append_gradients(const Trainer& trainer, std::vector<std::byte>& gradients) {
  for (const at::Tensor& parameter : trainer.parameters()) {
    const at::Tensor gradient = parameter.grad().cpu().contiguous();
    const auto* bytes = static_cast<const std::byte*>(gradient.const_data_ptr());
    gradients.insert(gradients.end(), bytes, bytes + gradient.nbytes());
  }
}

// The least of both: what a thread of the group's still holds comes on top.
StepBytes least_of(const StepBytes& a, const StepBytes& b) {
  return {std::min(a.kept, b.kept), std::min(a.blocks, b.blocks), std::min(a.peak, b.peak)};
}

Run run_from_start(Trainer& trainer, const Variant& variant, std::int64_t steps) {
  Run run;
  for (std::int64_t step = 0; step < steps; ++step) {
    StepBytes bytes;
    run.losses.push_back(trainer.differentiate(variant, &bytes));
    // In the first step there is no state of the optimiser yet.
    run.bytes = step <= 1 ? bytes : least_of(run.bytes, bytes);
    if (step == 0 || step + 1 == steps) {
      append_gradients(trainer, run.gradients);
    }
    trainer.update();
  }
  return run;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// The variants take turns, so that a disturbance of the machine meets all of them.
std::vector<double> step_times_ms(Trainer& trainer, const std::vector<Variant>& variants,
                                  std::int64_t rounds, const c10::Device& device) {
  std::vector<std::vector<double>> times_ms(variants.size());
  for (std::int64_t round = -1; round < rounds; ++round) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      synchronize(device);
      const auto start = std::chrono::steady_clock::now();
      trainer.differentiate(variants[i]);
      trainer.update();
      synchronize(device);
      const std::chrono::duration<double, std::milli> elapsed =
          std::chrono::steady_clock::now() - start;
      if (round >= 0) {  // the first round warms up
        times_ms[i].push_back(elapsed.count());
      }
    }
  }
  std::vector<double> medians(variants.size());
  std::transform(times_ms.begin(), times_ms.end(), medians.begin(), median);
  return medians;
}

// See Measurement::share_error; host() may take a part from the device altogether.
double share_error(const std::string& variant, const Runs& runs, std::int64_t ranks) {
  const auto whole = runs.find(kCheckpoint);
  if (whole == runs.end() || (variant != kPartition && variant != kPartitionHost)) {
    return 0;
  }
  const auto kept = static_cast<double>(runs.at(variant).bytes.blocks * ranks);
  const double error = kept / static_cast<double>(whole->second.bytes.blocks) - 1;
  return variant == kPartition ? std::abs(error) : std::max(error, 0.0);
}

// What this rank has seen of a variant, as numbers of which the largest of all ranks counts.
at::Tensor to_numbers(const std::string& variant, double step_ms, const Runs& runs,
                      std::int64_t ranks) {
  const Run& run = runs.at(variant);
  const auto plain = runs.find(kNone);
  const bool can_compare = plain != runs.end();
  return torch::tensor({static_cast<double>(run.bytes.kept), static_cast<double>(run.bytes.blocks),
                        static_cast<double>(run.bytes.peak), step_ms,
                        can_compare && run.gradients != plain->second.gradients ? 1.0 : 0.0,
                        can_compare && run.losses != plain->second.losses ? 1.0 : 0.0,
                        share_error(variant, runs, ranks)},
                       torch::kFloat64);
}

Measurement from_numbers(const std::string& variant, const at::Tensor& numbers) {
  const double* const values = static_cast<const double*>(numbers.const_data_ptr());
  return {.variant = variant,
          .bytes = {.kept = static_cast<std::int64_t>(values[0]),
                    .blocks = static_cast<std::int64_t>(values[1]),
                    .peak = static_cast<std::int64_t>(values[2])},
          .step_ms = values[3],
          .gradients_differ = values[4] != 0,
          .losses_differ = values[5] != 0,
          .share_error = values[6]};
}

std::string fixed(double value, int digits) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(digits) << value;
  return out.str();
}

std::string mebibytes(std::int64_t bytes) {
  return fixed(static_cast<double>(bytes) / (1 << 20), 2) + " MiB";
}

const Measurement* find(const std::vector<Measurement>& measurements, const std::string& name) {
  const auto found = std::find_if(measurements.begin(), measurements.end(),
                                  [&](const Measurement& m) { return m.variant == name; });
  return found != measurements.end() ? &*found : nullptr;
}

}  // namespace

std::vector<Measurement> measure(const Options& options, const std::string& text,
                                 const Ranks& ranks, const std::vector<Variant>& variants) {
  Runs runs;
  for (const Variant& variant : variants) {
    Trainer trainer(options, text, ranks);
    runs[variant.name] = run_from_start(trainer, variant, options.measure_steps);
  }
  Trainer trainer(options, text, ranks);
  const std::vector<double> times_ms =
      step_times_ms(trainer, variants, options.measure_steps, ranks.device);
  std::vector<Measurement> measurements;
  for (std::size_t i = 0; i < variants.size(); ++i) {
    const std::string& name = variants[i].name;
    const at::Tensor own = to_numbers(name, times_ms[i], runs, ranks.size).to(ranks.device);
    measurements.push_back(from_numbers(name, all_reduce(own, "max", ranks).cpu()));
  }
  return measurements;
}

void print_table(const std::vector<Measurement>& measurements, std::int64_t ranks,
                 std::ostream& out) {
  const Measurement* const plain = find(measurements, kNone);
  const Measurement* const whole = find(measurements, kCheckpoint);
  out << "variant             kept after forward   region inputs   of whole   peak of a step      "
         "step   ratio   gradients\n";
  for (const Measurement& row : measurements) {
    const bool is_plain = row.variant == kNone;
    const double share = whole == nullptr ? 0
                                          : static_cast<double>(row.bytes.blocks) /
                                                static_cast<double>(whole->bytes.blocks);
    out << std::left << std::setw(18) << row.variant << std::right << std::setw(20)
        << mebibytes(row.bytes.kept) << std::setw(16)
        << (is_plain ? "-" : mebibytes(row.bytes.blocks)) << std::setw(11)
        << (is_plain || whole == nullptr ? "-" : fixed(share, 4)) << std::setw(17)
        << mebibytes(row.bytes.peak) << std::setw(10) << fixed(row.step_ms, 0) + " ms"
        << std::setw(8) << (plain != nullptr ? fixed(row.step_ms / plain->step_ms, 2) : "-")
        << "   "
        << (is_plain || plain == nullptr ? "-"
            : row.gradients_differ       ? "DIFFERENT"
                                         : "bitwise equal")
        << '\n';
  }
  out << "bytes and times: of the one of " << ranks << " ranks that has the most\n";
}

std::vector<std::string> failures(const std::vector<Measurement>& measurements,
                                  std::int64_t ranks) {
  std::vector<std::string> lines;
  for (const Measurement& row : measurements) {
    if (row.gradients_differ) {
      lines.push_back("gradients of " + row.variant + " are not those of none");
    }
    if (row.losses_differ) {
      lines.push_back("losses of " + row.variant + " are not those of none");
    }
    if (row.share_error > kTolerance) {
      lines.push_back("region inputs of " + row.variant + " are not 1/" + std::to_string(ranks) +
                      " of those of checkpoint: a rank is off by " +
                      fixed(100 * row.share_error, 1) + " %");
    }
  }
  return lines;
}

}  // namespace tensor_parallel_gpt
