// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/python/bindings/compiled_graph.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/scalar_tensor.h>
#include <c10/core/DispatchKeySet.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "reprise/engine/operators/interception.h"

namespace reprise::python {
namespace {

constexpr char kAttribute[] = "_reprise_results";  // of a graph

// A result of a graph: a tensor, an input, as an operator may not return it, a number, as a tensor,
// or another object. With its position among the inputs, or the objects.
enum ResultKind : std::uint8_t { kTensor, kInput, kNumber, kObject };
using Results = std::vector<std::pair<std::uint8_t, std::size_t>>;

// Everything but the tensors of a call. Destroyed with the interpreter's lock.
struct Code {
  py::object call;
  py::object graph;
  py::list inputs;   // None in place of each tensor
  py::list objects;  // of the last run: results that are neither tensors nor numbers
};

py::list copy_of(const py::list& list) { return list.attr("copy")(); }

// A graph has the same results in each call. They are an attribute of it, which may be pickled.
void note_results(const py::object& graph, const Results& results) {
  if (!py::hasattr(graph, kAttribute)) {
    graph.attr(kAttribute) = py::cast(results);
  }
}

class CompiledGraph final : public torch::CustomClassHolder {
 public:
  struct Slot {
    std::size_t position;  // in the list of inputs
    bool is_written;
  };

  CompiledGraph(Code code, std::vector<Slot> slots)
      : code_(std::move(code)), slots_(std::move(slots)) {}
  CompiledGraph(const CompiledGraph&) = delete;
  CompiledGraph& operator=(const CompiledGraph&) = delete;
  ~CompiledGraph() override { destroy_with_lock(code_); }

  // Calls the graph, with the interpreter's lock. Returns the tensors and numbers among its
  // results.
  std::vector<at::Tensor> run(at::TensorList read, at::TensorList written);

  // Returns what the graph has returned, of which these are the tensors and numbers; `read` and
  // `written` as in run(). With the lock.
  py::list results(at::TensorList made, at::TensorList read, at::TensorList written) const;

 private:
  // Returns the tensors of the inputs in their order there.
  std::vector<at::Tensor> in_order(at::TensorList read, at::TensorList written) const;

  Code code_;
  const std::vector<Slot> slots_;
};

std::vector<at::Tensor> CompiledGraph::in_order(at::TensorList read, at::TensorList written) const {
  std::vector<at::Tensor> tensors;
  tensors.reserve(slots_.size());
  std::size_t next_read = 0;
  std::size_t next_written = 0;
  for (const Slot& slot : slots_) {
    tensors.push_back(slot.is_written ? written[next_written++] : read[next_read++]);
  }
  return tensors;
}

std::vector<at::Tensor> CompiledGraph::run(at::TensorList read, at::TensorList written) {
  const std::vector<at::Tensor> tensors = in_order(read, written);
  py::list inputs = copy_of(code_.inputs);  // a copy, which the graph empties
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    inputs[slots_[i].position] = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensors[i]));
  }
  const py::sequence results = code_.call(code_.graph, std::move(inputs));
  Results described;
  std::vector<at::Tensor> made;
  code_.objects = py::list();
  for (const py::handle result : results) {
    if (THPVariable_Check(result.ptr())) {
      const at::Tensor& tensor = THPVariable_Unpack(result.ptr());
      const auto input = std::find_if(tensors.begin(), tensors.end(), [&](const at::Tensor& other) {
        return other.is_same(tensor);
      });
      if (input == tensors.end()) {
        described.emplace_back(kTensor, 0);
        made.push_back(tensor);
      } else {
        described.emplace_back(kInput, input - tensors.begin());
      }
    } else if (PyLong_CheckExact(result.ptr()) != 0) {
      described.emplace_back(kNumber, 0);
      made.push_back(at::scalar_tensor(result.cast<std::int64_t>(), at::kLong));
    } else {
      described.emplace_back(kObject, code_.objects.size());
      code_.objects.append(result);
    }
  }
  note_results(code_.graph, described);
  return made;
}

py::list CompiledGraph::results(at::TensorList made, at::TensorList read,
                                at::TensorList written) const {
  const std::vector<at::Tensor> tensors = in_order(read, written);
  py::list results;
  const auto append = [&](const at::Tensor& tensor) {
    results.append(py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor)));
  };
  std::size_t next = 0;
  for (const auto& [kind, position] : code_.graph.attr(kAttribute).cast<Results>()) {
    if (kind == kTensor) {
      append(made[next++]);
    } else if (kind == kInput) {
      append(tensors[position]);
    } else if (kind == kNumber) {
      results.append(py::int_(*made[next++].const_data_ptr<std::int64_t>()));
    } else if (position < code_.objects.size()) {
      results.append(code_.objects[position]);
    } else {
      throw py::type_error(
          "a policy has saved the results of a compiled graph, of which one is neither a tensor "
          "nor "
          "a number");
    }
  }
  return results;
}

// Hides an operator from modes of Python's dispatcher, but not the operators that its kernel calls:
// modes see of a graph what they see of it outside of regions.
class HiddenFromModes {
 public:
  HiddenFromModes() {
    const c10::DispatchKeySet excluded = c10::impl::tls_local_dispatch_key_set().excluded_;
    hidden_ = c10::DispatchKeySet({c10::DispatchKey::Python, c10::DispatchKey::PythonTLSSnapshot}) -
              excluded;
    guard_.emplace(hidden_);
  }
  HiddenFromModes(const HiddenFromModes&) = delete;
  HiddenFromModes& operator=(const HiddenFromModes&) = delete;
  ~HiddenFromModes() { hidden_ = {}; }

  // In the kernel: returns the keys with which it calls operators.
  static c10::impl::LocalDispatchKeySet keys_inside() {
    c10::impl::LocalDispatchKeySet keys = c10::impl::tls_local_dispatch_key_set();
    keys.excluded_ = keys.excluded_ - std::exchange(hidden_, {});
    return keys;
  }

 private:
  static thread_local c10::DispatchKeySet hidden_;  // on the way to the kernel
  std::optional<c10::impl::ExcludeDispatchKeyGuard> guard_;
};
thread_local c10::DispatchKeySet HiddenFromModes::hidden_;

// As a kernel: on a thread of Python's or of autograd's, without the interpreter's lock.
std::vector<at::Tensor> run_graph(const c10::intrusive_ptr<CompiledGraph>& graph,
                                  at::TensorList read, at::TensorList written) {
  const c10::impl::ForceDispatchKeyGuard keys(HiddenFromModes::keys_inside());
  const py::gil_scoped_acquire lock;
  try {
    return graph->run(read, written);
  } catch (py::error_already_set& error) {
    error.restore();
    throw_python_error();
  }
}

std::vector<at::Tensor> run_reading_graph(const c10::intrusive_ptr<CompiledGraph>& graph,
                                          at::TensorList read) {
  return run_graph(graph, read, {});
}

// LibTorch destroys it with the process's other operators.
TORCH_LIBRARY_FRAGMENT(reprise, library) {
  library.class_<CompiledGraph>("CompiledGraph");
  library.def(
      "compiled_graph(__torch__.torch.classes.reprise.CompiledGraph graph, Tensor[] read) -> "
      "Tensor[]");
  library.def(
      "compiled_graph.writing(__torch__.torch.classes.reprise.CompiledGraph graph, Tensor[] read, "
      "Tensor(a!)[] written) -> Tensor[]");
}

// Autograd has a node for the graph around it.
TORCH_LIBRARY_IMPL(reprise, Autograd, library) {
  library.impl("compiled_graph", torch::CppFunction::makeFallthrough());
  library.impl("compiled_graph.writing", torch::CppFunction::makeFallthrough());
}

TORCH_LIBRARY_IMPL(reprise, CompositeExplicitAutograd, library) {
  library.impl("compiled_graph", &run_reading_graph);
  library.impl("compiled_graph.writing", &run_graph);
}

std::vector<at::Tensor> dispatch(const c10::intrusive_ptr<CompiledGraph>& graph,
                                 at::TensorList read, at::TensorList written) {
  const HiddenFromModes hidden;
  const py::gil_scoped_release unlocked;
  if (written.empty()) {
    static const auto op = c10::Dispatcher::singleton()
                               .findSchemaOrThrow("reprise::compiled_graph", "")
                               .typed<std::vector<at::Tensor>(
                                   const c10::intrusive_ptr<CompiledGraph>&, at::TensorList)>();
    return op.call(graph, read);
  }
  static const auto op =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("reprise::compiled_graph", "writing")
          .typed<std::vector<at::Tensor>(const c10::intrusive_ptr<CompiledGraph>&, at::TensorList,
                                         at::TensorList)>();
  return op.call(graph, read, written);
}

py::object call_compiled_graph(py::object call, py::object graph, py::list inputs) {
  if (engine_internal::InterceptionScope::current() == nullptr) {
    return call(graph, inputs);
  }
  const py::object all_written = graph.attr("mutated_input_idxs");
  std::vector<CompiledGraph::Slot> slots;
  std::vector<at::Tensor> read;
  std::vector<at::Tensor> written;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const py::object input = inputs[i];
    if (!THPVariable_Check(input.ptr())) {
      continue;
    }
    const bool is_written = all_written.contains(py::int_(i));
    slots.push_back({i, is_written});
    (is_written ? written : read).push_back(THPVariable_Unpack(input.ptr()));
    inputs[i] = py::none();
  }
  py::list others = copy_of(inputs);
  inputs.attr("clear")();
  const auto code = c10::make_intrusive<CompiledGraph>(
      Code{std::move(call), std::move(graph), std::move(others), py::list()}, std::move(slots));
  const std::vector<at::Tensor> made = dispatch(code, read, written);
  return code->results(made, read, written);
}

}  // namespace

void add_compiled_graphs(py::module_& module) {
  module.def("call_compiled_graph", &call_compiled_graph);
}

}  // namespace reprise::python
