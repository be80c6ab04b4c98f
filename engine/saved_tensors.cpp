// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/saved_tensors.h"

#include <algorithm>
#include <cstddef>
#include <iomanip>
#include <map>
#include <sstream>
#include <tuple>
#include <utility>

#include "reprise/engine/bill/graph_bill.h"
#include "reprise/engine/budget/mebibytes.h"
#include "reprise/hooks/seam/torch_version.h"

namespace reprise {
namespace {

using engine_internal::in_mebibytes;

constexpr std::size_t kMostLines = 30;

std::int64_t bytes_of(const std::vector<SavedTensorRow>& rows) {
  std::int64_t bytes = 0;
  for (const SavedTensorRow& row : rows) {
    bytes += row.bytes;
  }
  return bytes;
}

struct Line {
  std::int64_t bytes = 0;
  std::vector<std::string> cells;  // region, node, kind
};

// Returns one line for each combination of the columns, the largest first.
std::vector<Line> lines_of(const std::vector<SavedTensorRow>& rows) {
  std::map<std::tuple<std::string, std::string, std::string>, std::size_t> places;
  std::vector<Line> lines;
  for (const SavedTensorRow& row : rows) {
    const auto [at, is_new] =
        places.emplace(std::tuple(row.region, row.node, row.kind), lines.size());
    if (is_new) {
      lines.push_back({.bytes = 0, .cells = {row.region, row.node, row.kind}});
    }
    lines[at->second].bytes += row.bytes;
  }
  std::stable_sort(lines.begin(), lines.end(),
                   [](const Line& a, const Line& b) { return a.bytes > b.bytes; });
  return lines;
}

std::string line_text(const std::string& bytes, const std::vector<std::string>& cells) {
  std::ostringstream out;
  out << std::right << std::setw(14) << bytes << std::left;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const std::string& cell = cells[i].empty() ? "-" : cells[i];
    out << "  " << std::setw(i + 1 < cells.size() ? 24 : 0) << cell;
  }
  return out.str() + "\n";
}

}  // namespace

std::int64_t SavedTensors::total_bytes() const { return bytes_of(rows); }

std::string SavedTensors::to_string() const {
  const std::vector<Line> lines = lines_of(rows);
  std::string text = "saved for backward: " + in_mebibytes(total_bytes()) + " in " +
                     std::to_string(rows.size()) + " storages, and " +
                     in_mebibytes(bytes_of(leaves)) + " of leaves\n";
  text += line_text("bytes", {"region", "node", "kind"});
  std::int64_t rest = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i < kMostLines) {
      text += line_text(std::to_string(lines[i].bytes), lines[i].cells);
    } else {
      rest += lines[i].bytes;
    }
  }
  if (lines.size() > kMostLines) {
    text += std::to_string(lines.size() - kMostLines) + " more, of " + in_mebibytes(rest) + "\n";
  }
  if (!unread.empty()) {
    text += "unknown tensors of " + std::to_string(unread.size()) + " nodes, the first of them " +
            unread.front() + "\n";
  }
  return text;
}

SavedTensors saved_tensors(at::TensorList outputs) {
  std::vector<hooks_internal::NodePtr> roots;
  for (const at::Tensor& output : outputs) {
    if (output.defined() && output.grad_fn() != nullptr) {
      roots.push_back(output.grad_fn());
    }
  }
  return engine_internal::bill_of(std::move(roots));
}

}  // namespace reprise
