// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/wrapper_tensor.h"

#include <torch/library.h>
#include <torch/torch.h>

namespace reprise::testing {
namespace wrapper_tensor {

using T = at::Tensor;

// A key below autograd that LibTorch has no kernels for; the device is the CPU all the same.
constexpr c10::DispatchKeySet kKeys = c10::DispatchKeySet(c10::DispatchKey::FPGA) |
                                      c10::DispatchKeySet(c10::BackendComponent::CPUBit);

class WrapperImpl : public c10::TensorImpl {
 public:
  WrapperImpl(T inside, bool has_storage)
      : TensorImpl(kKeys, inside.dtype(), inside.device()), inside_(std::move(inside)) {
    set_sizes_and_strides(inside_.sizes(), inside_.strides());
    if (has_storage) {
      storage_ = empty_storage();
    } else {
      set_storage_access_should_throw();
    }
  }

  const T& inside() const { return inside_; }

  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      const c10::VariableVersion& version_counter,
      bool allow_tensor_metadata_change) const override {
    return copy(version_counter, allow_tensor_metadata_change);
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(
      c10::VariableVersion&& version_counter, bool allow_tensor_metadata_change) const override {
    return copy(version_counter, allow_tensor_metadata_change);
  }
  void release_resources() override {
    TensorImpl::release_resources();
    inside_.reset();
  }

 private:
  static c10::Storage empty_storage() {
    return {c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, at::kCPU), nullptr,
            /*resizable=*/false};
  }

  c10::intrusive_ptr<TensorImpl> copy(const c10::VariableVersion& counter, bool may_change) const {
    auto made = c10::make_intrusive<WrapperImpl>(inside_, !storage_access_should_throw_);
    made->set_version_counter(counter);
    made->set_allow_tensor_metadata_change(may_change);
    return made;
  }

  T inside_;
};

bool is_plain_call(const T& tensor) { return !tensor.defined() || !is_wrapped(tensor); }

c10::IValue without_wrapper(const c10::IValue& value) {
  if (value.isTensor() && !is_plain_call(value.toTensor())) {
    return inside_of(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<T> all;
    for (const T& each : value.toTensorVector()) {
      all.push_back(is_plain_call(each) ? each : inside_of(each));
    }
    return all;
  }
  return value;
}

// Each operator below autograd, on what the wrappers wrap.
void run_inside(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  const std::vector<c10::IValue> given(stack->end() - static_cast<std::ptrdiff_t>(count),
                                       stack->end());
  bool has_storage = true;
  for (std::size_t i = 0; i < count; ++i) {
    if (given[i].isTensor() && !is_plain_call(given[i].toTensor())) {
      has_storage = given[i].toTensor().unsafeGetTensorImpl()->has_storage();
    }
    (*stack)[stack->size() - count + i] = without_wrapper(given[i]);
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    op.callBoxed(stack);
  }
  const std::size_t results = op.schema().returns().size();
  for (std::size_t i = stack->size() - results; i < stack->size(); ++i) {
    c10::IValue& result = (*stack)[i];
    if (!result.isTensor() || !result.toTensor().defined()) {
      continue;
    }
    c10::IValue wrapped = wrap(result.toTensor(), has_storage);
    for (const c10::IValue& argument : given) {  // of a write
      if (argument.isTensor() && !is_plain_call(argument.toTensor()) &&
          inside_of(argument.toTensor()).is_same(result.toTensor())) {
        wrapped = argument;
      }
    }
    result = wrapped;
  }
}

TORCH_LIBRARY_IMPL(_, FPGA, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_inside>());
}

// Of these LibTorch has kernels for every key, which ask for the elements.
TORCH_LIBRARY_IMPL(aten, FPGA, library) {
  for (const char* const name : {"add.Tensor",
                                 "alias",
                                 "clone",
                                 "cos",
                                 "detach",
                                 "exp",
                                 "expand",
                                 "mm",
                                 "mul.Tensor",
                                 "neg",
                                 "sigmoid",
                                 "sigmoid_backward",
                                 "sin",
                                 "sum.dim_IntList",
                                 "t",
                                 "tanh",
                                 "tanh_backward",
                                 "transpose.int",
                                 "view",
                                 "zeros_like",
                                 "ones_like",
                                 "mul.Scalar",
                                 "sum",
                                 "_to_copy",
                                 "mul_.Tensor",
                                 "add_.Tensor",
                                 "copy_",
                                 "empty_like",
                                 "new_zeros",
                                 "new_empty_strided"}) {
    library.impl(name, torch::CppFunction::makeFromBoxedFunction<&run_inside>());
  }
}

struct ToWrapper : torch::autograd::Function<ToWrapper> {
  static T forward(torch::autograd::AutogradContext* /*context*/, const T& x, bool has_storage) {
    return wrap(x.detach(), has_storage);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& gradients) {
    const T& g = gradients[0];
    return {g.defined() && is_wrapped(g) ? from_wrapper(g) : g, {}};
  }
};

struct FromWrapper : torch::autograd::Function<FromWrapper> {
  static T forward(torch::autograd::AutogradContext* context, const T& wrapper) {
    context->saved_data["has_storage"] = wrapper.unsafeGetTensorImpl()->has_storage();
    return inside_of(wrapper).clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {to_wrapper(gradients[0], context->saved_data["has_storage"].toBool())};
  }
};

}  // namespace wrapper_tensor

at::Tensor wrap(const at::Tensor& inside, bool has_storage) {
  return at::Tensor(c10::make_intrusive<wrapper_tensor::WrapperImpl>(inside, has_storage));
}

bool is_wrapped(const at::Tensor& tensor) {
  return tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::FPGA);
}

at::Tensor inside_of(const at::Tensor& wrapper) {
  return static_cast<const wrapper_tensor::WrapperImpl*>(wrapper.unsafeGetTensorImpl())->inside();
}

at::Tensor to_wrapper(const at::Tensor& x, bool has_storage) {
  return wrapper_tensor::ToWrapper::apply(x, has_storage);
}

at::Tensor from_wrapper(const at::Tensor& wrapper) {
  return wrapper_tensor::FromWrapper::apply(wrapper);
}

}  // namespace reprise::testing
