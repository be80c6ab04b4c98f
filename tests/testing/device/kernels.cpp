// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "tests/testing/device/kernels.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/autocast_mode.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_as_complex_native.h>
#include <ATen/ops/view_as_real_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "tests/testing/device/guard.h"
#include "tests/testing/device/memory.h"
#include "tests/testing/device/streams.h"

namespace reprise::testing {
namespace {

using torch::jit::Stack;

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

bool is_on_device(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kDeviceType;
}

// A CPU tensor in the same memory, which it does not keep alive: no more does an accelerator's
// kernel that is queued.
at::Tensor on_host(const at::Tensor& tensor) {
  const c10::Storage& storage = tensor.storage();
  c10::DataPtr data(const_cast<void*>(storage.data()), c10::Device(c10::kCPU));  // NOLINT
  at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), storage.nbytes(), std::move(data), nullptr,
                   /*resizable=*/false),
      c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  view.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(),
                                                    tensor.storage_offset());
  view._set_conj(tensor.is_conj());
  view._set_neg(tensor.is_neg());
  return view;
}

at::Tensor on_meta(const at::Tensor& tensor) {
  at::Tensor meta =
      at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) {
    meta.unsafeGetTensorImpl()->set_wrapped_number(true);
  }
  return meta;
}

using Mapping = std::function<at::Tensor(const at::Tensor&)>;

c10::IValue mapped(const c10::IValue& value, const Mapping& map, c10::DeviceType device) {
  const auto mapped_tensor = [&](const at::Tensor& tensor) {
    return tensor.defined() ? map(tensor) : tensor;
  };
  if (value.isTensor()) {
    return mapped_tensor(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(mapped_tensor(tensor));
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor ? std::optional(mapped_tensor(*tensor)) : std::nullopt);
    }
    return list;
  }
  return value.isDevice() ? c10::IValue(c10::Device(device)) : value;
}

Stack mapped(const Stack& arguments, const Mapping& map, c10::DeviceType device) {
  Stack result;
  for (const c10::IValue& argument : arguments) {
    result.push_back(mapped(argument, map, device));
  }
  return result;
}

at::Tensor host_argument(const at::Tensor& tensor) {
  return is_on_device(tensor) ? on_host(tensor) : tensor;
}

void for_each_tensor(const c10::IValue& value,
                     const std::function<void(const at::Tensor&)>& visit) {
  if (value.isTensor() && value.toTensor().defined()) {
    visit(value.toTensor());
  } else if (value.isTensorList()) {
    for (const at::Tensor& tensor : value.toTensorVector()) {
      visit(tensor);
    }
  }
}

// One call that no kernel of ours serves.
class Call {
 public:
  Call(const c10::OperatorHandle& op, Stack arguments)
      : op_(op), arguments_(std::move(arguments)), device_(find_device()) {}

  Stack run() const {
    const c10::DeviceGuard guard(device_);
    const std::optional<Stack> results = is_random() || resizes() ? std::nullopt : infer_results();
    if (!results) {
      return run_now();
    }
    const auto host_results = mapped(*results, host_argument, c10::kCPU);
    enqueue(
        device_.index(), current_stream(device_.index()), Work::kKernel, 0,
        [op = op_, stack = mapped(arguments_, host_argument, c10::kCPU), host_results]() mutable {
          call_on_host(op, stack);
          copy_results(stack, host_results);
        });
    return *results;
  }

 private:
  static void call_on_host(const c10::OperatorHandle& op, Stack& stack) {
    const at::NoGradGuard no_grad;
    const at::AutoDispatchBelowAutograd below;
    // LibTorch returns out= arguments by reference, and pushes them when it has dropped its own.
    const Stack held = stack;
    op.callBoxed(&stack);
  }

  // Tensors that the operator wrote in place are there already.
  static void copy_results(const Stack& from, const Stack& to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
      std::vector<at::Tensor> sources;
      for_each_tensor(from[i], [&](const at::Tensor& tensor) { sources.push_back(tensor); });
      std::size_t next = 0;
      for_each_tensor(to[i], [&](const at::Tensor& tensor) {
        const at::Tensor& source = sources.at(next++);
        if (source.const_data_ptr() != tensor.const_data_ptr()) {
          tensor.copy_(source);
        }
      });
    }
  }

  c10::Device find_device() const {
    std::optional<c10::Device> device;
    for (const c10::IValue& argument : arguments_) {
      for_each_tensor(argument, [&](const at::Tensor& tensor) {
        device = !device && is_on_device(tensor) ? tensor.device() : device;
      });
      if (!device && argument.isDevice()) {
        device = argument.toDevice();
      }
    }
    const bool has_index = device && device->has_index();
    return {kDeviceType, has_index ? device->index() : current_device()};
  }

  bool is_random() const { return op_.hasTag(at::Tag::nondeterministic_seeded); }

  bool is_written(std::size_t argument) const {
    const auto* alias = op_.schema().arguments()[argument].alias_info();
    return alias != nullptr && alias->isWrite();
  }

  // out= arguments that are to get their shape from the operator.
  bool resizes() const {
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (is_written(i) && arguments_[i].isTensor() && arguments_[i].toTensor().numel() == 0) {
        return true;
      }
    }
    return false;
  }

  // The argument that a result is, by the schema's alias sets.
  std::optional<std::size_t> argument_of_result(std::size_t result) const {
    const auto* alias = op_.schema().returns()[result].alias_info();
    if (alias == nullptr) {
      return std::nullopt;
    }
    TORCH_CHECK(alias->isWrite(), "the test device has no kernel for the view ",
                op_.operator_name());
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (is_written(i) &&
          op_.schema().arguments()[i].alias_info()->beforeSets() == alias->beforeSets()) {
        return i;
      }
    }
    C10_THROW_ERROR(Error, c10::str("the test device does not understand ", op_.schema()));
  }

  static at::Tensor empty_like_meta(const at::Tensor& meta, c10::Device device) {
    return at::empty_strided(meta.sizes(), meta.strides(), meta.options().device(device));
  }

  // Results of the right shape, whose values are still to come; nothing if that takes the values.
  std::optional<Stack> infer_results() const {
    Stack inferred = mapped(arguments_, on_meta, c10::kMeta);
    try {
      call_on_host(op_, inferred);
    } catch (const c10::Error&) {
      return std::nullopt;  // no such kernel, or data-dependent
    }
    Stack results;
    for (std::size_t i = 0; i < inferred.size(); ++i) {
      const auto argument = argument_of_result(i);
      results.push_back(argument
                            ? arguments_[*argument]
                            : mapped(
                                  inferred[i],
                                  [&](const at::Tensor& t) { return empty_like_meta(t, device_); },
                                  kDeviceType));
    }
    return results;
  }

  Stack run_now() const {
    wait_for_stream(device_.index(), current_stream(device_.index()));
    Stack stack;
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      const bool grows =
          is_written(i) && arguments_[i].isTensor() && arguments_[i].toTensor().numel() == 0;
      stack.push_back(grows ? at::empty({0}, arguments_[i].toTensor().options().device(at::kCPU))
                            : mapped(arguments_[i], host_argument, c10::kCPU));
    }
    const Stack host_arguments = stack;
    if (is_random()) {
      draw_on_host(stack);
    } else {
      call_on_host(op_, stack);
    }
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (is_written(i) && arguments_[i].isTensor()) {
        take_shape(arguments_[i].toTensor(), host_arguments[i].toTensor());
      }
    }
    Stack results;
    for (std::size_t i = 0; i < stack.size(); ++i) {
      const auto argument = argument_of_result(i);
      results.push_back(argument ? arguments_[*argument]
                                 : mapped(
                                       stack[i], [&](const at::Tensor& t) { return t.to(device_); },
                                       kDeviceType));
    }
    return results;
  }

  static void take_shape(const at::Tensor& tensor, const at::Tensor& host) {
    if (tensor.sizes() != host.sizes()) {
      const at::Tensor result = host.to(tensor.device());
      auto* impl = tensor.unsafeGetTensorImpl();
      impl->set_storage_keep_dtype(result.storage());
      impl->set_sizes_and_strides(result.sizes(), result.strides());
    }
  }

  void draw_on_host(Stack& stack) const {
    at::Generator generator = default_generator(device_.index());
    std::optional<std::size_t> argument;
    for (std::size_t i = 0; i < arguments_.size(); ++i) {
      if (op_.schema().arguments()[i].type()->str() == "Generator?") {
        argument = i;
        generator = arguments_[i].isNone() ? generator : arguments_[i].toGenerator();
      }
    }
    draw_from(generator, [&](at::Generator& cpu) {
      if (argument) {
        stack[*argument] = cpu;
        call_on_host(op_, stack);
      } else {
        draw_by_default(cpu, stack);
      }
    });
  }

  // An operator that takes no generator draws from the CPU's default one.
  void draw_by_default(const at::Generator& cpu, Stack& stack) const {
    static std::mutex one_at_a_time;
    const std::lock_guard lock(one_at_a_time);
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    const at::Tensor kept = generator.get_state();
    generator.set_state(cpu.get_state());
    call_on_host(op_, stack);
    generator.set_state(kept);
  }

  const c10::OperatorHandle& op_;
  const Stack arguments_;
  const c10::Device device_;
};

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet /*keys*/, Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  Stack arguments = torch::jit::pop(*stack, count);
  for (c10::IValue& result : Call(op, std::move(arguments)).run()) {
    stack->push_back(std::move(result));
  }
}

at::Tensor empty(at::IntArrayRef sizes, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                 std::optional<bool> /*pin_memory*/, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::Tensor(at::detail::empty_generic(sizes, device_allocator(), kKeys,
                                              c10::dtype_or_default(dtype), format));
}

at::Tensor empty_strided(at::IntArrayRef sizes, at::IntArrayRef strides,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                         std::optional<at::Device> device, std::optional<bool> /*pin_memory*/) {
  const c10::OptionalDeviceGuard guard(device);
  return at::Tensor(at::detail::empty_strided_generic(sizes, strides, device_allocator(), kKeys,
                                                      c10::dtype_or_default(dtype)));
}

constexpr int kNever = -1;
std::atomic<int> g_copies_until_fault{kNever};

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  const c10::Device device = is_on_device(to) ? to.device() : self.device();
  const at::Tensor& other = is_on_device(to) ? self : to;
  const bool is_host = !is_on_device(other);
  TORCH_CHECK(!is_host || g_copies_until_fault < 0 || g_copies_until_fault-- > 0,
              "the test device fails to copy");
  if (!is_host && other.device() != device) {
    wait_for_device(other.device().index());
    wait_for_device(device.index());
  }
  const bool is_free = non_blocking && (!is_host || is_pinned(other.storage().data()));
  const Work work = !is_host ? Work::kKernel : is_on_device(to) ? Work::kCopyIn : Work::kCopyOut;
  const c10::StreamId stream = current_stream(device.index());
  enqueue(device.index(), stream, work, static_cast<std::int64_t>(to.nbytes()),
          [from = on_host(self), to = on_host(to)] {
            const at::NoGradGuard no_grad;
            const at::AutoDispatchBelowAutograd below;
            to.copy_(from);
          });
  if (!is_free && (is_host || other.device() != device)) {
    wait_for_stream(device.index(), stream);
  }
  return to;
}

void record_stream(at::Tensor& self, c10::Stream stream) {
  record_use(self.storage().data_ptr(), stream.id());
}

at::Scalar local_scalar(const at::Tensor& self) {
  wait_for_stream(self.device().index(), current_stream(self.device().index()));
  return on_host(self).item();
}

const at::Tensor& resize(const at::Tensor& self, at::IntArrayRef sizes,
                         std::optional<at::MemoryFormat> /*format*/) {
  auto* impl = self.unsafeGetTensorImpl();
  const auto bytes = static_cast<std::size_t>(c10::multiply_integers(sizes)) * self.itemsize();
  if (bytes > self.storage().nbytes()) {
    const at::Tensor larger = at::empty(sizes, self.options());
    larger.flatten().narrow(0, 0, self.numel()).copy_(self.flatten());
    impl->set_storage_keep_dtype(larger.storage());
  }
  impl->set_sizes_contiguous(sizes);
  return self;
}

at::Tensor& set_storage(at::Tensor& self, c10::Storage source, std::int64_t offset,
                        at::IntArrayRef sizes, at::IntArrayRef strides) {
  auto* impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(source));
  impl->set_sizes_and_strides(sizes, strides, offset);
  return self;
}

// Operators without a formula for autograd, such as c10d's, pass below it. LibTorch registers that
// itself from 2.10 on.
void register_autograd() {
  constexpr auto kKey = c10::DispatchKey::AutogradPrivateUse1;
  if (!c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(kKey)) {
    static auto& any = *new torch::Library(torch::Library::IMPL, "_", kKey, __FILE__, __LINE__);
    any.fallback(torch::CppFunction::makeFallthrough());
  }
}

// Two operators stand for the rest: one that computes in the lower precision, and one in float.
void register_autocast() {
  static auto& any = *new torch::Library(torch::Library::IMPL, "_",
                                         c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  any.fallback(torch::CppFunction::makeFallthrough());
  static auto& m = *new torch::Library(torch::Library::IMPL, "aten",
                                       c10::DispatchKey::AutocastPrivateUse1, __FILE__, __LINE__);
  KERNEL_PRIVATEUSEONE(mm, lower_precision_fp)
  KERNEL_PRIVATEUSEONE(exp, fp32)
}

}  // namespace

CopyFaultGuard::CopyFaultGuard(int n) { g_copies_until_fault = n; }
CopyFaultGuard::~CopyFaultGuard() { g_copies_until_fault = kNever; }
bool CopyFaultGuard::has_failed() const { return g_copies_until_fault == kNever; }

void register_kernels() {
  static auto& aten = *new torch::Library(torch::Library::IMPL, "aten",
                                          c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  aten.impl("empty.memory_format", &empty);
  aten.impl("empty_strided", &empty_strided);
  aten.impl("_copy_from", &copy_from);
  aten.impl("_local_scalar_dense", &local_scalar);
  aten.impl("record_stream", &record_stream);
  aten.impl("resize_", &resize);
  aten.impl("set_.source_Storage_storage_offset", &set_storage);
  aten.impl("as_strided", &at::native::as_strided_tensorimpl);
  aten.impl("view", &at::native::view);
  aten.impl("_reshape_alias", &at::native::_reshape_alias);
  aten.impl("unfold", &at::native::unfold);
  aten.impl("view_as_real", &at::native::view_as_real);
  aten.impl("view_as_complex", &at::native::view_as_complex);
  // A copy sees to lazy conjugation and negation itself, as on_host() shows them.
  static auto& lazy = *new std::vector<std::unique_ptr<torch::Library>>;
  for (const auto key : {c10::DispatchKey::Conjugate, c10::DispatchKey::Negative}) {
    lazy.push_back(
        std::make_unique<torch::Library>(torch::Library::IMPL, "aten", key, __FILE__, __LINE__));
    lazy.back()->impl("_copy_from", torch::CppFunction::makeFallthrough());
  }
  static auto& any = *new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::PrivateUse1,
                                         __FILE__, __LINE__);
  any.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
  register_autograd();
  register_autocast();
}

}  // namespace reprise::testing
