// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/command/frontier_picture.h"

#include <algorithm>
#include <sstream>

#include "reprise/planner/command/gnuplot.h"
#include "reprise/planner/explanation/quantity_text.h"

namespace reprise::planner_internal {
namespace {

using planner::Solution;

class FrontierPicture {
 public:
  explicit FrontierPicture(const Findings& findings)
      : findings_(findings), marked_(*findings.subject()), unit_(byte_unit(findings.peak_bytes)) {}

  std::string script() {
    add_data();
    set_axes();
    label_marked();
    script_ << "plot $bound using 1:2 with filledcurves y1=0 fc rgb '" << kLightGrey
            << "' notitle, $bound using 1:2 with lines lw 1.5 dt 2 lc rgb '" << kDarkGrey
            << "' title 'certified bound: no plan is below', "
            << "$plans using 1:2 with steps lw 2 lc rgb '" << kBlue << "' notitle, "
            << "$plans using 1:2 with points pt 7 ps 0.9 lc rgb '" << kBlue << "' title 'plans', "
            << "$marked using 1:2 with points pt 6 ps 2 lw 2.5 lc rgb '" << kVermilion
            << "' notitle\nunset label\n";
    return script_.str();
  }

 private:
  double x(const Solution& solution) const {
    return static_cast<double>(solution.simulation.peak_bytes) / unit_.size;
  }
  double y(const Solution& solution) const { return 100 * findings_.extra_time(solution); }

  void add_data() {
    script_ << "$plans << END\n";
    for (const Solution& solution : findings_.frontier) {
      script_ << x(solution) << ' ' << y(solution) << '\n';
    }
    script_ << "END\n$marked << END\n" << x(marked_) << ' ' << y(marked_) << "\nEND\n";
    script_ << "$bound << END\n";
    double begin = x(findings_.frontier.front());
    for (const Solution& solution : findings_.frontier) {
      // Between two budgets the bound of the larger one holds.
      const double bound = std::max(0.0, 100 * findings_.bound(solution));
      script_ << begin << ' ' << bound << '\n' << x(solution) << ' ' << bound << '\n';
      begin = x(solution);
    }
    script_ << "END\n";
  }

  double first() const { return std::min(x(findings_.frontier.front()), x(marked_)); }
  double last() const {
    return std::max({x(findings_.frontier.back()), x(marked_),
                     static_cast<double>(findings_.peak_bytes) / unit_.size});
  }

  void set_axes() {
    const double pad = std::max(0.02 * (last() - first()), 0.001 * last());
    const double highest = std::max(y(findings_.frontier.front()), y(marked_));
    script_ << "set title 'Extra time of a step against its peak' font ',15'\n"
            << "set xlabel 'peak (" << unit_.name << ")'\nset ylabel 'extra time (%)'\n"
            << "set xrange [" << first() - pad << ':' << last() + pad
            << "]\nset yrange [0:" << 1.12 * std::max(highest, 0.01) << "]\n"
            << "set key inside top right samplen 3 spacing 1.3 Left reverse\n";
  }

  void label_marked() {
    const bool is_left = x(marked_) < first() + 0.6 * (last() - first());
    script_ << "set label "
            << quoted((findings_.plan ? "the plan below: " : "knee: ") +
                      bytes_text(marked_.simulation.peak_bytes) + ", " +
                      percent_text(findings_.extra_time(marked_)))
            << " at " << x(marked_) << ',' << y(marked_)
            << (is_left ? " left offset 1.2,0.9" : " right offset -1.2,0.9") << " front\n";
  }

  const Findings& findings_;
  const Solution& marked_;
  Unit unit_;
  std::ostringstream script_;
};

}  // namespace

std::string frontier_picture(const Findings& findings) {
  return FrontierPicture(findings).script();
}

}  // namespace reprise::planner_internal
