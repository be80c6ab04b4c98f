// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/memory_picture.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <sstream>

#include "reprise/planner/command/class_style.h"
#include "reprise/planner/command/gnuplot.h"
#include "reprise/planner/explanation/outcome.h"
#include "reprise/planner/explanation/peak.h"
#include "reprise/planner/explanation/quantity_text.h"
#include "reprise/planner/memory_timeline.h"

namespace reprise::planner_internal {
namespace {

using planner::kMemoryClasses;
using planner::MemoryMoment;
using planner::MemoryTimeline;

const MemoryMoment& peak_of(const MemoryTimeline& timeline) {
  return timeline.moments[timeline.peak];
}
double end_of(const MemoryTimeline& timeline) { return timeline.moments.back().end_seconds; }

class MemoryPicture {
 public:
  MemoryPicture(const planner::Simulator& simulator, const planner::Solution& solution,
                std::optional<std::int64_t> budget_bytes)
      : simulation_(solution.simulation),
        budget_bytes_(budget_bytes),
        outcome_(simulator, solution.plan),
        curve_(memory_timeline(simulator, solution.plan)),
        plain_(memory_timeline(simulator, retain_all(simulator.trace()))),
        bytes_(byte_unit(std::max(peak_of(curve_).total_bytes(), peak_of(plain_).total_bytes()))),
        seconds_(second_unit(end_of(curve_))),
        right_(std::max(end_of(curve_), end_of(plain_)) / seconds_.size),
        top_(1.24 * std::max(y(peak_of(curve_).total_bytes()), y(peak_of(plain_).total_bytes()))) {}

  std::string script(const std::string& title) {
    add_data("$memory", curve_);
    add_data("$plain", plain_);
    set_axes(title);
    label_backward();
    label_plain();
    label_budget();
    label_peak();
    script_ << "plot ";
    for (std::size_t i = kMemoryClasses; i-- > 0;) {
      if (is_used(i)) {
        script_ << "$memory using 1:" << i + 2 << " with filledcurves y1=0 fc rgb '"
                << class_style(i).color << "' title " << quoted(class_style(i).title) << ", ";
      }
    }
    script_ << "$plain using 1:" << kMemoryClasses + 1 << " with lines lw 1.2 lc rgb '" << kDarkGrey
            << "' notitle\nunset label\nunset arrow\n";
    return script_.str();
  }

 private:
  double x(double seconds) const { return seconds / seconds_.size; }
  double y(std::int64_t bytes) const { return static_cast<double>(bytes) / bytes_.size; }
  double middle(const MemoryMoment& moment) const {
    return x(0.5 * (moment.begin_seconds + moment.end_seconds));
  }

  // Of each moment, its begin and its end with the bytes of each class and those below it.
  void add_data(const char* name, const MemoryTimeline& timeline) {
    script_ << name << " << END\n";
    for (const MemoryMoment& moment : timeline.moments) {
      std::ostringstream sums;
      std::int64_t sum = 0;
      for (const std::int64_t bytes : moment.bytes) {
        sum += bytes;
        sums << ' ' << y(sum);
      }
      script_ << x(moment.begin_seconds) << sums.str() << '\n'
              << x(moment.end_seconds) << sums.str() << '\n';
    }
    script_ << "END\n";
  }

  bool is_used(std::size_t memory_class) const {
    return std::any_of(curve_.moments.begin(), curve_.moments.end(),
                       [&](const MemoryMoment& moment) { return moment.bytes[memory_class] > 0; });
  }

  void set_axes(const std::string& title) {
    script_ << "set title " << quoted(title) << " font ',15'\nset xlabel 'time of the operators ("
            << seconds_.name << ")'\nset ylabel 'in memory (" << bytes_.name
            << ")'\nset xrange [0:" << right_ << "]\nset yrange [0:" << top_ << "]\nset bmargin 7\n"
            << "set key at screen 0.53, screen 0.34 center bottom horizontal maxrows 2 samplen 2 "
            << "spacing 1.3 Left reverse\nset style textbox opaque noborder margins 0.4,0.2\n";
  }

  void label_backward() {
    const std::int32_t run = outcome_.own_run(outcome_.trace().backward_begin);
    const double begin = x(curve_.moments[run].begin_seconds);
    script_ << "set arrow from " << begin << ",0 to " << begin << ',' << top_
            << " nohead front lw 1.2 dt 3 lc rgb '" << kDarkGrey << "'\nset label 'backward' at "
            << begin << ',' << 0.96 * top_ << " left offset 0.6,0 front textcolor rgb '"
            << kDarkGrey << "'\n";
  }

  // Over the line's peak, and beside it.
  void label_plain() {
    const MemoryMoment& peak = peak_of(plain_);
    script_ << "set label " << quoted("without recomputation " + bytes_text(peak.total_bytes()))
            << " at " << middle(peak) << ',' << y(peak.total_bytes()) + 0.03 * top_
            << (middle(peak) < 0.6 * right_ ? " left offset 0.6,0" : " right")
            << " front textcolor rgb '" << kDarkGrey << "'\n";
  }

  // Where it is in the picture. At the left, as peaks are about the middle.
  void label_budget() {
    if (!budget_bytes_ || y(*budget_bytes_) > top_) {
      return;
    }
    const double height = y(*budget_bytes_);
    script_ << "set arrow from 0," << height << " to " << right_ << ',' << height
            << " nohead front lw 1.2 dt 2 lc rgb '" << kVermilion << "'\nset label "
            << quoted("budget " + bytes_text(*budget_bytes_)) << " at 0," << height
            << " left offset 0.6,0.6 front textcolor rgb '" << kVermilion << "'\n";
  }

  // Above the peak; above the other label, too, if that is near.
  void label_peak() {
    const MemoryMoment& peak = peak_of(curve_);
    const double plain = y(peak_of(plain_).total_bytes());
    const bool is_near = plain < y(peak.total_bytes()) + 0.12 * top_;
    const double height = is_near ? plain + 0.1 * top_ : y(peak.total_bytes()) + 0.07 * top_;
    const double time = middle(peak);
    const char* const side =
        time < 0.3 * right_ ? "left" : (time > 0.7 * right_ ? "right" : "center");
    script_ << "set arrow from " << time << ',' << height - 0.02 * top_ << " to " << time << ','
            << y(peak.total_bytes())
            << " front head filled size screen 0.008,20 lw 1.5 lc rgb '#000000'\nset label "
            << quoted("peak " + bytes_text(peak.total_bytes()) + " at " +
                      peak_label(outcome_.trace(), simulation_))
            << " at " << time << ',' << height << ' ' << side << " front boxed\n";
  }

  const planner::Simulation& simulation_;
  const std::optional<std::int64_t> budget_bytes_;
  Outcome outcome_;
  MemoryTimeline curve_;
  MemoryTimeline plain_;  // without recomputation
  Unit bytes_;
  Unit seconds_;
  double right_ = 0;  // of the picture, in its units
  double top_ = 0;
  std::ostringstream script_;
};

}  // namespace

std::string memory_picture(const planner::Simulator& simulator, const planner::Solution& solution,
                           std::optional<std::int64_t> budget_bytes, const std::string& title) {
  return MemoryPicture(simulator, solution, budget_bytes).script(title);
}

}  // namespace reprise::planner_internal
