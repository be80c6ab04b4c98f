// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/planner/trace.h"

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>

namespace reprise::planner {
namespace {

class Validator {
 public:
  explicit Validator(const Trace& trace)
      : trace_(trace),
        producer_(trace.values.size(), kNone),
        is_made_(trace.values.size()),
        is_taken_(trace.values.size()) {}

  void check() {
    for (const Operator& each : trace_.operators) {
      for (const ValueId value : each.results) {
        if (value >= 0 && value < values()) {
          is_made_[value] = true;
        }
      }
    }
    require(trace_.backward_begin >= 0 && trace_.backward_begin <= size(), "backward_begin",
            trace_.backward_begin, "is not the number of an operator");
    for (OperatorId op = 0; op < size(); ++op) {
      check_operator(op);
    }
    for (ValueId value = 0; value < values(); ++value) {
      check_value(value);
    }
  }

 private:
  OperatorId size() const { return static_cast<OperatorId>(trace_.operators.size()); }
  ValueId values() const { return static_cast<ValueId>(trace_.values.size()); }

  void check_operator(OperatorId op) {
    const Operator& each = trace_.operators[op];
    require(std::isfinite(each.seconds) && each.seconds >= 0, "operator", op,
            "has a time that is negative or not finite");
    seconds_ += each.seconds;
    require(seconds_ <= 0x1p60, "operator", op, "brings the time of the trace above 2^60 seconds");
    require(each.workspace_bytes >= 0, "operator", op, "has a negative workspace");
    add_bytes("operator", op, each.workspace_bytes);
    for (const ValueId value : each.reads) {
      require(value >= 0 && value < values(), "operator", op, "reads a value that does not exist");
      check_read(op, value);
    }
    for (const ValueId value : each.results) {
      require(value >= 0 && value < values(), "operator", op, "makes a value that does not exist");
      require(producer_[value] == kNone, "value", value, "is made twice");
      producer_[value] = op;
    }
  }

  void check_read(OperatorId op, ValueId value) const {
    const OperatorId released = trace_.values[value].released;
    require(producer_[value] != kNone || !is_made_[value], "operator", op,
            "reads a value that is made later");
    if (op < trace_.backward_begin) {
      require(released == kNone || released >= op, "operator", op,
              "reads a value that has been released");
    } else {
      require(producer_[value] < trace_.backward_begin || released == kNone || released >= op,
              "operator", op, "reads a value of backward that has been released");
    }
  }

  void check_value(ValueId value) {
    const Value& each = trace_.values[value];
    require(each.bytes >= 0, "value", value, "has negative bytes");
    add_bytes("value", value, each.bytes);
    require(each.released == kNone ||
                (each.released >= producer_[value] && each.released >= 0 && each.released < size()),
            "value", value, "is released before it is made, or by no operator");
    const bool is_let_go_of = producer_[value] != kNone && each.released != kNone &&
                              each.released < trace_.backward_begin;
    require(!each.is_evicted || is_let_go_of, "value", value,
            "is evicted, and is not made and released in forward");
    if (each.overwrites == kNone) {
      return;
    }
    require(each.overwrites >= 0 && each.overwrites < values() && each.overwrites != value, "value",
            value, "overwrites a value that does not exist");
    require(
        producer_[value] != kNone && trace_.values[each.overwrites].released == producer_[value],
        "value", value, "overwrites a value that is not released by the same operator");
    require(!is_taken_[each.overwrites], "value", each.overwrites, "is overwritten twice");
    is_taken_[each.overwrites] = true;
  }

  // Sums of them must not overflow: a plan may have a value twice, and run an operator often.
  void add_bytes(const char* what, std::int32_t number, std::int64_t bytes) {
    constexpr std::int64_t kMost = std::int64_t{1} << 60;
    require(bytes <= kMost - bytes_, what, number, "brings the bytes of the trace above 2^60");
    bytes_ += bytes;
  }

  static void require(bool holds, const char* what, std::int32_t number, const char* reason) {
    if (!holds) {
      throw std::invalid_argument("trace: " + std::string(what) + ' ' + std::to_string(number) +
                                  ' ' + reason);
    }
  }

  const Trace& trace_;
  std::vector<OperatorId> producer_;
  std::vector<bool> is_made_;
  std::vector<bool> is_taken_;
  double seconds_ = 0;
  std::int64_t bytes_ = 0;
};

}  // namespace

ValueId Trace::add_value(Value value) {
  values.push_back(std::move(value));
  return static_cast<ValueId>(values.size()) - 1;
}

std::vector<OperatorId> Trace::producers() const {
  std::vector<OperatorId> producers(values.size(), kNone);
  for (std::size_t op = 0; op < operators.size(); ++op) {
    for (const ValueId value : operators[op].results) {
      producers[value] = static_cast<OperatorId>(op);
    }
  }
  return producers;
}

bool Trace::is_held(ValueId value) const {
  const OperatorId released = values[value].released;
  return released == kNone || released >= backward_begin;
}

std::int64_t Trace::bytes_before_step() const {
  const std::vector<OperatorId> producer = producers();
  std::int64_t bytes = 0;
  for (std::size_t value = 0; value < values.size(); ++value) {
    bytes += producer[value] == kNone ? values[value].bytes : 0;
  }
  return bytes;
}

double Trace::seconds() const {
  double sum = 0;
  for (const Operator& each : operators) {
    sum += each.seconds;
  }
  return sum;
}

void Trace::validate() const { Validator(*this).check(); }

}  // namespace reprise::planner
