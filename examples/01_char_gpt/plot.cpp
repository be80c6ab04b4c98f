// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "plot.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include "memory.h"

namespace char_gpt {
namespace {

// Okabe and Ito's palette, which colour-blind readers can tell apart.
constexpr std::array<const char*, 7> kColors = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                "#E69F00", "#56B4E9", "#000000"};

const char* color_of(std::size_t curve) { return kColors[curve % kColors.size()]; }

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

// The curves as gnuplot's here-documents $curve0, $curve1, ...
void add_curves(const std::vector<const Measurement*>& drawn, std::ostream& script) {
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    script << "$curve" << i << " << END\n";
    for (const LiveSample& sample : drawn[i]->curve) {
      script << sample.time_ms << ' ' << to_mebibytes(sample.bytes) << '\n';
    }
    script << "END\n$end_of_forward" << i << " << END\n"
           << drawn[i]->after_forward.time_ms << ' ' << to_mebibytes(drawn[i]->after_forward.bytes)
           << "\nEND\n";
  }
}

std::string plot_command(const std::vector<const Measurement*>& drawn) {
  std::ostringstream command;
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    const double end_of_forward_ms = drawn[i]->after_forward.time_ms;
    command << "set arrow from " << end_of_forward_ms << ", graph 0 to " << end_of_forward_ms
            << ", graph 1 nohead back lw 1.2 dt 2 lc rgb '" << color_of(i) << "'\n";
  }
  command << "plot ";
  for (std::size_t i = 0; i < drawn.size(); ++i) {
    command << "$curve" << i << " using 1:2 with steps lw 2 lc rgb '" << color_of(i) << "' title "
            << quoted(drawn[i]->variant->name) << ", $end_of_forward" << i
            << " using 1:2 with points pt 7 ps 1.1 lc rgb '" << color_of(i) << "' notitle, ";
  }
  command << "NaN with linespoints lw 1.2 dt 2 pt 7 ps 1.1 lc rgb '#666666' "
          << "title 'end of forward'\n";
  return command.str();
}

std::string gnuplot_script(const std::vector<const Measurement*>& drawn,
                           const std::string& subtitle, const std::filesystem::path& folder) {
  std::ostringstream script;
  add_curves(drawn, script);
  script << "set title \"{/:Bold Live tensor bytes over one training step}\\n{/*0.85 " << subtitle
         << "}\"\n"
         << "set xlabel 'time since the start of the step (ms)'\n"
         << "set ylabel 'live bytes above the start of the step (MiB)'\n"
         << "set xrange [0:*]\nset yrange [0:*]\nset offsets 0, 0, graph 0.05, 0\n"
         << "set border 3 lc rgb '#444444'\nset tics nomirror out\n"
         << "set grid ytics lt 1 lw 1 lc rgb '#d0d0d0'\n"
         << "set key inside top right opaque samplen 2 noenhanced\n"
         << "set terminal pngcairo size 1200,700 font 'Sans,13' background '#ffffff'\n"
         << "set output " << quoted((folder / "live_bytes.png").string()) << '\n'
         << plot_command(drawn)
         << "unset arrow\nset terminal svg size 1000,600 font 'Sans,13' background '#ffffff'\n"
         << "set output " << quoted((folder / "live_bytes.svg").string()) << '\n'
         << plot_command(drawn) << "set output\n";
  return script.str();
}

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
  const std::string script = gnuplot_script(drawn, subtitle, folder);
  std::FILE* gnuplot = popen("gnuplot", "w");
  const bool is_sent = gnuplot != nullptr && std::fputs(script.c_str(), gnuplot) >= 0;
  const bool is_drawn = gnuplot != nullptr && pclose(gnuplot) == 0 && is_sent;
  if (!is_drawn) {
    return "no plot: gnuplot failed; its data is in " + csv;
  }
  return "plot: " + (folder / "live_bytes.png").string() + ", .svg and .csv";
}

}  // namespace char_gpt
