// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/tape_replay/rerun_groups.h"

#include <algorithm>

namespace reprise::engine_internal {

RerunGroups::RerunGroups(const Tape& tape, const Values& is_there)
    : tape_(tape),
      is_there_(is_there),
      parents_(tape.operators.size()),
      seconds_(tape.operators.size()) {
  find_readers();
  for (const TapeOperatorId op : tape.operators.ids()) {
    if (is_absent(op)) {
      parents_[op] = op;
      seconds_[op] = seconds_of(tape.operators[op]);
      tape.for_each_use(tape.operators[op], [&](TapeValueId use) {
        const TapeOperatorId maker = tape.values[use].op;
        if (!is_there[use] && maker != Tape::kNone && parents_[maker] != Tape::kNone) {
          join(maker, op);
        }
      });
    }
  }
}

double RerunGroups::seconds_of(const Tape::Operator& op) {
  constexpr double kUnknown = 1e-6;
  return op.seconds > 0 ? op.seconds : kUnknown;
}

// Counts, adds up, and fills from the ends.
void RerunGroups::find_readers() {
  first_reader_.assign(tape_.values.size() + 1, 0);
  const auto for_each_read = [&](const auto& visitor) {
    for (const TapeOperatorId op : tape_.operators.ids()) {
      tape_.for_each_use(tape_.operators[op],
                         [&](TapeValueId use) { visitor(first_reader_[use.number()], op); });
    }
  };
  for_each_read([](std::uint32_t& count, TapeOperatorId /*op*/) { ++count; });
  std::uint32_t sum = 0;
  for (std::uint32_t& each : first_reader_) {
    sum += each;
    each = sum;
  }
  readers_.resize(sum);
  for_each_read([this](std::uint32_t& end, TapeOperatorId op) { readers_[--end] = op; });
}

bool RerunGroups::is_absent(TapeOperatorId op) const {
  bool is_absent = false;
  tape_.for_each_outcome(tape_.operators[op],
                         [&](TapeValueId value) { is_absent = is_absent || !is_there_[value]; });
  return is_absent;
}

TapeOperatorId RerunGroups::find(TapeOperatorId op) {
  while (parents_[op] != op) {
    parents_[op] = parents_[parents_[op]];
    op = parents_[op];
  }
  return op;
}

void RerunGroups::join(TapeOperatorId one, TapeOperatorId other) {
  one = find(one);
  other = find(other);
  if (one != other) {
    parents_[other] = one;
    seconds_[one] += seconds_[other];
  }
}

RerunGroups::Groups RerunGroups::groups_around(TapeOperatorId op) {
  Groups groups;
  const auto add = [&](TapeOperatorId other) {
    if (other == Tape::kNone || other == op || parents_[other] == Tape::kNone) {
      return;
    }
    const TapeOperatorId group = find(other);
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) {
      groups.push_back(group);
    }
  };
  tape_.for_each_use(tape_.operators[op], [&](TapeValueId use) {
    add(is_there_[use] ? TapeOperatorId() : tape_.values[use].op);
  });
  tape_.for_each_outcome(tape_.operators[op], [&](TapeValueId value) {
    for (std::uint32_t i = first_reader_[value.number()]; i < first_reader_[value.number() + 1];
         ++i) {
      add(readers_[i]);
    }
  });
  return groups;
}

double RerunGroups::seconds_around(TapeValueId value) {
  const TapeOperatorId op = tape_.values[value].op;
  const bool is_in_group = parents_[op] != Tape::kNone;
  const TapeOperatorId own = is_in_group ? find(op) : op;
  double seconds = is_in_group ? seconds_[own] : seconds_of(tape_.operators[op]);
  for (const TapeOperatorId group : groups_around(op)) {
    seconds += group == own ? 0 : seconds_[group];
  }
  return seconds;
}

void RerunGroups::remove(TapeValueId value) {
  const TapeOperatorId op = tape_.values[value].op;
  if (parents_[op] == Tape::kNone) {
    parents_[op] = op;
    seconds_[op] = seconds_of(tape_.operators[op]);
  }
  for (const TapeOperatorId group : groups_around(op)) {
    join(group, op);
  }
}

}  // namespace reprise::engine_internal
