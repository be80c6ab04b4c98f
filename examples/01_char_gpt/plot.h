// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: plot.h
//
// Live bytes over one step, a panel per variant, drawn by gnuplot.
#ifndef CHAR_GPT_PLOT_H_
#define CHAR_GPT_PLOT_H_

#include <filesystem>
#include <string>
#include <vector>

#include "measure.h"

namespace char_gpt {

// Writes live_bytes.csv, live_bytes.png and live_bytes.svg into `folder`, which exists, and returns
// a line that says so, or why there is no picture. `subtitle` describes the model.
std::string write_plot(const std::vector<Measurement>& measurements, const std::string& subtitle,
                       const std::filesystem::path& folder);

}  // namespace char_gpt

#endif  // CHAR_GPT_PLOT_H_
