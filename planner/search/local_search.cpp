// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/search/local_search.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <tuple>
#include <utility>

namespace reprise::planner_internal {

using planner::Choice;
using planner::Simulation;

namespace {

constexpr std::string_view kMethod = "local search";
// Times that differ by less are equal: sums of the same times in another order.
constexpr double kRounding = 1e-12;
// Of what could make room for one value.
constexpr int kMostLosses = 24;
// Of pairs few are promising enough to be tried.
constexpr std::size_t kPairsPerTrial = 8;

}  // namespace

LocalSearch::LocalSearch(const Problem& problem, const RetainMenu& menu, Trials& trials, Plan start,
                         std::int64_t peak_bytes)
    : problem_(problem),
      menu_(menu),
      trials_(trials),
      eviction_(problem, menu, trials),
      peak_bytes_(peak_bytes),
      plan_(std::move(start)),
      reruns_(problem, plan_),
      best_(trials.run(plan_, kMethod)) {}

void LocalSearch::run() {
  bool is_better = best_.is_valid;
  while (is_better && !trials_.is_over()) {
    is_better = fits() ? retain_more() || exchange() || exchange_neighbours() || change_pairs()
                       : lower_peak();
  }
}

bool LocalSearch::is_better(const Simulation& a, const Simulation& b) const {
  if (!a.is_valid || !b.is_valid) {
    return a.is_valid;
  }
  const bool fits_a = a.peak_bytes <= peak_bytes_;
  const bool fits_b = b.peak_bytes <= peak_bytes_;
  if (!fits_a || !fits_b) {
    // Of equal peaks the first one is reported: a later one means that the first is gone.
    return std::tuple(a.peak_bytes, -a.peak_during, -a.peak_operator) <
           std::tuple(b.peak_bytes, -b.peak_during, -b.peak_operator);
  }
  const double rounding = kRounding * b.seconds;
  return a.seconds < b.seconds - rounding ||
         (a.seconds <= b.seconds + rounding && a.peak_bytes < b.peak_bytes);
}

void LocalSearch::apply(const std::vector<Change>& changes, std::vector<Change>* undo) {
  for (const Change& change : changes) {
    if (undo != nullptr) {
      undo->push_back({change.value, plan_.choices[change.value]});
    }
    plan_.choices[change.value] = change.choice;
    reruns_.set_retained(change.value, change.choice.is_retained());
  }
  if (undo != nullptr) {
    std::reverse(undo->begin(), undo->end());
  }
}

bool LocalSearch::try_changes(const std::vector<Change>& changes) {
  if (trials_.is_over()) {
    return false;
  }
  std::vector<Change> undo;
  apply(changes, &undo);
  Simulation simulation = trials_.run(plan_, kMethod);
  if (is_better(simulation, best_)) {
    best_ = std::move(simulation);
    return true;
  }
  apply(undo, nullptr);
  return false;
}

double LocalSearch::copy_seconds(ValueId value, Choice choice) const {
  return choice.is_retained() && choice.store != kNone
             ? menu_.copy_seconds(value, choice.store, 0.0)
             : 0.0;
}

double LocalSearch::estimate(const std::vector<Change>& changes) {
  const double before = reruns_.seconds();
  double copies = 0;
  std::vector<Change> undo;
  for (const Change& change : changes) {
    copies += copy_seconds(change.value, change.choice) -
              copy_seconds(change.value, plan_.choices[change.value]);
  }
  apply(changes, &undo);
  const double after = reruns_.seconds();
  apply(undo, nullptr);
  return after - before + copies;
}

bool LocalSearch::try_if_promising(const std::vector<Change>& changes) {
  return estimate(changes) <= kRounding * best_.seconds && try_changes(changes);
}

bool LocalSearch::is_there_at_peak(ValueId value) const {
  const OperatorId last = problem_.last_use[value];
  return last == kNone || last >= best_.peak_during;
}

std::vector<LocalSearch::Change> LocalSearch::other_choices(ValueId value) const {
  std::vector<Change> choices = {{value, Choice::retain()},
                                 {value, Choice::recompute()},
                                 {value, {.retained_from = Choice::kNever}}};
  for (int store = 0; store < static_cast<int>(problem_.simulator.stores().size()); ++store) {
    if (menu_.can_put(value, store)) {
      choices.push_back({value, Choice::put(store)});
    }
  }
  std::erase_if(choices, [&](const Change& each) { return each.choice == plan_.choices[value]; });
  return choices;
}

// The cheapest relief of the peak that lowers it; or else, of the values that are made again, one
// that ends a chain of such values and is retained instead.
bool LocalSearch::lower_peak() {
  for (const Relief& relief : eviction_.reliefs(plan_, best_, reruns_)) {
    if (try_changes({{relief.value, relief.choice}})) {
      return true;
    }
  }
  std::vector<ValueId> needed;
  for (const ValueId value : problem_.candidates) {
    if (reruns_.is_needed(value) && !reruns_.is_retained(value)) {
      needed.push_back(value);
    }
  }
  std::stable_sort(needed.begin(), needed.end(),
                   [this](ValueId a, ValueId b) { return bytes_of(a) < bytes_of(b); });
  for (const ValueId value : needed) {
    if (try_changes({{value, Choice::retain()}})) {
      return true;
    }
  }
  return false;
}

std::vector<LocalSearch::Scored> LocalSearch::gains() {
  std::vector<Scored> gains;
  for (const ValueId value : problem_.candidates) {
    const Choice choice = plan_.choices[value];
    if (!reruns_.is_needed(value) || choice == Choice::retain()) {
      continue;
    }
    for (const Change& change : other_choices(value)) {
      const bool stays_longer = change.choice.retained_from < choice.retained_from;
      double seconds = estimate({change});
      if (stays_longer && change.choice == Choice::recompute()) {
        seconds = -reruns_.seconds_to_make(value);
      }
      if (seconds < 0) {
        gains.push_back({change, seconds, seconds / static_cast<double>(bytes_of(value))});
      }
    }
  }
  std::stable_sort(gains.begin(), gains.end(),
                   [](const Scored& a, const Scored& b) { return a.score < b.score; });
  return gains;
}

std::vector<LocalSearch::Scored> LocalSearch::losses() {
  std::vector<Scored> losses;
  for (const ValueId value : problem_.candidates) {
    if (!plan_.choices[value].is_retained() || !reruns_.is_needed(value)) {
      continue;
    }
    for (const Change& change : other_choices(value)) {
      const bool is_smaller = change.choice.store != kNone || change.choice == Choice::recompute();
      if (is_smaller && plan_.choices[value].store == kNone) {
        const double seconds = estimate({change});
        losses.push_back({change, seconds, seconds / static_cast<double>(bytes_of(value))});
      }
    }
  }
  std::stable_sort(losses.begin(), losses.end(),
                   [](const Scored& a, const Scored& b) { return a.score < b.score; });
  return losses;
}

bool LocalSearch::retain_more() {
  bool is_better = false;
  for (const Scored& gain : gains()) {
    const bool adds_to_peak = gain.change.choice == Choice::retain() &&
                              is_there_at_peak(gain.change.value) &&
                              best_.peak_during >= problem_.trace.backward_begin;
    if (adds_to_peak &&
        best_.peak_bytes + bytes_of(gain.change.value) > peak_bytes_ + best_.peak_bytes / 8) {
      continue;
    }
    is_better = try_if_promising({gain.change}) || is_better;
    if (trials_.is_over()) {
      break;
    }
  }
  return is_better;
}

bool LocalSearch::make_room_for(const Scored& gain, const std::vector<Scored>& losses) {
  const ValueId value = gain.change.value;
  const std::int64_t needed = best_.peak_bytes + bytes_of(value) - peak_bytes_;
  std::vector<Change> several = {gain.change};
  std::int64_t freed = 0;
  int tried = 0;
  for (const Scored& loss : losses) {
    const ValueId other = loss.change.value;
    if (other == value || plan_.choices[other] != Choice::retain() || !is_there_at_peak(other)) {
      continue;
    }
    if (bytes_of(other) >= needed && try_if_promising({gain.change, loss.change})) {
      return true;
    }
    if (freed < needed && std::none_of(several.begin(), several.end(),
                                       [&](const Change& each) { return each.value == other; })) {
      several.push_back(loss.change);
      freed += bytes_of(other);
      if (several.size() > 2 && freed >= needed && try_if_promising(several)) {
        return true;
      }
    }
    if (++tried == kMostLosses || trials_.is_over()) {
      break;
    }
  }
  return false;
}

// One that is retained for others that are not.
bool LocalSearch::exchange() {
  bool is_better = false;
  std::vector<Scored> worst = losses();
  for (const Scored& gain : gains()) {
    if (plan_.choices[gain.change.value].retained_from > gain.change.choice.retained_from &&
        make_room_for(gain, worst)) {
      is_better = true;
      worst = losses();
    }
    if (trials_.is_over()) {
      break;
    }
  }
  return is_better;
}

// A value that is retained for what it is made of, or for what is made of it.
bool LocalSearch::exchange_neighbours() {
  bool is_better = false;
  for (const ValueId value : problem_.candidates) {
    if (!plan_.choices[value].is_retained() || !reruns_.is_needed(value)) {
      continue;
    }
    std::vector<Change> inputs = {{value, Choice::recompute()}};
    for (const ValueId read : problem_.trace.operators[problem_.facts.producer[value]].reads) {
      if (problem_.is_candidate[read]) {
        inputs.push_back({read, Choice::retain()});
      }
    }
    std::vector<Change> outputs = {{value, Choice::recompute()}};
    for (const OperatorId reader : problem_.readers[value]) {
      for (const ValueId made : problem_.trace.operators[reader].results) {
        if (problem_.is_candidate[made]) {
          outputs.push_back({made, Choice::retain()});
        }
      }
    }
    is_better = try_if_promising(inputs) || try_if_promising(outputs) || is_better;
    if (trials_.is_over()) {
      break;
    }
  }
  return is_better;
}

// Any change of one value or, of small traces, of two.
bool LocalSearch::change_pairs() {
  std::vector<Change> singles;
  for (const ValueId value : problem_.candidates) {
    for (const Change& change : other_choices(value)) {
      singles.push_back(change);
    }
  }
  for (const Change& single : singles) {
    if (trials_.is_over()) {
      return false;
    }
    if (try_if_promising({single})) {
      return true;
    }
  }
  if (singles.size() * singles.size() > kPairsPerTrial * static_cast<std::size_t>(trials_.left())) {
    return false;
  }
  for (std::size_t i = 0; i < singles.size(); ++i) {
    for (std::size_t j = i + 1; j < singles.size() && !trials_.is_over(); ++j) {
      if (singles[i].value != singles[j].value && try_if_promising({singles[i], singles[j]})) {
        return true;
      }
    }
  }
  return false;
}

}  // namespace reprise::planner_internal
