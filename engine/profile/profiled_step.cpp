// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/profile/profiled_step.h"

#include <utility>
#include <vector>

#include "reprise/engine/operators/storage_id.h"

namespace reprise::engine_internal {
namespace {

// The kind of observer to which LibTorch's allocators report.
c10::DebugInfoKind memory_reports() { return c10::DebugInfoKind::PROFILER_STATE; }

// A tensor that autograd has saved, and the value in it.
class SavedValue {
 public:
  SavedValue(std::shared_ptr<MemoryObserver> observer, const at::Tensor& tensor)
      : observer_(std::move(observer)),
        tensor_(tensor),
        value_(observer_->recorder().saved(tensor)) {}
  ~SavedValue() { observer_->recorder().dropped(tensor_); }
  SavedValue(const SavedValue&) = delete;
  SavedValue& operator=(const SavedValue&) = delete;

  const at::Tensor& read() const {
    if (observer_->is_open()) {
      observer_->recorder().read(value_);
    }
    return tensor_;
  }

 private:
  const std::shared_ptr<MemoryObserver> observer_;
  const at::Tensor tensor_;
  const planner::ValueId value_;
};

std::unique_ptr<at::ObserverContext> on_node_begin(const at::RecordFunction& node) {
  if (MemoryObserver* const observer = MemoryObserver::current()) {
    synchronize(observer->device());
    observer->recorder().begin_node(node.name());
  }
  return nullptr;
}

void on_node_end(const at::RecordFunction& /*node*/, at::ObserverContext* /*context*/) {
  if (MemoryObserver* const observer = MemoryObserver::current()) {
    synchronize(observer->device());
    observer->recorder().end_node();
  }
}

}  // namespace

MemoryObserver* MemoryObserver::current() {
  auto* const observer =
      dynamic_cast<MemoryObserver*>(c10::ThreadLocalDebugInfo::get(memory_reports()));
  return observer != nullptr && observer->is_open() ? observer : nullptr;
}

void MemoryObserver::reportMemoryUsage(void* block, std::int64_t bytes, std::size_t total_allocated,
                                       std::size_t /*total_reserved*/, c10::Device device) {
  if (!is_open_ || device != device_) {
    return;
  }
  if (bytes >= 0) {
    recorder_.allocated(block, bytes, static_cast<std::int64_t>(total_allocated));
  } else {
    recorder_.freed(block, -bytes);
  }
}

ProfiledStep::ProfiledStep(c10::Device device)
    : observer_(std::make_shared<MemoryObserver>(device)),
      interceptor_(observer_->recorder(), device, InterceptionScope::current()) {
  hooks_.emplace(
      [observer = observer_](const at::Tensor& tensor) {
        return std::make_shared<const SavedValue>(observer, tensor);
      },
      [](const std::shared_ptr<const SavedValue>& saved) { return saved->read(); });
  memory_.emplace(memory_reports(), observer_);
  interception_.emplace(&interceptor_);
  nodes_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&on_node_begin, &on_node_end)
                                          .scopes({at::RecordScope::BACKWARD_FUNCTION}));
}

ProfiledStep::~ProfiledStep() { end(); }

void ProfiledStep::end() {
  if (interception_.has_value()) {
    observer_->close();
    at::removeCallback(nodes_);
    interception_.reset();
    memory_.reset();
    hooks_.reset();
  }
}

planner::Trace ProfiledStep::finish() {
  end();
  return observer_->recorder().finish();
}

}  // namespace reprise::engine_internal
