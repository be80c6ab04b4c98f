// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "plot.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <sstream>
#include <utility>

#include "memory.h"

namespace char_gpt {
namespace {

// Of Okabe and Ito's palette, which colour-blind readers can tell apart.
constexpr const char* kBlue = "#0072B2";
constexpr const char* kGrey = "#BBBBBB";
constexpr const char* kDarkGrey = "#444444";

void write_csv(const std::vector<Measurement>& measurements, const std::filesystem::path& path) {
  std::ofstream csv(path);
  csv << "variant,phase,time_ms,live_bytes\n";
  for (const Measurement& measurement : measurements) {
    for (const LiveSample& sample : measurement.curve) {
      const bool is_forward = sample.time_ms <= measurement.after_forward.time_ms;
      csv << measurement.variant->name << (is_forward ? ",forward," : ",backward,")
          << sample.time_ms << ',' << sample.bytes << '\n';
    }
  }
}

std::string quoted(const std::string& text) {
  std::string result = "'";
  for (const char character : text) {
    result += character == '\'' ? std::string("''") : std::string(1, character);
  }
  return result + "'";
}

bool has_less_bytes(const LiveSample& a, const LiveSample& b) { return a.bytes < b.bytes; }

// The lowest and the highest sample of each stretch of time.
std::vector<LiveSample> thinned(const std::vector<LiveSample>& curve, double stretch_ms) {
  std::vector<LiveSample> result;
  for (auto begin = curve.begin(); begin != curve.end();) {
    const double end_ms = begin->time_ms + stretch_ms;
    const auto end = std::find_if(std::next(begin), curve.end(), [&](const LiveSample& sample) {
      return sample.time_ms >= end_ms;
    });
    const auto [lowest, highest] = std::minmax_element(begin, end, has_less_bytes);
    result.push_back(*std::min(lowest, highest));
    result.push_back(*std::max(lowest, highest));
    begin = end;
  }
  result.push_back(curve.back());
  return result;
}

// Of 1, 2, 5, 10, ..., the least that makes no more than four steps of `length`.
double tick_step(double length) {
  const double least = length / 4;
  const double decade = std::pow(10, std::floor(std::log10(least)));
  for (const double digit : {1.0, 2.0, 5.0}) {
    if (digit * decade >= least) {
      return digit * decade;
    }
  }
  return 10 * decade;
}

int column_count(std::size_t panels) {
  constexpr int kMost = 3;
  return panels == 4 ? 2 : std::min(static_cast<int>(panels), kMost);
}

// A panel per variant, in each of which the same curve, if there is a variant "none", is grey.
class Panels {
 public:
  Panels(const std::vector<const Measurement*>& drawn, std::string subtitle)
      : drawn_(drawn),
        subtitle_(std::move(subtitle)),
        columns_(column_count(drawn.size())),
        rows_((static_cast<int>(drawn.size()) + columns_ - 1) / columns_) {
    for (const Measurement* measurement : drawn) {
      longest_ms_ = std::max(longest_ms_, measurement->curve.back().time_ms);
      highest_ = std::max(highest_, peak(*measurement));
    }
    for (std::size_t i = 0; i < drawn.size(); ++i) {
      baseline_ = drawn[i]->variant->name == "none" ? static_cast<int>(i) : baseline_;
    }
  }

  std::string script(const std::filesystem::path& folder) {
    add_curves();
    script_ << std::fixed << std::setprecision(4) << "set xrange [0:" << longest_ms_
            << "]\nset yrange [0:" << 1.25 * highest_ << "]\nset border 3 lc rgb '" << kDarkGrey
            << "'\nset tics nomirror out scale 0.6\nset xtics " << tick_step(longest_ms_)
            << "\nset style fill solid 0.3\n"
            << "set grid ytics lt 1 lw 1 lc rgb '#E4E4E4'\nunset key\n";
    draw("pngcairo size " + size(1.4) + " font 'Sans,14'", folder / "live_bytes.png");
    draw("svg size " + size(1) + " dynamic font 'sans-serif,13'", folder / "live_bytes.svg");
    return script_.str();
  }

 private:
  static constexpr int kWidth = 900;  // of the picture, in pixels of the SVG, as all below
  static constexpr int kPanelHeight = 170;
  static constexpr int kAbove = 96;
  static constexpr int kBelow = 64;
  static constexpr int kBetween = 36;
  static constexpr int kStretches = 200;  // of the time, that a panel's width can tell apart

  static double peak(const Measurement& measurement) {
    const std::vector<LiveSample>& curve = measurement.curve;
    return to_mebibytes(std::max_element(curve.begin(), curve.end(), has_less_bytes)->bytes);
  }

  int height() const { return kAbove + rows_ * kPanelHeight + (rows_ - 1) * kBetween + kBelow; }

  std::string size(double scale) const {
    return std::to_string(static_cast<int>(scale * kWidth)) + ',' +
           std::to_string(static_cast<int>(scale * height()));
  }

  // The curves as gnuplot's here-documents $curve0, $curve1, ...
  void add_curves() {
    for (std::size_t i = 0; i < drawn_.size(); ++i) {
      script_ << "$curve" << i << " << END\n";
      for (const LiveSample& sample : thinned(drawn_[i]->curve, longest_ms_ / kStretches)) {
        script_ << sample.time_ms << ' ' << to_mebibytes(sample.bytes) << '\n';
      }
      script_ << "END\n";
    }
  }

  // Above all panels, `line` from 0 on.
  void add_heading(int line, const std::string& text, const std::string& style) {
    script_ << "set label " << line + 1 << ' ' << quoted(text) << " at screen 0.5, screen "
            << 1 - (16.0 + 20 * line) / height() << " center " << style << '\n';
  }

  void draw(const std::string& terminal, const std::filesystem::path& file) {
    const std::string muted = std::string("textcolor rgb '") + kDarkGrey + "'";
    script_ << "set terminal " << terminal << " background '#ffffff' noenhanced\nset output "
            << quoted(file.string()) << '\n';
    add_heading(0, "Live tensor bytes over one training step, above those before it", "font ',16'");
    add_heading(1, subtitle_, muted);
    add_heading(2,
                std::string(baseline_ < 0 || drawn_.size() == 1 ? "" : "grey: none; ") +
                    "dotted: end of forward",
                muted);
    script_ << "set multiplot layout " << rows_ << ',' << columns_
            << " margins screen 0.07, screen 0.985, screen "
            << static_cast<double>(kBelow) / height() << ", screen "
            << 1 - static_cast<double>(kAbove) / height() << " spacing screen 0.025, screen "
            << static_cast<double>(kBetween) / height() << '\n';
    for (std::size_t i = 0; i < drawn_.size(); ++i) {
      draw_panel(static_cast<int>(i));
      script_ << "unset label 1\nunset label 2\nunset label 3\n";
    }
    script_ << "unset multiplot\nset output\n";
  }

  void draw_panel(int i) {
    const Measurement& measurement = *drawn_[i];
    const double forward_ms = measurement.after_forward.time_ms;
    const bool is_lowest = i + columns_ >= static_cast<int>(drawn_.size());
    const bool is_first = i % columns_ == 0;
    script_ << "set title " << quoted(measurement.label) << " font ',14' offset 0,-0.6\n"
            << "set xlabel '" << (is_lowest ? "time of the step (ms)" : "")
            << "' offset 0,0.4\nset format x '" << (is_lowest ? "%g" : "") << "'\nset ylabel '"
            << (is_first ? "MiB" : "") << "' offset 1,0\nset format y '" << (is_first ? "%g" : "")
            << "'\nset arrow 1 from " << forward_ms << ", graph 0 to " << forward_ms
            << ", graph 1 nohead front lw 1.2 dt 3 lc rgb '" << kDarkGrey << "'\nset label 4 'peak "
            << std::lround(peak(measurement))
            << " MiB' at graph 0.98, graph 0.94 right front textcolor rgb '" << kBlue << "'\nplot ";
    if (baseline_ >= 0 && i != baseline_) {
      script_ << "$curve" << baseline_ << " using 1:2 with steps lw 1.3 lc rgb '" << kGrey << "', ";
    }
    script_ << "$curve" << i << " using 1:2 with fillsteps fc rgb '" << kBlue << "', $curve" << i
            << " using 1:2 with steps lw 1.6 lc rgb '" << kBlue << "'\n";
  }

  const std::vector<const Measurement*>& drawn_;
  const std::string subtitle_;
  const int columns_;
  const int rows_;
  double longest_ms_ = 0;
  double highest_ = 0;  // of all peaks, in MiB
  int baseline_ = -1;   // the panel of the variant "none"
  std::ostringstream script_;
};

}  // namespace

std::string write_plot(const std::vector<Measurement>& measurements, const std::string& subtitle,
                       const std::filesystem::path& folder) {
  std::vector<const Measurement*> drawn;
  for (const Measurement& measurement : measurements) {
    if (!measurement.curve.empty()) {
      drawn.push_back(&measurement);
    }
  }
  const std::string csv = (folder / "live_bytes.csv").string();
  write_csv(measurements, csv);
  if (!is_program_installed("gnuplot")) {
    return "no plot: gnuplot is not installed; its data is in " + csv;
  }
  const std::string script = Panels(drawn, subtitle).script(folder);
  std::FILE* gnuplot = popen("gnuplot", "w");
  const bool is_sent = gnuplot != nullptr && std::fputs(script.c_str(), gnuplot) >= 0;
  const bool is_drawn = gnuplot != nullptr && pclose(gnuplot) == 0 && is_sent;
  if (!is_drawn) {
    return "no plot: gnuplot failed; its data is in " + csv;
  }
  return "plot: " + (folder / "live_bytes.png").string() + ", .svg and .csv";
}

}  // namespace char_gpt
