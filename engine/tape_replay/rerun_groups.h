// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The operators of a tape that would have to run again, in groups whose values depend on each
// other.
//
// Note [Neighbourhoods]: to free a value costs more than its own operator if values around it are
// not there either: those that it depends on are computed for it, and it is computed for those that
// depend on it. After Kirisame et al., "Dynamic tensor rematerialization" (ICLR 2021), whose
// h_DTR^eq joins the evicted values around one into classes with a known sum of times.
#ifndef REPRISE_ENGINE_TAPE_REPLAY_RERUN_GROUPS_H_
#define REPRISE_ENGINE_TAPE_REPLAY_RERUN_GROUPS_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "reprise/base/ids/strong_id.h"
#include "reprise/engine/tape/tape.h"

namespace reprise::engine_internal {

class RerunGroups {
 public:
  using Values = base_internal::IdVector<TapeValueId, std::uint8_t>;

  // is_there: by value, as it is now. Both must outlive this. Time: linear in the tape.
  RerunGroups(const Tape& tape, const Values& is_there);

  // Returns the seconds of the operators that would run again because of the value, which is there:
  // its own, and the groups next to it.
  double seconds_around(TapeValueId value);
  // The value is no longer there.
  void remove(TapeValueId value);

 private:
  using Groups = absl::InlinedVector<TapeOperatorId, 8>;

  bool is_absent(TapeOperatorId op) const;
  TapeOperatorId find(TapeOperatorId op);
  void join(TapeOperatorId one, TapeOperatorId other);
  // Returns the groups that `op` would be in, if it had to run again.
  Groups groups_around(TapeOperatorId op);
  void find_readers();
  static double seconds_of(const Tape::Operator& op);

  const Tape& tape_;
  const Values& is_there_;
  base_internal::IdVector<TapeOperatorId, TapeOperatorId> parents_;  // none: needs no run
  base_internal::IdVector<TapeOperatorId, double> seconds_;          // of the group, at its root
  std::vector<std::uint32_t> first_reader_;                          // by value, and the end
  std::vector<TapeOperatorId> readers_;
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_REPLAY_RERUN_GROUPS_H_
