// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// saved_tensors(), with the nodes and hooks of Python; parameters among unpacked tensors.
#include <torch/csrc/PyInterpreter.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/python_cpp_function.h>
#include <torch/csrc/autograd/python_function.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/engine/bill/graph_bill.h"
#include "reprise/python/bindings/python_reports.h"

namespace reprise::python {
namespace {

using engine_internal::NodeContents;
using hooks_internal::NodePtr;
using torch::autograd::Node;
using torch::autograd::SavedVariableHooks;

// Appends the tensors in containers of Python.
void append_tensors(const py::handle& object, std::vector<at::Tensor>& tensors) {
  const py::object leaves_of = py::module_::import("torch.utils._pytree").attr("tree_leaves");
  for (const py::handle leaf : leaves_of(object)) {
    if (THPVariable_Check(leaf.ptr())) {
      tensors.push_back(THPVariable_Unpack(leaf.ptr()));
    }
  }
}

class PythonReader final : public engine_internal::LanguageReader {
 public:
  bool read(const NodePtr& node, NodeContents& contents) override {
    const auto object =
        py::reinterpret_steal<py::object>(torch::autograd::functionToPyObject(node));
    if (!THPFunction_Check(object.ptr())) {
      return false;
    }
    const auto& function = *reinterpret_cast<const THPFunction*>(object.ptr());
    for (const torch::autograd::SavedVariable& variable : function.saved_variables) {
      contents.add(variable, node);
    }
    append_tensors(py::getattr(object, "__dict__", py::dict()), contents.kept);
    return true;
  }

  std::optional<std::vector<at::Tensor>> packed_by(const SavedVariableHooks& hooks) override {
    std::vector<at::Tensor> tensors;
    // Some versions of LibTorch give the hook alone.
    if constexpr (requires { hooks.retrieve_unpack_hook_data()->second; }) {
      try {
        if (const auto data = hooks.retrieve_unpack_hook_data()) {
          append_tensors(data->second.ptr(getPyInterpreter()), tensors);
        }
      } catch (const std::exception&) {
        return std::nullopt;  // hooks of C++
      }
    }
    return tensors;
  }
};

NodePtr node_of(const py::handle& object) {
  if (THPFunction_Check(object.ptr())) {
    return reinterpret_cast<const THPFunction*>(object.ptr())->cdata.lock();
  }
  return reinterpret_cast<const torch::autograd::THPCppFunction*>(object.ptr())->cdata;
}

py::list rows_of(const std::vector<SavedTensorRow>& rows) {
  using py::literals::operator""_a;
  py::list list;
  for (const SavedTensorRow& row : rows) {
    list.append(py::dict("region"_a = row.region, "node"_a = row.node, "kind"_a = row.kind,
                         "bytes"_a = row.bytes, "shape"_a = row.shape, "dtype"_a = row.dtype,
                         "device"_a = row.device, "operator"_a = row.op,
                         "sequence_number"_a = row.sequence_number));
  }
  return list;
}

// nodes: tensors' grad_fn, or None.
py::tuple saved_tensors_of(const py::list& nodes) {
  std::vector<NodePtr> roots;
  for (const py::handle node : nodes) {
    if (!node.is_none()) {
      roots.push_back(node_of(node));
    }
  }
  PythonReader reader;
  const SavedTensors bill = engine_internal::bill_of(std::move(roots), &reader);
  return py::make_tuple(rows_of(bill.rows), rows_of(bill.leaves), bill.unread);
}

// Returns the leaf for whose gradient the tensor has a node, if it is that leaf in all but
// identity.
const at::Tensor* leaf_of(const at::Tensor& tensor) {
  if (!tensor.requires_grad() || !tensor.is_leaf()) {
    return nullptr;
  }
  const NodePtr node = torch::autograd::impl::try_get_grad_accumulator(tensor);
  const auto* const accumulator = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get());
  if (accumulator == nullptr || accumulator->variable.is_same(tensor)) {
    return nullptr;
  }
  const at::Tensor& leaf = accumulator->variable;
  const bool is_alias = leaf.has_storage() && tensor.has_storage() &&
                        leaf.storage().data() == tensor.storage().data() &&
                        leaf.storage_offset() == tensor.storage_offset() &&
                        leaf.sizes() == tensor.sizes() && leaf.strides() == tensor.strides() &&
                        leaf.dtype() == tensor.dtype();
  return is_alias ? &leaf : nullptr;
}

// saved: what a node has unpacked.
py::tuple with_leaves(const py::tuple& saved) {
  py::tuple result = saved;
  for (std::size_t i = 0; i < saved.size(); ++i) {
    const py::handle object = saved[i];
    if (!THPVariable_Check(object.ptr())) {
      continue;
    }
    if (const at::Tensor* const leaf = leaf_of(THPVariable_Unpack(object.ptr()))) {
      if (result.is(saved)) {
        result = py::tuple(py::list(saved));
      }
      result[i] = py::reinterpret_steal<py::object>(THPVariable_Wrap(*leaf));
    }
  }
  return result;
}

}  // namespace

void add_saved_tensors(py::module_& module) {
  module.def("with_leaves", &with_leaves, py::arg("saved"));
  module.def("saved_tensors", &saved_tensors_of, py::arg("nodes"));
}

}  // namespace reprise::python
