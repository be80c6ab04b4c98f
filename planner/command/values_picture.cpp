// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/values_picture.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <sstream>
#include <utility>
#include <vector>

#include "reprise/planner/command/class_style.h"
#include "reprise/planner/command/gnuplot.h"
#include "reprise/planner/explanation/outcome.h"
#include "reprise/planner/explanation/quantity_text.h"
#include "reprise/planner/memory_timeline.h"

namespace reprise::planner_internal {
namespace {

using planner::MemoryClass;
using planner::MemoryTimeline;
using planner::Residence;

constexpr std::size_t kMostBars = 24;

struct Bar {
  planner::ValueId value = planner::kNone;
  std::vector<Residence> parts;  // by time
  double byte_seconds = 0;
};

class ValuesPicture {
 public:
  ValuesPicture(const planner::Simulator& simulator, const planner::Solution& solution)
      : outcome_(simulator, solution.plan),
        timeline_(memory_timeline(simulator, solution.plan)),
        plain_(memory_timeline(simulator, retain_all(simulator.trace()))),
        seconds_(second_unit(timeline_.moments.back().end_seconds)),
        right_(std::max(timeline_.moments.back().end_seconds, plain_.moments.back().end_seconds) /
               seconds_.size) {
    find_bars();
  }

  std::string script() {
    script_ << "$values << END\n";
    for (std::size_t row = 0; row < bars_.size(); ++row) {
      for (const Residence& part : bars_[row].parts) {
        const char* const color = class_style(static_cast<std::size_t>(part.memory_class)).color;
        script_ << begin(part) << ' ' << row << ' ' << begin(part) << ' ' << end(part) << ' '
                << static_cast<double>(row) - 0.42 << ' ' << static_cast<double>(row) + 0.42
                << " 0x" << color + 1 << '\n';
      }
    }
    script_ << "END\n";
    set_axes();
    for (std::size_t row = 0; row < bars_.size(); ++row) {
      label(row);
    }
    script_ << "plot $values using 1:2:3:4:5:6:7 with boxxyerror fs solid noborder "
            << "lc rgb variable notitle\nunset label\nset ytics\n";
    return script_.str();
  }

 private:
  double begin(const Residence& part) const {
    return timeline_.moments[part.first_run].begin_seconds / seconds_.size;
  }
  double end(const Residence& part) const {
    return timeline_.moments[part.last_run].end_seconds / seconds_.size;
  }

  // The largest, by the time at which they are there first.
  void find_bars() {
    std::vector<Bar> all(outcome_.trace().values.size());
    for (const Residence& each : timeline_.residences) {
      if (each.memory_class != MemoryClass::kBeforeStep) {
        Bar& bar = all[each.value];
        bar.value = each.value;
        bar.parts.push_back(each);
        bar.byte_seconds += static_cast<double>(each.bytes) * (end(each) - begin(each));
      }
    }
    std::erase_if(all, [](const Bar& bar) { return bar.parts.empty(); });
    std::stable_sort(all.begin(), all.end(),
                     [](const Bar& a, const Bar& b) { return a.byte_seconds > b.byte_seconds; });
    const auto rest = all.begin() + static_cast<std::ptrdiff_t>(std::min(all.size(), kMostBars));
    left_out_ = static_cast<std::size_t>(all.end() - rest);
    const auto sum = [](auto first, auto last) {
      return std::accumulate(first, last, 0.0,
                             [](double total, const Bar& bar) { return total + bar.byte_seconds; });
    };
    const double total = sum(all.begin(), all.end());
    part_left_out_ = total > 0 ? sum(rest, all.end()) / total : 0;
    all.erase(rest, all.end());
    std::stable_sort(all.begin(), all.end(), [](const Bar& a, const Bar& b) {
      return a.parts.front().first_run < b.parts.front().first_run;
    });
    bars_ = std::move(all);
  }

  void set_axes() {
    std::ostringstream title;
    title << "Values of the step in memory: the largest by bytes and time";
    if (left_out_ > 0) {
      title << " (" << left_out_ << " more, " << percent_text(part_left_out_)
            << " of bytes and time, are left out)";
    }
    script_ << "set title " << quoted(title.str()) << " font ',13'\nset xrange [0:" << right_
            << "]\nset yrange [" << static_cast<double>(bars_.size()) - 0.4
            << ":-0.6]\nset xlabel 'time of the operators (" << seconds_.name
            << ")'\nunset ylabel\nunset ytics\nset bmargin 4\n";
  }

  // Beside the bar where there is room; else on its first part, or after it if that is short.
  void label(std::size_t row) {
    const Bar& bar = bars_[row];
    const double first = begin(bar.parts.front());
    const double end_of_first = end(bar.parts.front());
    const double last = end(bar.parts.back());
    const bool is_on_it = std::max(first, right_ - last) < 0.3 * right_;
    const bool is_white = is_on_it && end_of_first - first > 0.25 * right_;
    const bool is_before = !is_on_it && first > right_ - last;
    const double at = is_white || is_before ? first : (is_on_it ? end_of_first : last);
    const std::string text = value_label(outcome_, bar.value) + ", " +
                             bytes_text(outcome_.trace().values[bar.value].bytes);
    script_ << "set label " << quoted(text) << " at " << at << ',' << row
            << (is_before ? " right offset -0.4,0" : " left offset 0.4,0") << " front font ',9'"
            << (is_white ? " textcolor rgb '#ffffff'\n" : "\n");
  }

  Outcome outcome_;
  MemoryTimeline timeline_;
  MemoryTimeline plain_;  // without recomputation
  Unit seconds_;
  double right_ = 0;  // of the picture, in its unit
  std::vector<Bar> bars_;
  std::size_t left_out_ = 0;
  double part_left_out_ = 0;  // of bytes and time
  std::ostringstream script_;
};

}  // namespace

std::string values_picture(const planner::Simulator& simulator, const planner::Solution& solution) {
  return ValuesPicture(simulator, solution).script();
}

}  // namespace reprise::planner_internal
