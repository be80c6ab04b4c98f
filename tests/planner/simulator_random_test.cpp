// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The simulator on random traces: beside a slow simulator that is written differently, and by what
// holds for each plan.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "reprise/planner/plan.h"
#include "reprise/planner/simulator.h"
#include "reprise/planner/trace.h"
#include "tests/planner/model_traces.h"
#include "tests/planner/random_trace.h"

namespace reprise::testing::simulator_random_test {
namespace {

using planner::kNone;
using planner::Operator;
using planner::OperatorId;
using planner::Plan;
using planner::Simulation;
using planner::Simulator;
using planner::Trace;
using planner::ValueId;

// The same rules, by bookkeeping of single blocks: a first pass notes what each run reads and makes
// and thereby when each block is used last; a second one fills and empties the memory.
class Reference {
 public:
  Reference(const Trace& trace, const Plan& plan) : trace_(trace), plan_(plan) {
    for (std::size_t value = 0; value < trace.values.size(); ++value) {
      if (trace.producers()[value] == kNone) {
        kept_.insert(static_cast<ValueId>(value));
        new_block(static_cast<ValueId>(value), -1);
      }
    }
    for (step_ = 0; step_ < static_cast<OperatorId>(trace.operators.size()); ++step_) {
      fresh_.clear();
      if (step_ >= trace.backward_begin) {
        for (const ValueId value : trace.operators[step_].reads) {
          std::set<OperatorId> missing;
          find_missing(value, missing);
          for (const OperatorId op : missing) {
            perform(op, true);
          }
        }
      }
      program_event_.push_back(events_);
      perform(step_, false);
    }
    fill_memory();
  }

  std::int64_t peak = 0;
  std::int64_t at_end = 0;
  double seconds = 0;
  double recompute_seconds = 0;

 private:
  struct Block {
    ValueId value;
    int made;
    int last;
    int replaces;  // a block, or -1
    bool is_programs;
  };

  bool is_present(ValueId value) const {
    const OperatorId released = trace_.values[value].released;
    return released == kNone || released >= step_ || kept_.contains(value) ||
           fresh_.contains(value);
  }

  void find_missing(ValueId value, std::set<OperatorId>& missing) const {
    if (is_present(value)) {
      return;
    }
    const OperatorId op = trace_.producers()[value];
    if (missing.insert(op).second) {
      for (const ValueId read : trace_.operators[op].reads) {
        find_missing(read, missing);
      }
    }
  }

  int new_block(ValueId value, int made) {
    const ValueId overwritten = trace_.values[value].overwrites;
    blocks_.push_back({.value = value,
                       .made = made,
                       .last = made,
                       .replaces = overwritten == kNone ? -1 : block_of_.at(overwritten),
                       .is_programs = true});
    return block_of_.emplace(value, static_cast<int>(blocks_.size()) - 1).first->second;
  }

  void perform(OperatorId op, bool again) {
    const Operator& each = trace_.operators[op];
    seconds += each.seconds;
    recompute_seconds += again ? each.seconds : 0;
    for (const ValueId read : each.reads) {
      blocks_[block_of_.at(read)].last = events_;
    }
    for (const ValueId result : each.results) {
      const bool is_spare = again && is_present(result);
      const int known = is_spare ? block_of_.at(result) : -1;
      block_of_.erase(result);
      new_block(result, events_);
      blocks_.back().is_programs = !again;
      if (is_spare) {
        block_of_[result] = known;
        continue;
      }
      const int times = again ? ++recomputed_[result] : 0;
      if (times >= plan_.choices[result].retained_from) {
        kept_.insert(result);
      }
      if (again) {
        fresh_.insert(result);
      }
    }
    workspaces_.push_back(each.workspace_bytes);
    ++events_;
  }

  void fill_memory() {
    for (Block& block : blocks_) {
      const OperatorId released = trace_.values[block.value].released;
      if (block.is_programs) {
        block.last = std::max(block.last, released == kNone ? events_ : program_event_[released]);
      }
    }
    std::int64_t memory = 0;
    for (int event = -1; event < events_; ++event) {
      for (const Block& block : blocks_) {
        if (block.made == event) {
          const bool is_replaced = block.replaces != -1 && blocks_[block.replaces].last == event;
          memory += bytes(block) - (is_replaced ? bytes(blocks_[block.replaces]) : 0);
        }
      }
      if (event >= 0) {
        peak = std::max(peak, memory + workspaces_[event]);
      }
      std::set<int> replaced;
      for (const Block& block : blocks_) {
        if (block.made == event) {
          replaced.insert(block.replaces);
        }
      }
      for (std::size_t i = 0; i < blocks_.size(); ++i) {
        if (blocks_[i].last == event && !replaced.contains(static_cast<int>(i))) {
          memory -= bytes(blocks_[i]);
        }
      }
    }
    at_end = memory;
  }

  std::int64_t bytes(const Block& block) const { return trace_.values[block.value].bytes; }

  const Trace& trace_;
  const Plan& plan_;
  OperatorId step_ = 0;
  int events_ = 0;
  std::vector<Block> blocks_;
  std::map<ValueId, int> block_of_;
  std::set<ValueId> kept_;
  std::set<ValueId> fresh_;  // made for the operator of backward that is next
  std::map<ValueId, int> recomputed_;
  std::vector<int> program_event_;
  std::vector<std::int64_t> workspaces_;
};

RandomTraceOptions random_options(std::uint64_t seed) {
  RandomTraceOptions options;
  options.forward_operators = 4 + static_cast<int>(seed % 40);
  options.in_place = seed % 3 == 0 ? 0.4 : 0.1;
  options.held = seed % 5 == 0 ? 0.3 : 0.05;
  options.not_recomputable = seed % 2 == 0 ? 0 : 0.1;
  options.max_workspace_bytes = seed % 7 == 0 ? 4096 : 256;
  return options;
}

std::int64_t bytes_held_at_the_end(const Trace& trace) {
  std::int64_t bytes = 0;
  for (const planner::Value& value : trace.values) {
    bytes += value.released == kNone ? value.bytes : 0;
  }
  return bytes;
}

TEST(SimulatorRandomTest, AgreesWithTheReferenceOnRandomPlans) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const Trace trace = random_trace(seed, random_options(seed));
    const Simulator simulator(trace);
    for (std::uint64_t i = 0; i < 3; ++i) {
      const Plan plan = random_plan(trace, 3 * seed + i);
      const Reference reference(trace, plan);
      const Simulation result = simulator.run(plan);
      ASSERT_TRUE(result.is_valid) << seed;
      EXPECT_EQ(result.peak_bytes, reference.peak) << seed;
      EXPECT_EQ(result.seconds, reference.seconds) << seed;
      EXPECT_EQ(result.recompute_seconds, reference.recompute_seconds) << seed;
      EXPECT_EQ(reference.at_end, bytes_held_at_the_end(trace)) << seed;
    }
  }
}

TEST(SimulatorRandomTest, AScheduleAgreesWithItsRun) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Trace trace = random_trace(seed, random_options(seed));
    const Simulator simulator(trace);
    const Plan plan = random_plan(trace, seed);
    const Simulation result = simulator.run(plan);
    double seconds = 0;
    std::int64_t peak = 0;
    bool is_peak_there = false;
    for (const planner::ScheduledRun& run : simulator.schedule(plan)) {
      seconds += trace.operators[run.op].seconds;
      peak = std::max(peak, run.live_bytes);
      EXPECT_GE(run.retained_bytes, 0);
      EXPECT_GE(run.recomputed_bytes, 0);
      EXPECT_LE(run.retained_bytes + run.recomputed_bytes + run.workspace_bytes, run.live_bytes);
      const OperatorId during = run.requested_by == kNone ? run.op : run.requested_by;
      if (run.live_bytes == result.peak_bytes && !is_peak_there) {
        EXPECT_EQ(run.op, result.peak_operator);
        EXPECT_EQ(during, result.peak_during);
        is_peak_there = true;
      }
    }
    EXPECT_EQ(seconds, result.seconds);
    EXPECT_EQ(peak, result.peak_bytes);
  }
}

TEST(SimulatorRandomTest, TheValuesAtThePeakAddUpToIt) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const Trace trace = random_trace(seed, random_options(seed));
    const Simulator simulator(trace);
    const Plan plan = random_plan(trace, seed);
    const Simulation result = simulator.run(plan);
    std::int64_t bytes = trace.operators[result.peak_operator].workspace_bytes;
    std::int64_t previous = trace.values[simulator.live_at_peak(plan).front()].bytes;
    for (const ValueId value : simulator.live_at_peak(plan)) {
      bytes += trace.values[value].bytes;
      EXPECT_LE(trace.values[value].bytes, previous);
      previous = trace.values[value].bytes;
    }
    EXPECT_EQ(bytes, result.peak_bytes) << seed;
  }
}

TEST(SimulatorRandomTest, MemoryReturnsToWhatTheProgramHolds) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Trace trace = random_trace(seed, random_options(seed));
    trace.operators.push_back({.name = "end", .reads = {}, .results = {}});
    const Simulator simulator(trace);
    EXPECT_EQ(simulator.schedule(random_plan(trace, seed)).back().live_bytes,
              bytes_held_at_the_end(trace))
        << seed;
  }
}

// What is held by the program, and what autograd has saved and has not yet used for the last time.
std::int64_t bytes_of_plain_autograd(const Trace& trace) {
  const auto size = static_cast<OperatorId>(trace.operators.size());
  const std::vector<OperatorId> producers = trace.producers();
  std::vector<OperatorId> last(trace.values.size());
  for (std::size_t value = 0; value < trace.values.size(); ++value) {
    const OperatorId released = trace.values[value].released;
    last[value] = released == kNone ? size : released;
  }
  for (OperatorId op = trace.backward_begin; op < size; ++op) {
    for (const ValueId value : trace.operators[op].reads) {
      last[value] = std::max(last[value], op);
    }
  }
  std::int64_t peak = 0;
  for (OperatorId op = 0; op < size; ++op) {
    std::int64_t bytes = trace.operators[op].workspace_bytes;
    for (std::size_t value = 0; value < trace.values.size(); ++value) {
      bytes += producers[value] <= op && op <= last[value] ? trace.values[value].bytes : 0;
    }
    for (const ValueId value : trace.operators[op].results) {
      const ValueId overwritten = trace.values[value].overwrites;
      bytes -= overwritten == kNone ? 0 : trace.values[overwritten].bytes;
    }
    peak = std::max(peak, bytes);
  }
  return peak;
}

TEST(SimulatorRandomTest, RetainAllHoldsWhatPlainAutogradHolds) {
  const auto check = [](const Trace& trace) {
    const Simulation result = Simulator(trace).run(retain_all(trace));
    ASSERT_TRUE(result.is_valid);
    EXPECT_EQ(result.peak_bytes, bytes_of_plain_autograd(trace));
    EXPECT_EQ(result.recompute_seconds, 0);
    EXPECT_EQ(result.seconds, trace.seconds());
  };
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    check(random_trace(seed, random_options(seed)));
  }
  check(resnet(4));
  check(densenet(5));
  check(transformer(2, 256, 128, 4, false));
}

}  // namespace
}  // namespace reprise::testing::simulator_random_test
