// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: trace.h
//
// A training step as a planner sees it: the operators of forward and backward in the order in which
// they ran, with their times, and the values that they read and make, with their bytes. Made by a
// profile of a step, read from a file (trace_format.h), or built by hand:
//
//   Trace trace;
//   const ValueId x = trace.add_value({.bytes = 4096, .kind = ValueKind::kInput});
//   const ValueId h = trace.add_value({.bytes = 8192, .released = 1});
//   trace.operators.push_back({.name = "relu", .seconds = 1e-5, .reads = {x}, .results = {h}});
//   ...
//
// A value is the contents of a memory block at one moment: an operator that writes in place makes a
// new value, which takes over the memory of the old one. Views are no values: what reads a view
// reads the value behind it.
//
// Not for graphs of more than one device: bytes of a trace are those of one memory.
//
// Thread-safety: a value type; concurrent reads are safe.
#ifndef REPRISE_PLANNER_TRACE_H_
#define REPRISE_PLANNER_TRACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "reprise/base/export.h"

namespace reprise::planner {

using ValueId = std::int32_t;     // a position in Trace::values
using OperatorId = std::int32_t;  // a position in Trace::operators

inline constexpr std::int32_t kNone = -1;

// For reports alone.
enum class ValueKind : std::uint8_t { kActivation, kParameter, kInput, kGradient, kOther };

struct Value {
  std::int64_t bytes = 0;  // as the allocator counts them; 0 for memory that another value owns

  // The operator after which the program no longer holds the value; none: held to the end of the
  // step. A value that the program holds is there without being retained for backward.
  OperatorId released = kNone;

  ValueId overwrites = kNone;  // the value whose memory it takes over: of a write in place

  // Of a step that is under way: the value has been freed in forward. No plan has it there when
  // backward begins.
  bool is_evicted = false;

  ValueKind kind = ValueKind::kActivation;
  std::string name = {};
};

struct Operator {
  std::string name = {};
  double seconds = 0;
  std::int64_t workspace_bytes = 0;  // the most that it holds beyond its inputs and results
  bool can_recompute = true;         // false: effects, collectives, host reads
  std::vector<ValueId> reads = {};   // in backward: the values of forward that the node unpacks
  std::vector<ValueId> results = {};
  std::string stack = {};  // of the code that has called it, for people; empty: not recorded
  std::string once = {};   // why it cannot be recomputed, for people; empty: not recorded
};

struct REPRISE_API Trace {
  std::vector<Operator> operators;
  std::vector<Value> values;      // those that no operator makes exist before the step
  OperatorId backward_begin = 0;  // the first operator of backward

  // Appends a value. Returns its id.
  ValueId add_value(Value value);

  // Returns the operator that makes each value; kNone for those that exist before the step.
  std::vector<OperatorId> producers() const;

  // Returns whether the program itself holds the value when backward begins.
  bool is_held(ValueId value) const;

  // Returns the bytes of the values that exist before the step.
  std::int64_t bytes_before_step() const;

  // Returns the time of the step without recomputation, in seconds.
  double seconds() const;

  // Throws std::invalid_argument, with the number of the operator or value, unless
  //   - ids exist, bytes and times are finite and not negative, all of either at most 2^60,
  //   - a value is made at most once, before it is read, and released no earlier than it is made,
  //   - an operator of forward reads values that the program holds at that time, and one of
  //   backward
  //     values of forward,
  //   - a value that is overwritten is released by the operator that overwrites it, and only once,
  //   - a value that is evicted is released in forward, which makes it.
  void validate() const;
};

}  // namespace reprise::planner

#endif  // REPRISE_PLANNER_TRACE_H_
