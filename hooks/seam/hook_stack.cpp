// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/hooks/seam/hook_stack.h"

#include <ATen/SavedTensorHooks.h>
#include <c10/core/DispatchKey.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <c10/util/Exception.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

#include "reprise/hooks/seam/forwarding_engine.h"
#include "reprise/hooks/seam/torch_version.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::hooks_internal {

using c10::ThreadLocalDebugInfo;

constexpr std::string_view kHooksKindName = "REPRISE_HOOKS";

c10::DebugInfoKind hooks_kind() { return own_debug_info_kind<kHooksKindName, 0xC7>(); }

// LibTorch's stack of Python's saved-tensor hooks, which goes from thread to thread as ours does.
std::size_t depth_of_foreign_stack() noexcept {
  return at::SavedTensorDefaultHooks::get_tls_state().stack.size();
}

class HookEntry final : public c10::DebugInfoBase {
 public:
  explicit HookEntry(std::shared_ptr<HookProvider> provider)
      : provider_(std::move(provider)),
        outside_(ThreadLocalDebugInfo::current()),
        outer_(innermost_entry()) {}

  static HookEntry* innermost_entry() noexcept {
    return static_cast<HookEntry*>(ThreadLocalDebugInfo::get(hooks_kind()));
  }

  // Returns the innermost open entry from `entry` outwards; null if the thread's present work is
  // invisible to it, see Note [Unseen]. Entries stay valid for other threads that hold a copy of
  // the stack.
  static HookEntry* open_from(HookEntry* entry) noexcept {
    while (entry != nullptr && !entry->open_.load(std::memory_order_acquire)) {
      entry = entry->outer_;
    }
    return entry != nullptr && entry->depth_ < UnseenScope::depth() ? nullptr : entry;
  }

  // Whether hooks have been pushed to LibTorch's own stack since: they are further in.
  bool is_covered(const at::impl::SavedTensorDefaultHooksTLS& foreign) const noexcept {
    return foreign.stack.size() > foreign_depth_;
  }

  HookProvider* provider() const noexcept { return provider_.get(); }
  HookEntry* outer() const noexcept { return outer_; }

  void push(const std::shared_ptr<HookEntry>& self) {
    ThreadLocalDebugInfo::_push(hooks_kind(), self);
    frame_ = ThreadLocalDebugInfo::current().get();
  }

  void close() noexcept { open_.store(false, std::memory_order_release); }

  // Removes closed entries from the top of this thread's stack.
  static void pop_closed() noexcept {
    HookEntry* top = innermost_entry();
    while (top != nullptr && !top->open_.load(std::memory_order_acquire) &&
           ThreadLocalDebugInfo::current().get() == top->frame_) {
      HookEntry* const outer = top->outer_;
      ThreadLocalDebugInfo::_forceCurrentDebugInfo(top->outside_);  // may destroy `top`
      top = outer;
    }
  }

 private:
  std::shared_ptr<HookProvider> provider_;
  std::shared_ptr<ThreadLocalDebugInfo> outside_;  // owns outer_
  HookEntry* outer_;
  ThreadLocalDebugInfo* frame_ = nullptr;  // the link that owns this entry
  const int depth_ = UnseenScope::depth();
  const std::size_t foreign_depth_ = depth_of_foreign_stack();
  std::atomic<bool> open_{true};
};

HookProvider::~HookProvider() = default;

bool HookProvider::on_accumulation(const std::vector<at::Tensor>& /*leaves*/) { return false; }

HookScope::HookScope(std::shared_ptr<HookProvider> provider) {
  check_hooks_enabled();
  ensure_engine_installed();
  entry_ = std::make_shared<HookEntry>(std::move(provider));
  entry_->push(entry_);
}

HookScope::~HookScope() {
  entry_->close();
  HookEntry::pop_closed();
}

HookProvider* innermost_provider() noexcept {
  return innermost_provider(at::SavedTensorDefaultHooks::get_tls_state());
}

HookProvider* innermost_provider(const at::impl::SavedTensorDefaultHooksTLS& foreign) noexcept {
  const HookEntry* top = HookEntry::open_from(HookEntry::innermost_entry());
  return top == nullptr || top->is_covered(foreign) ? nullptr : top->provider();
}

bool has_open_provider() noexcept {
  return HookEntry::open_from(HookEntry::innermost_entry()) != nullptr;
}

bool has_several_providers() noexcept {
  const HookEntry* const top = HookEntry::innermost_entry();
  return top != nullptr && top->outer() != nullptr;
}

HookProvider* find_open_provider(const std::function<bool(HookProvider&)>& is_wanted) {
  for (const HookEntry* entry = HookEntry::open_from(HookEntry::innermost_entry());
       entry != nullptr; entry = HookEntry::open_from(entry->outer())) {
    if (is_wanted(*entry->provider())) {
      return entry->provider();
    }
  }
  return nullptr;
}

bool offer_accumulation(const std::vector<at::Tensor>& leaves) {
  return find_open_provider([&leaves](HookProvider& provider) {
           return provider.on_accumulation(leaves);
         }) != nullptr;
}

HooksEnabledGuard::HooksEnabledGuard()
    : disabled_message_(at::SavedTensorDefaultHooks::get_disabled_error_message()) {
  if (disabled_message_) {
    at::SavedTensorDefaultHooks::enable();
  }
}

HooksEnabledGuard::~HooksEnabledGuard() {
  if (disabled_message_) {
    at::SavedTensorDefaultHooks::disable(*disabled_message_, /*fail_if_non_empty=*/false);
  }
}

void check_hooks_enabled() {
  if (at::SavedTensorDefaultHooks::is_enabled()) {
    return;
  }
  TORCH_CHECK(false, at::SavedTensorDefaultHooks::get_disabled_error_message().value_or(
                         "saved tensor hooks are disabled"));
}

namespace {

std::atomic<TensorObserver> g_pack_observer{nullptr};
std::atomic<TensorObserver> g_unpack_observer{nullptr};

void call(const std::atomic<TensorObserver>& observer, const at::Tensor& tensor) {
  if (const TensorObserver set = observer.load(std::memory_order_relaxed)) {
    set(tensor);
  }
}

}  // namespace

void set_pack_observer(TensorObserver observer) noexcept { g_pack_observer.store(observer); }

void set_unpack_observer(TensorObserver observer) noexcept { g_unpack_observer.store(observer); }

void observe_pack(const at::Tensor& tensor) { call(g_pack_observer, tensor); }
void observe_unpack(const at::Tensor& tensor) { call(g_unpack_observer, tensor); }

// A mode of Python's on this thread would be asked for the copy, and see a detach for each saved
// tensor. Python makes the copy of a tensor of its own class.
at::Tensor detached_alias(const at::Tensor& tensor, const c10::VariableVersion& counter,
                          bool may_change_metadata) {
  const c10::TensorImpl* const impl = tensor.unsafeGetTensorImpl();
  std::optional<c10::impl::ExcludeDispatchKeyGuard> unseen_by_modes;
  if (c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python) &&
      !impl->key_set().has(c10::DispatchKey::Python)) {
    unseen_by_modes.emplace(c10::DispatchKey::Python);
  }
  return at::Tensor(impl->shallow_copy_and_detach(counter, may_change_metadata));
}

at::Tensor detached_alias(const at::Tensor& tensor) {
  return detached_alias(tensor, tensor.unsafeGetTensorImpl()->version_counter(),
                        /*may_change_metadata=*/false);
}

}  // namespace reprise::hooks_internal
