// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/memory_picture.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <vector>

#include "reprise/planner/command/gnuplot.h"
#include "reprise/planner/command/memory_curve.h"
#include "reprise/planner/command/peak.h"
#include "reprise/planner/explanation/outcome.h"
#include "reprise/planner/explanation/quantity_text.h"

namespace reprise::planner_internal {
namespace {

struct ClassStyle {
  const char* color;
  const char* title;
};
constexpr std::array<ClassStyle, kMemoryClasses> kClassStyles = {{
    {kGrey, "exists before the step"},
    {kOrange, "made by backward"},
    {kBlue, "retained for backward"},
    {kSkyBlue, "recomputed"},
    {kGreen, "other values of forward"},
    {kVermilion, "workspace"},
}};

std::int64_t total(const MemoryMoment& moment) {
  return std::accumulate(moment.bytes.begin(), moment.bytes.end(), std::int64_t{0});
}

const MemoryMoment& peak_of(const std::vector<MemoryMoment>& curve) {
  return *std::max_element(
      curve.begin(), curve.end(),
      [](const MemoryMoment& a, const MemoryMoment& b) { return total(a) < total(b); });
}

class MemoryPicture {
 public:
  MemoryPicture(const planner::Simulator& simulator, const planner::Solution& solution)
      : simulation_(solution.simulation),
        outcome_(simulator, solution.plan),
        curve_(memory_curve(outcome_)),
        plain_(memory_curve(Outcome(simulator, retain_all(simulator.trace())))),
        bytes_(byte_unit(std::max(total(peak_of(curve_)), total(peak_of(plain_))))),
        seconds_(second_unit(curve_.back().end_seconds)),
        right_(std::max(curve_.back().end_seconds, plain_.back().end_seconds) / seconds_.size),
        top_(1.24 * std::max(y(total(peak_of(curve_))), y(total(peak_of(plain_))))) {}

  std::string script(const std::string& title) {
    add_data("$memory", curve_);
    add_data("$plain", plain_);
    set_axes(title);
    label_backward();
    label_plain();
    label_peak();
    script_ << "plot ";
    for (std::size_t i = kMemoryClasses; i-- > 0;) {
      if (is_used(i)) {
        script_ << "$memory using 1:" << i + 2 << " with filledcurves y1=0 fc rgb '"
                << kClassStyles[i].color << "' title " << quoted(kClassStyles[i].title) << ", ";
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
  void add_data(const char* name, const std::vector<MemoryMoment>& curve) {
    script_ << name << " << END\n";
    for (const MemoryMoment& moment : curve) {
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
    return std::any_of(curve_.begin(), curve_.end(),
                       [&](const MemoryMoment& moment) { return moment.bytes[memory_class] > 0; });
  }

  void set_axes(const std::string& title) {
    script_ << "set title " << quoted(title) << " font ',15'\nset xlabel 'time of the operators ("
            << seconds_.name << ")'\nset ylabel 'in memory (" << bytes_.name
            << ")'\nset xrange [0:" << right_ << "]\nset yrange [0:" << top_ << "]\nset bmargin 7\n"
            << "set key at screen 0.53, screen 0.012 center bottom horizontal maxrows 2 samplen 2 "
            << "spacing 1.3 Left reverse\nset style textbox opaque noborder margins 0.4,0.2\n";
  }

  void label_backward() {
    const std::int32_t run = outcome_.own_run(outcome_.trace().backward_begin);
    const double begin = x(curve_[run].begin_seconds);
    script_ << "set arrow from " << begin << ",0 to " << begin << ',' << top_
            << " nohead front lw 1.2 dt 3 lc rgb '" << kDarkGrey << "'\nset label 'backward' at "
            << begin << ',' << 0.96 * top_ << " left offset 0.6,0 front textcolor rgb '"
            << kDarkGrey << "'\n";
  }

  // Over the line's peak, and beside it.
  void label_plain() {
    const MemoryMoment& peak = peak_of(plain_);
    script_ << "set label " << quoted("without recomputation " + bytes_text(total(peak))) << " at "
            << middle(peak) << ',' << y(total(peak)) + 0.03 * top_
            << (middle(peak) < 0.6 * right_ ? " left offset 0.6,0" : " right")
            << " front textcolor rgb '" << kDarkGrey << "'\n";
  }

  // Above the peak; above the other label, too, if that is near.
  void label_peak() {
    const MemoryMoment& peak = peak_of(curve_);
    const double plain = y(total(peak_of(plain_)));
    const bool is_near = plain < y(total(peak)) + 0.12 * top_;
    const double height = is_near ? plain + 0.1 * top_ : y(total(peak)) + 0.07 * top_;
    const double time = middle(peak);
    const char* const side =
        time < 0.3 * right_ ? "left" : (time > 0.7 * right_ ? "right" : "center");
    script_ << "set arrow from " << time << ',' << height - 0.02 * top_ << " to " << time << ','
            << y(total(peak))
            << " front head filled size screen 0.008,20 lw 1.5 lc rgb '#000000'\nset label "
            << quoted("peak " + bytes_text(total(peak)) + " at " +
                      peak_label(outcome_.trace(), simulation_))
            << " at " << time << ',' << height << ' ' << side << " front boxed\n";
  }

  const planner::Simulation& simulation_;
  Outcome outcome_;
  std::vector<MemoryMoment> curve_;
  std::vector<MemoryMoment> plain_;  // without recomputation
  Unit bytes_;
  Unit seconds_;
  double right_ = 0;  // of the picture, in its units
  double top_ = 0;
  std::ostringstream script_;
};

}  // namespace

std::string memory_picture(const planner::Simulator& simulator, const planner::Solution& solution,
                           const std::string& title) {
  return MemoryPicture(simulator, solution).script(title);
}

}  // namespace reprise::planner_internal
