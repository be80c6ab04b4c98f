// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/engine/operators/assembly_operator.h"

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>

#include <utility>

#include "reprise/engine/operators/python_key.h"
#include "reprise/engine/operators/storage_id.h"
#include "reprise/hooks/seam/unseen_scope.h"

namespace reprise::engine_internal {
namespace {

// What LibTorch's fallback for Python's key sets around the language's code, but that it excludes
// kInterceptedKey as well.
c10::impl::LocalDispatchKeySet intercepted_keys() {
  using c10::DispatchKeySet;
  constexpr auto kPython = c10::DispatchKey::Python;
  constexpr auto kAbove = DispatchKeySet(DispatchKeySet::FULL) -
                          DispatchKeySet(DispatchKeySet::FULL_AFTER, kPython).add(kPython);
  c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
  keys.excluded_ = (keys.excluded_ | kAbove).remove(kInterceptedKey);
  return keys;
}

// Where Python's key is above, no operator with it is intercepted.
template <class PyObjectSlot>
const c10::impl::PyInterpreter* interpreter_of(PyObjectSlot& slot) {
  if constexpr (requires { slot.pyobj_interpreter(); }) {
    return slot.pyobj_interpreter();
  } else {
    return nullptr;
  }
}

}  // namespace

const c10::OperatorHandle& assembly_operator() {
  static const c10::OperatorHandle kOperator = [] {
    c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
    const c10::OperatorName name("reprise::assemble", "");
    if (const auto known = dispatcher.findSchema(name)) {
      return *known;
    }
    c10::FunctionSchema schema(name.name, name.overload_name,
                               {c10::Argument("parts", c10::ListType::ofTensors()),
                                c10::Argument("assembly", c10::CapsuleType::get())},
                               {c10::Argument("", c10::TensorType::get())});
    static auto& registration =
        *new c10::RegistrationHandleRAII(dispatcher.registerDef(std::move(schema), "reprise"));
    static_cast<void>(registration);
    return dispatcher.findSchemaOrThrow("reprise::assemble", "");
  }();
  return kOperator;
}

c10::IValue assembly_constant(c10::intrusive_ptr<Assembly> assembly) {
  return c10::IValue::make_capsule(std::move(assembly));
}

void run_assembly(torch::jit::Stack& stack) {
  const auto assembly = torch::jit::pop(stack).toCapsule();
  const std::vector<at::Tensor> parts = torch::jit::pop(stack).toTensorVector();
  const hooks_internal::UnseenScope unseen;
  stack.emplace_back(static_cast<const Assembly&>(*assembly).make(parts));
}

std::vector<at::Tensor> arguments_of_language(const OperatorCall& call) {
  std::vector<at::Tensor> found;
  for (const c10::IValue& argument : call.arguments()) {
    for_each_tensor(argument, [&found](const at::Tensor& tensor) {
      if (is_of_language(tensor)) {
        found.push_back(tensor);
      }
    });
  }
  return found;
}

void run_in_language(const OperatorCall& call, const at::Tensor& argument,
                     OperatorInterceptor* interceptor) {
  const c10::impl::PyInterpreter* const language =
      interpreter_of(*argument.unsafeGetTensorImpl()->pyobj_slot());
  TORCH_INTERNAL_ASSERT(language != nullptr, "a tensor of a class without a language");
  const InterceptionScope scope(interceptor);
  const c10::impl::ForceDispatchKeyGuard keys(intercepted_keys());
  (*language)->dispatch(call.op, &call.stack);
}

bool computes_shapes_only() {
  using c10::impl::TorchDispatchModeKey;
  return c10::impl::TorchDispatchModeTLS::get_mode(TorchDispatchModeKey::FAKE).has_value();
}

}  // namespace reprise::engine_internal
