// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// Tensors whose elements are not in their storage: stores pass them through.
#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/ops/_efficientzerotensor.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#include "tests/testing/bitwise.h"

namespace reprise::without_bytes_test {
namespace {

using Store = std::shared_ptr<ActivationStore>;

// As torch.Tensor._make_wrapper_subclass() makes them, but for the interpreter: an operator on it
// throws.
class WrapperImpl final : public c10::TensorImpl {
 public:
  WrapperImpl(at::Tensor inner, bool has_memory)
      : TensorImpl(has_memory ? c10::Storage(inner.storage()) : no_memory(inner.nbytes()),
                   c10::DispatchKeySet(c10::DispatchKey::CPU), inner.dtype()),
        inner_(std::move(inner)) {
    set_sizes_and_strides(inner_.sizes(), inner_.strides());
    set_python_dispatch(true);
    has_memory_ = has_memory;
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(const c10::VariableVersion& version,
                                                         bool may_change) const override {
    auto copy = c10::make_intrusive<WrapperImpl>(inner_, has_memory_);
    copy->set_version_counter(version);
    copy->set_allow_tensor_metadata_change(may_change);
    return copy;
  }
  c10::intrusive_ptr<TensorImpl> shallow_copy_and_detach(c10::VariableVersion&& version,
                                                         bool may_change) const override {
    return shallow_copy_and_detach(std::as_const(version), may_change);
  }
  const at::Tensor& inner() const { return inner_; }

 private:
  static c10::Storage no_memory(std::size_t bytes) {
    return {c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(nullptr, at::kCPU), nullptr,
            /*resizable=*/false};
  }
  const at::Tensor inner_;
  bool has_memory_ = false;
};

at::Tensor wrap(const at::Tensor& inner, bool has_memory) {
  return at::Tensor(c10::make_intrusive<WrapperImpl>(inner, has_memory));
}

at::Tensor freed() {
  const at::Tensor tensor = at::ones({60, 80});
  tensor.storage().unsafeGetStorageImpl()->set_data_ptr_noswap(c10::DataPtr(nullptr, at::kCPU));
  tensor.storage().unsafeGetStorageImpl()->set_nbytes(0);
  return tensor;
}

std::vector<std::pair<std::string, at::Tensor>> tensors() {
  const at::Tensor inner = at::ones({60, 80});
  return {{"zero tensor", at::_efficientzerotensor({60, 80})},
          {"zero tensor of a view", at::_efficientzerotensor({60, 80}).t()},
          {"meta", at::empty({60, 80}, at::kMeta)},
          {"freed", freed()},
          {"functional", at::functionalization::impl::to_functional_tensor(inner)},
          {"wrapper", wrap(inner, /*has_memory=*/false)},
          {"subclass with memory", wrap(inner, /*has_memory=*/true)}};
}

std::vector<std::pair<std::string, Store>> all_stores() {
  const auto disk = [] { return stores::disk({.min_bytes = 1, .keep_last = 0, .direct = false}); };
  const auto compressed =
      stores::compressed({.max_ratio = 100,
                          .max_slowdown = std::numeric_limits<double>::infinity(),
                          .min_bytes = 1,
                          .keep_last = 0});
  return {{"device", stores::device()},
          {"packed", stores::packed({.min_bytes = 1, .find_constants = true})},
          {"quantized", stores::quantized({.min_bytes = 1})},
          {"slab", stores::slab({.min_bytes = 1})},
          {"host", stores::host({.min_bytes = 1, .keep_last = 0})},
          {"disk", disk()},
          {"compressed", compressed},
          {"packed | disk", stores::packed({.min_bytes = 1}) | disk()}};
}

// Whether it is the tensor in all that can be asked of it without an operator.
void expect_same(const at::Tensor& found, const at::Tensor& tensor) {
  EXPECT_EQ(found.sizes(), tensor.sizes());
  EXPECT_EQ(found.strides(), tensor.strides());
  EXPECT_EQ(found.key_set(), tensor.key_set());
  EXPECT_EQ(found.device(), tensor.device());
  if (const auto* wrapper = dynamic_cast<WrapperImpl*>(tensor.unsafeGetTensorImpl())) {
    const auto* back = dynamic_cast<WrapperImpl*>(found.unsafeGetTensorImpl());
    ASSERT_NE(back, nullptr);
    EXPECT_TRUE(back->inner().is_same(wrapper->inner()));
  }
}

TEST(WithoutBytesTest, StoresPassThemThrough) {
  for (const auto& [name, tensor] : tensors()) {
    for (const auto& [store_name, store] : all_stores()) {
      SCOPED_TRACE(store_name + ", " + name);
      const auto stored = store->put(tensor);
      stored->prefetch();
      expect_same(stored->get(), tensor);
      const auto together = store->put_all({tensor, tensor}, "owner");
      expect_same(together.back()->get(), tensor);
    }
  }
}

class Saves : public torch::autograd::Function<Saves> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& w) {
    context->save_for_backward({w});
    return x.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    found = context->get_saved_variables()[0];
    return {gradients[0], at::Tensor()};
  }
  inline static at::Tensor found;
};

TEST(WithoutBytesTest, GuardsPassThemThrough) {
  for (const auto& [name, tensor] : tensors()) {
    for (const auto& [store_name, store] : all_stores()) {
      SCOPED_TRACE(store_name + ", " + name);
      const at::Tensor x = at::ones({2}).requires_grad_();
      at::Tensor y;
      {
        const StoreGuard guard(store);
        y = Saves::apply(x, tensor);
      }
      y.sum().backward();
      expect_same(Saves::found, tensor);
      Saves::found.reset();
    }
  }
}

// Those of layouts without strides consist of other tensors, or are passed through.
TEST(WithoutBytesTest, QuantizedAndNestedTensorsComeBack) {
  const at::Tensor values = at::rand({60, 80});
  const at::Tensor quantized = at::quantize_per_tensor(values, 0.01, 0, at::kQInt8);
  const at::Tensor nested = at::_nested_tensor_from_tensor_list({values, values.narrow(0, 0, 20)});
  for (const auto& [store_name, store] : all_stores()) {
    SCOPED_TRACE(store_name);
    const at::Tensor found = store->put(quantized)->get();
    EXPECT_TRUE(testing::bitwise_equal(found.int_repr(), quantized.int_repr()));
    EXPECT_EQ(found.q_scale(), quantized.q_scale());
    const at::Tensor parts = store->put(nested)->get();
    EXPECT_TRUE(testing::bitwise_equal(parts.unbind()[1], values.narrow(0, 0, 20)));
  }
}

}  // namespace
}  // namespace reprise::without_bytes_test
