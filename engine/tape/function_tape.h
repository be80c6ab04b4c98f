// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// The tape of a function region under a policy: results, without arguments. A replay runs the
// region's code, and does with each operator what the tape's actions say.
//
// Note [Stand-ins]: a replay need not compute a result that no saved tensor depends on, and gives
// the code an empty tensor in its place; nor does a replay write in place for nothing. Code that
// keeps a result in a member, a list, or by set_data() would be left with an empty tensor, or with
// one that lacks the write. The replay finds such tensors when the code has ended, as they exist,
// and the code then runs once more, with all operators: the kept tensors hold forward's contents.
// So does code that runs other operators than in forward, without any influence on the saved
// tensors, such as the gathers of sharded weights.
#ifndef REPRISE_ENGINE_TAPE_FUNCTION_TAPE_H_
#define REPRISE_ENGINE_TAPE_FUNCTION_TAPE_H_

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "reprise/base/threading/mutex.h"
#include "reprise/engine/tape/replay_actions.h"
#include "reprise/engine/tape/result_list.h"
#include "reprise/engine/tape/tape.h"

namespace reprise::engine_internal {

class FunctionTape {
 public:
  using Saved = decltype(Tape::given);

  FunctionTape(bool allow_mutation, bool through_hooks)
      : through_hooks(through_hooks), allow_mutation_(allow_mutation) {}

  const bool through_hooks;  // saved results go to the surrounding saved-tensor hooks

  // Written by forward. Operators are recorded with the values that they use; their ordinals are
  // those of the watch.
  Tape tape;
  ResultList results;
  // None for results that can be neither retained nor replaced (sparse tensors, objects).
  base_internal::IdVector<TapeOperatorId, std::optional<ResultList::Range>> results_of;

  // Forward has ended.
  void complete(ReplayActions actions) ABSL_LOCKS_EXCLUDED(mutex_);
  bool is_complete() const { return is_complete_; }
  // Returns what a replay does now: while forward runs, any value may be needed.
  ReplayActions actions_now() const;
  const ReplayActions& actions() const { return actions_; }

  // Returns null if the saved results have been released, or modified while that is allowed, or
  // written through a pointer while forward runs: then each operator has to run.
  std::shared_ptr<const Saved> saved() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the same, and retains nothing. When forward has ended.
  std::shared_ptr<Saved> take_saved() ABSL_LOCKS_EXCLUDED(mutex_);
  // From now on replays run the code without this tape, which retains nothing any more: see Note
  // [Stand-ins].
  void run_everything();
  bool runs_everything() const { return runs_everything_; }

 private:
  bool are_usable(const Saved& saved) const;

  const bool allow_mutation_;
  bool is_complete_ = false;
  ReplayActions actions_;
  std::atomic<bool> runs_everything_ = false;
  mutable Mutex mutex_;
  std::shared_ptr<Saved> saved_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reprise::engine_internal

#endif  // REPRISE_ENGINE_TAPE_FUNCTION_TAPE_H_
