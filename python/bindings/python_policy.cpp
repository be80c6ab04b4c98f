// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/python/bindings/python_policy.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/util/StringUtil.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "reprise/engine/errors.h"
#include "reprise/policies/budget_policy.h"
#include "reprise/policies/policies.h"

namespace reprise::python {
namespace {

// Objects of reprise._policies, which live as long as the process.
struct PythonSide {
  py::handle make_context;   // (context) -> the policy's first argument
  py::handle find_overload;  // (name, overload) -> torch.ops...
  py::handle operator_names;
  // The members of CheckpointPolicy, in the order of ours. An older torch lacks the last two.
  std::vector<py::handle> answers;

  static const PythonSide& get() {
    static const PythonSide kSide;
    return kSide;
  }

 private:
  PythonSide() {
    const py::module_ module = py::module_::import("reprise._policies");
    make_context = keep_object(module, "SelectiveCheckpointContext");
    find_overload = keep_object(module, "find_overload");
    operator_names = keep_object(module, "operator_names");
    for (const char* const name : {"MUST_SAVE", "PREFER_SAVE", "MUST_RECOMPUTE", "PREFER_RECOMPUTE",
                                   "MUST_CPU_OFFLOAD", "PREFER_CPU_OFFLOAD"}) {
      if (py::hasattr(module.attr("CheckpointPolicy"), name)) {
        answers.push_back(py::object(module.attr("CheckpointPolicy").attr(name)).release());
      }
    }
  }
};

CheckpointPolicy to_answer(py::handle answer) {
  if (PyBool_Check(answer.ptr())) {
    return answer.ptr() == Py_True ? CheckpointPolicy::MUST_SAVE
                                   : CheckpointPolicy::PREFER_RECOMPUTE;
  }
  const std::vector<py::handle>& answers = PythonSide::get().answers;
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (answer.is(answers[i])) {
      return static_cast<CheckpointPolicy>(i);
    }
  }
  throw py::type_error("a policy has to return a CheckpointPolicy or a bool, not " +
                       std::string(py::repr(answer)));
}

// Arguments of an operator as torch.ops takes them: those with their default value at the end are
// left out.
struct PythonArguments {
  py::list positional;
  py::dict named;
};

bool is_default(const c10::Argument& argument, const c10::IValue& value) {
  return argument.default_value() && !value.isTensor() &&
         (value.isNone()
              ? argument.default_value()->isNone()
              : !argument.default_value()->isNone() && value == *argument.default_value());
}

PythonArguments to_python(const c10::FunctionSchema& schema, std::span<const c10::IValue> values) {
  std::size_t positional = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (!argument.kwarg_only() && !is_default(argument, values[i])) {
      positional = i + 1;
    }
  }
  PythonArguments arguments;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const c10::Argument& argument = schema.arguments()[i];
    if (i < positional) {
      arguments.positional.append(torch::jit::toPyObject(values[i]));
    } else if (argument.kwarg_only() && !is_default(argument, values[i])) {
      arguments.named[argument.name().c_str()] = torch::jit::toPyObject(values[i]);
    }
  }
  return arguments;
}

// None, an object, or a tuple, as torch.ops returns them.
py::object output_to_python(std::span<const c10::IValue> outputs) {
  if (outputs.size() == 1) {
    return torch::jit::toPyObject(outputs.front());
  }
  py::list all;
  for (const c10::IValue& output : outputs) {
    all.append(torch::jit::toPyObject(output));
  }
  return all.empty() ? py::object(py::none()) : py::tuple(all);
}

struct PythonOperator {
  const c10::FunctionSchema* schema;
  py::handle overload;  // torch.ops..., which lives as long as the process
};

// With the interpreter's lock.
const PythonOperator& python_operator(const PolicyContext& context) {
  static auto* const kKnown = new std::unordered_map<const void*, PythonOperator>();
  const auto [found, is_new] = kKnown->try_emplace(context.op_id());
  if (is_new) {
    const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(
        std::string(context.op()).c_str(), std::string(context.overload()).c_str());
    found->second = {
        .schema = &op.schema(),
        .overload = PythonSide::get().find_overload(context.op(), context.overload()).release()};
  }
  return found->second;
}

// Returns what `ask` returns, which runs with the interpreter's lock. Throws Python's exceptions as
// LibTorch's own.
template <class Ask>
auto ask_python(const Ask& ask) {
  const py::gil_scoped_acquire lock;
  try {
    return ask();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  }
  throw_python_error();
}

// A function policy(context, op, *args, **kwargs). For a named value `op` is None.
class PythonPolicy final : public Policy {
 public:
  explicit PythonPolicy(py::object function) : function_(std::move(function)) {}
  ~PythonPolicy() override { destroy_with_lock(function_); }

  PolicyAnswer decide(const PolicyContext& context) override {
    return ask_python([&] { return ask(context); });
  }

 private:
  CheckpointPolicy ask(const PolicyContext& context) const {
    const py::object first = PythonSide::get().make_context(
        py::arg("is_recompute") = false, py::arg("name") = context.name(),
        py::arg("region") = context.region(),
        py::arg("scopes") =
            std::vector<std::string>(context.scopes().begin(), context.scopes().end()),
        py::arg("output_bytes") = context.output_bytes(),
        py::arg("op_output") = output_to_python(context.outputs()));
    if (!context.name().empty()) {
      return to_answer(function_(first, py::none()));
    }
    const PythonOperator& op = python_operator(context);
    const PythonArguments arguments = to_python(*op.schema, context.arguments());
    return to_answer(function_(first, op.overload, *arguments.positional, **arguments.named));
  }

  py::object function_;
};

// For each run of a region another function, which `make_function` returns.
class StatefulPythonPolicy final : public Policy {
 public:
  explicit StatefulPythonPolicy(py::object make_function)
      : make_function_(std::move(make_function)) {}
  ~StatefulPythonPolicy() override { destroy_with_lock(make_function_); }

  std::shared_ptr<Policy> begin_region() override {
    return ask_python([&] { return std::make_shared<PythonPolicy>(make_function_()); });
  }

  PolicyAnswer decide(const PolicyContext& /*context*/) override {
    throw CheckpointError(
        "[with_state] a policy with state cannot be asked itself; ask the one that its "
        "begin_region() returns for each run");
  }

 private:
  py::object make_function_;
};

std::vector<PolicyHolder> to_policies(const py::args& objects) {
  std::vector<PolicyHolder> policies;
  for (const py::handle object : objects) {
    policies.push_back(to_policy(object));
  }
  return policies;
}

void add_combinators(py::module_& module) {
  module.def("offload", [](py::handle inner) { return policies::offload(to_policy(inner)); });
  module.def("keep_in", [](std::shared_ptr<ActivationStore> store, py::handle inner) {
    return policies::keep_in(std::move(store), to_policy(inner));
  });
  module.def("first_match",
             [](const py::args& all) { return policies::first_match(to_policies(all)); });
  module.def("override_with", [](py::handle base, py::handle overriding) {
    return policies::override_with(to_policy(base), to_policy(overriding));
  });
  module.def("for_region", [](std::string name, py::handle policy, py::handle otherwise) {
    return policies::for_region(std::move(name), to_policy(policy), to_policy(otherwise));
  });
}

class HeldBudgetPolicy : public PolicyHolder {
 public:
  explicit HeldBudgetPolicy(const BudgetPolicyOptions& options)
      : PolicyHolder(std::make_shared<BudgetPolicy>(options)) {}

  const BudgetPolicy& policy() const { return static_cast<const BudgetPolicy&>(*get()); }
};

void add_budget_policy(py::module_& module) {
  py::class_<BudgetedRun>(module, "BudgetedRun")
      .def_readonly("region", &BudgetedRun::region)
      .def_readonly("runs", &BudgetedRun::runs)
      .def_readonly("operators", &BudgetedRun::operators)
      .def_readonly("result_bytes", &BudgetedRun::result_bytes)
      .def_readonly("useful_bytes", &BudgetedRun::useful_bytes)
      .def_readonly("limit_bytes", &BudgetedRun::limit_bytes)
      .def_readonly("saved_bytes", &BudgetedRun::saved_bytes)
      .def_readonly("seconds", &BudgetedRun::seconds)
      .def_readonly("saved_seconds", &BudgetedRun::saved_seconds);
  using WithoutLock = py::call_guard<py::gil_scoped_release>;
  py::class_<HeldBudgetPolicy, PolicyHolder>(module, "BudgetPolicy")
      .def(py::init([](std::optional<std::int64_t> bytes, std::optional<double> fraction) {
             return HeldBudgetPolicy({.saved_bytes = bytes, .saved_fraction = fraction});
           }),
           py::kw_only(), py::arg("saved_bytes") = py::none(),
           py::arg("saved_fraction") = py::none())
      .def(
          "known_runs", [](const HeldBudgetPolicy& held) { return held.policy().known_runs(); },
          WithoutLock())
      .def(
          "explain", [](const HeldBudgetPolicy& held) { return held.policy().explain(); },
          WithoutLock());
}

}  // namespace

PolicyHolder to_policy(py::handle object) {
  if (!object || object.is_none()) {
    return {};
  }
  if (py::isinstance<PolicyHolder>(object)) {
    return py::cast<PolicyHolder>(object);
  }
  if (PyUnicode_Check(object.ptr())) {
    return policies::save_operators({py::cast<std::string>(object)});
  }
  if (PyList_Check(object.ptr()) || PyTuple_Check(object.ptr())) {
    return policies::save_operators(
        py::cast<std::vector<std::string>>(PythonSide::get().operator_names(object)));
  }
  if (PyCallable_Check(object.ptr()) != 0) {
    return std::make_shared<PythonPolicy>(py::reinterpret_borrow<py::object>(object));
  }
  throw py::type_error("policy_fn_or_list must be either a function or a list of ops.");
}

void add_policies(py::module_& module) {
  py::class_<PolicyHolder>(module, "Policy").def("unmatched", [](const PolicyHolder& policy) {
    return policy.get()->unmatched();
  });
  module.def("to_policy", &to_policy);
  module.def("save_everything", &policies::save_everything);
  module.def("save_nothing", &policies::save_nothing);
  module.def("save_matmuls", &policies::save_matmuls);
  module.def("save_attention", &policies::save_attention);
  module.def("save_compute_intensive", &policies::save_compute_intensive);
  module.def("save_operators", [](const py::args& operators) { return to_policy(operators); });
  module.def("every_nth_matmul", &policies::every_nth_matmul);
  module.def("save_named",
             [](std::vector<std::string> names) { return policies::save_named(std::move(names)); });
  module.def("save_where", [](py::object condition) {
    return policies::save_where(
        [shared = share_object(std::move(condition))](const at::Tensor& output) {
          return ask_python([&] { return (*shared)(output).cast<bool>(); });
        });
  });
  module.def("save_tagged",
             [](int tag) { return policies::save_tagged(static_cast<at::Tag>(tag)); });
  module.def("with_state", [](py::object make_function) -> PolicyHolder {
    return std::make_shared<StatefulPythonPolicy>(std::move(make_function));
  });
  add_combinators(module);
  add_budget_policy(module);
}

}  // namespace reprise::python
