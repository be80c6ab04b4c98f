// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/report/operator_log.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/record_function.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <mutex>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include "reprise/engine/report/stack_trace.h"
#include "reprise/hooks/seam/torch_version.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

constexpr std::size_t kShownEntries = 20;
constexpr std::size_t kMaxListElements = 8;

constexpr std::string_view kLogKindName = "REPRISE_OPERATOR_LOG";

c10::DebugInfoKind log_kind() { return hooks_internal::own_debug_info_kind<kLogKindName, 0xC9>(); }

using hooks_internal::UnseenScope;

// The number of listed operators around the present code of this thread.
thread_local int t_listed_depth = 0;
// UnseenScope::depth() at the innermost guard: deeper operators are not logged.
thread_local int t_log_depth = 0;

}  // namespace

// Propagated with LibTorch's thread-local state, so it may outlive its guard, and is closed then.
class OperatorRecording : public c10::DebugInfoBase,
                          public std::enable_shared_from_this<OperatorRecording> {
 public:
  OperatorRecording(OperatorLog& log, std::shared_ptr<OperatorRecording> outer)
      : log_(&log), outer_(std::move(outer)) {}

  // The innermost of this thread, or null.
  static std::shared_ptr<OperatorRecording> current() {
    auto* info = c10::ThreadLocalDebugInfo::get(log_kind());
    return info == nullptr ? nullptr : static_cast<OperatorRecording*>(info)->shared_from_this();
  }

  void append(const OperatorLog::Entry& entry) {
    for (OperatorRecording* recording = this; recording != nullptr;
         recording = recording->outer_.get()) {
      const std::lock_guard lock(recording->mutex_);
      if (recording->log_ != nullptr) {
        recording->log_->entries.push_back(entry);
      }
    }
  }

  void close() {
    const std::lock_guard lock(mutex_);
    log_ = nullptr;
  }

 private:
  std::mutex mutex_;
  OperatorLog* log_;  // null once closed
  const std::shared_ptr<OperatorRecording> outer_;
};

namespace {

std::string lower_case(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void write(std::ostream& out, const at::Tensor& tensor) {
  if (!tensor.defined()) {
    out << "undefined";
    return;
  }
  out << lower_case(c10::toString(tensor.scalar_type()));
  if (tensor.is_nested()) {
    out << "[nested]";
  } else {
    out << '[';
    const char* separator = "";
    for (const auto& size : tensor.sym_sizes()) {
      out << std::exchange(separator, ", ") << size;
    }
    out << ']';
  }
  out << ' ' << tensor.device();
  if (tensor.layout() != at::kStrided) {
    out << ' ' << tensor.layout();
  }
}

void write(std::ostream& out, const c10::IValue& value);

void write_list(std::ostream& out, c10::ArrayRef<c10::IValue> values) {
  out << '[';
  const std::size_t shown = std::min(values.size(), kMaxListElements);
  for (std::size_t i = 0; i < shown; ++i) {
    out << (i == 0 ? "" : ", ");
    write(out, values[i]);
  }
  if (shown < values.size()) {
    out << ", ... " << values.size() - shown << " more";
  }
  out << ']';
}

void write(std::ostream& out, const c10::IValue& value) {
  if (value.isTensor()) {
    write(out, value.toTensor());
  } else if (value.isList()) {
    write_list(out, value.toListRef());
  } else if (value.isTuple()) {
    write_list(out, value.toTupleRef().elements());
  } else if (value.isNone() || value.isScalar() || value.isBool() || value.isDevice() ||
             value.isString()) {
    out << value;
  } else {
    out << value.tagKind();
  }
}

std::string describe_inputs(c10::ArrayRef<const c10::IValue> inputs) {
  std::ostringstream out;
  const char* separator = "";
  for (const c10::IValue& input : inputs) {
    out << std::exchange(separator, ", ");
    write(out, input);
  }
  return out.str();
}

// RecordFunction::inputs(), compiled without NDEBUG, asserts a flag that a LibTorch compiled with
// it, as all releases are, never sets. An explicit instantiation may name the private member
// instead.
c10::ArrayRef<const c10::IValue> recorded_inputs(const at::RecordFunction& function);

template <auto kMember>
struct InputsReader {
  friend c10::ArrayRef<const c10::IValue> recorded_inputs(const at::RecordFunction& function) {
    return function.*kMember;
  }
};

template struct InputsReader<&at::RecordFunction::inputs_>;

bool is_composed_of_others(const c10::OperatorName& name) {
  const auto handle = c10::Dispatcher::singleton().findSchema(name);
  return handle && handle->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// Marks a listed operator between its start and its end.
struct ListedOperator : at::ObserverContext {
  ListedOperator() { ++t_listed_depth; }
  ~ListedOperator() override { --t_listed_depth; }
  ListedOperator(const ListedOperator&) = delete;
  ListedOperator& operator=(const ListedOperator&) = delete;
};

std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
  if (UnseenScope::depth() > t_log_depth || t_listed_depth > 0) {
    return nullptr;
  }
  const std::optional<c10::OperatorName> name = function.operator_name();
  const auto recording = OperatorRecording::current();
  if (recording == nullptr || !name || is_composed_of_others(*name)) {
    return nullptr;
  }
  recording->append(
      {c10::toString(*name), describe_inputs(recorded_inputs(function)), stack_trace()});
  return std::make_unique<ListedOperator>();
}

}  // namespace

OperatorLogGuard::OperatorLogGuard(OperatorLog& log)
    : found_info_(c10::ThreadLocalDebugInfo::current()),
      found_listed_depth_(std::exchange(t_listed_depth, 0)),
      found_depth_(std::exchange(t_log_depth, UnseenScope::depth())) {
  auto outer = t_log_depth > found_depth_ ? nullptr : OperatorRecording::current();
  recording_ = std::make_shared<OperatorRecording>(log, std::move(outer));
  c10::ThreadLocalDebugInfo::_push(log_kind(), recording_);
  pushed_ = c10::ThreadLocalDebugInfo::current().get();
  // One callback per guard: operators inside one that a guard has listed are nested for the others.
  callback_ = at::addThreadLocalCallback(at::RecordFunctionCallback(on_operator)
                                             .needsInputs(true)
                                             .scopes({at::RecordScope::FUNCTION}));
}

OperatorLogGuard::~OperatorLogGuard() {
  at::removeCallback(callback_);
  recording_->close();
  // User code may have left debug information of its own on top; a closed recording below it is
  // harmless.
  if (c10::ThreadLocalDebugInfo::current().get() == pushed_) {
    c10::ThreadLocalDebugInfo::_forceCurrentDebugInfo(found_info_);
  }
  t_listed_depth = found_listed_depth_;
  t_log_depth = found_depth_;
}

namespace {

std::size_t first_difference(const std::vector<OperatorLog::Entry>& a,
                             const std::vector<OperatorLog::Entry>& b) {
  const auto same = [](const OperatorLog::Entry& x, const OperatorLog::Entry& y) {
    return x.op == y.op && x.inputs == y.inputs;
  };
  return static_cast<std::size_t>(
      std::mismatch(a.begin(), a.end(), b.begin(), b.end(), same).first - a.begin());
}

void write_entry(std::ostream& out, const OperatorLog::Entry& entry) {
  out << entry.op << '(' << entry.inputs << ')';
}

void write_entries(std::ostream& out, const char* who, const OperatorLog& log, std::size_t from) {
  const std::size_t total = log.entries.size();
  out << "In " << who << ", of " << total << (total == 1 ? " operator" : " operators");
  if (from >= total) {
    out << ", none is left there.\n";
    return;
  }
  out << ", from there on:\n";
  const std::size_t end = std::min(total, from + kShownEntries);
  for (std::size_t i = from; i < end; ++i) {
    out << "  #" << i << ' ';
    write_entry(out, log.entries[i]);
    out << '\n';
  }
  if (end < total) {
    out << "  ... " << total - end << " more\n";
  }
}

void write_backtrace(std::ostream& out, const char* who, const OperatorLog& log, std::size_t i) {
  if (i >= log.entries.size()) {
    return;
  }
  const OperatorLog::Entry& entry = log.entries[i];
  out << "Stack of #" << i << ' ' << entry.op << " in " << who << ":\n";
  if (entry.backtrace != nullptr) {
    const std::string& text = entry.backtrace->get();
    out << text << (text.ends_with('\n') ? "" : "\n");
  }
}

}  // namespace

std::string describe_difference(const OperatorLog& forward, const OperatorLog& recompute) {
  std::ostringstream out;
  out << "You are seeing this because debug mode is on (CheckpointOptions::debug, DebugModeGuard "
         "or "
         "set_checkpoint_debug_enabled()).\n";
  const std::size_t position = first_difference(forward.entries, recompute.entries);
  if (position == forward.entries.size() && position == recompute.entries.size()) {
    out << "Forward and recompute ran the same " << position
        << " operators on inputs of the same shapes, dtypes and devices: it is values, or the set "
           "of saved tensors, that differ. Look for random numbers outside of LibTorch's "
           "generators, "
           "for in-place changes, and for tensors that require grad in one run only.\n";
    return out.str();
  }
  out << "The operators of forward and recompute are the same up to #" << position
      << ", and differ there";
  if (position == recompute.entries.size()) {
    out << ": recompute ended first. That is as it should be if it was stopped early";
  }
  out << ".\n";
  write_entries(out, "forward", forward, position);
  write_entries(out, "recompute", recompute, position);
  write_backtrace(out, "forward", forward, position);
  write_backtrace(out, "recompute", recompute, position);
  return out.str();
}

}  // namespace reprise::engine_internal
