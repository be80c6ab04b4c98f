// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/python/bindings/region_argument.h"

#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>

namespace reprise::python {
namespace {

// torch.utils._pytree, which lives as long as the process.
struct Pytree {
  py::handle registered;  // a dict by class
  py::handle is_namedtuple;
  py::handle flatten;
  py::handle unflatten;

  static const Pytree& get() {
    static const Pytree kPytree;
    return kPytree;
  }

 private:
  Pytree() {
    const py::module_ module = py::module_::import("torch.utils._pytree");
    registered = keep_object(module, "SUPPORTED_NODES");
    is_namedtuple = keep_object(module, "is_namedtuple_instance");
    flatten = keep_object(module, "tree_flatten");
    unflatten = keep_object(module, "tree_unflatten");
  }
};

bool is_scalar(PyObject* object) {
  return object == Py_None || PyLong_Check(object) || PyFloat_Check(object) ||
         PyUnicode_CheckExact(object);
}

// Whether torch.utils._pytree is to take it apart.
bool is_registered(py::handle object) {
  if (PyTuple_Check(object.ptr())) {
    return py::bool_(Pytree::get().is_namedtuple(object));
  }
  auto* const type = reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()));
  return PyDict_Contains(Pytree::get().registered.ptr(), type) == 1;
}

// Hooks and stores return tensors of the base class. A view of a leaf would not be one.
py::object as_class(const py::object& tensor, const py::object& subclass) {
  const at::Tensor& unpacked = THPVariable_Unpack(tensor.ptr());
  if (!unpacked.is_leaf()) {
    return tensor.attr("as_subclass")(subclass);
  }
  return py::type::handle_of(tensor).attr("_make_subclass")(subclass, tensor,
                                                            unpacked.requires_grad());
}

std::size_t size_of(PyObject* sequence) {
  return static_cast<std::size_t>(PySequence_Fast_GET_SIZE(sequence));
}

// Whether the elements are the same objects.
bool has_same_elements(py::handle a, py::handle b) {
  const std::size_t size = size_of(a.ptr());
  return size == size_of(b.ptr()) &&
         std::equal(PySequence_Fast_ITEMS(a.ptr()), PySequence_Fast_ITEMS(a.ptr()) + size,
                    PySequence_Fast_ITEMS(b.ptr()));
}

// For two containers of the same class.
bool has_same_contents(const py::object& a, const py::object& b) {
  if (PyTuple_CheckExact(a.ptr()) || PyList_CheckExact(a.ptr())) {
    return has_same_elements(a, b);
  }
  if (PyDict_CheckExact(a.ptr())) {
    return has_same_elements(py::list(a), py::list(b)) &&
           has_same_elements(py::list(a.attr("values")()), py::list(b.attr("values")()));
  }
  const py::tuple parts_of_a = Pytree::get().flatten(a);
  const py::tuple parts_of_b = Pytree::get().flatten(b);
  return has_same_elements(parts_of_a[0], parts_of_b[0]) && parts_of_a[1].equal(parts_of_b[1]);
}

}  // namespace

void collect_tensors(py::handle object, std::vector<at::Tensor>& tensors) {
  PyObject* const pointer = object.ptr();
  if (THPVariable_Check(pointer)) {
    tensors.push_back(THPVariable_Unpack(pointer));
  } else if (is_scalar(pointer)) {
    return;
  } else if (PyTuple_CheckExact(pointer) || PyList_CheckExact(pointer)) {
    for (std::size_t i = 0; i < size_of(pointer); ++i) {
      collect_tensors(PySequence_Fast_ITEMS(pointer)[i], tensors);
    }
  } else if (PyDict_CheckExact(pointer)) {
    for (const auto& [key, value] : py::reinterpret_borrow<py::dict>(object)) {
      collect_tensors(value, tensors);
    }
  } else if (is_registered(object)) {
    const py::tuple taken_apart = Pytree::get().flatten(object);
    for (const py::handle leaf : taken_apart[0]) {
      if (THPVariable_Check(leaf.ptr())) {
        tensors.push_back(THPVariable_Unpack(leaf.ptr()));
      }
    }
  }
}

RegionArgument::RegionArgument(py::handle object, bool holds_tensors)
    : kind_(Kind::kObject), object_(py::reinterpret_borrow<py::object>(object)) {
  PyObject* const pointer = object.ptr();
  if (THPVariable_Check(pointer)) {
    if (!holds_tensors) {
      kind_ = Kind::kTensor;
      object_ = py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(Py_TYPE(pointer)));
    }
  } else if (is_scalar(pointer)) {
    return;
  } else if (PyTuple_CheckExact(pointer) || PyList_CheckExact(pointer)) {
    kind_ = PyTuple_CheckExact(pointer) ? Kind::kTuple : Kind::kList;
    object_ = py::none();
    add_parts(object, holds_tensors);
  } else if (PyDict_CheckExact(pointer)) {
    kind_ = Kind::kDict;
    const auto dict = py::reinterpret_borrow<py::dict>(object);
    object_ = py::tuple(dict);
    add_parts(py::list(dict.attr("values")()), holds_tensors);
  } else if (is_registered(object)) {
    kind_ = Kind::kRegistered;
    const py::tuple taken_apart = Pytree::get().flatten(object);
    object_ = taken_apart[1];
    for (const py::handle leaf : taken_apart[0]) {
      parts_.emplace_back(leaf, holds_tensors);
    }
  }
  if (holds_tensors && kind_ != Kind::kObject) {
    original_ = py::reinterpret_borrow<py::object>(object);
  }
}

void RegionArgument::add_parts(py::handle sequence, bool holds_tensors) {
  parts_.reserve(size_of(sequence.ptr()));
  for (std::size_t i = 0; i < size_of(sequence.ptr()); ++i) {
    parts_.emplace_back(PySequence_Fast_ITEMS(sequence.ptr())[i], holds_tensors);
  }
}

std::vector<py::object> RegionArgument::parts_with(std::span<const at::Tensor>& tensors) const {
  std::vector<py::object> parts;
  parts.reserve(parts_.size());
  for (const RegionArgument& part : parts_) {
    parts.push_back(part.with(tensors));
  }
  return parts;
}

py::object RegionArgument::with(std::span<const at::Tensor>& tensors) const {
  py::object container = container_with(tensors);
  return original_ && has_same_contents(original_, container) ? original_ : container;
}

void RegionArgument::for_each_object(absl::FunctionRef<void(PyObject*)> visitor) const {
  for (const py::object* const object : {&object_, &original_}) {
    if (*object) {
      visitor(object->ptr());
    }
  }
  for (const RegionArgument& part : parts_) {
    part.for_each_object(visitor);
  }
}

py::object RegionArgument::container_with(std::span<const at::Tensor>& tensors) const {
  switch (kind_) {
    case Kind::kObject:
      return object_;
    case Kind::kTensor: {
      auto tensor = py::reinterpret_steal<py::object>(THPVariable_Wrap(tensors.front()));
      tensors = tensors.subspan(1);
      return py::type::handle_of(tensor).is(object_) ? tensor : as_class(tensor, object_);
    }
    case Kind::kTuple:
      return py::tuple(py::cast(parts_with(tensors)));
    case Kind::kList:
      return py::cast(parts_with(tensors));
    case Kind::kDict: {
      py::dict dict;
      for (std::size_t i = 0; i < parts_.size(); ++i) {
        dict[py::reinterpret_borrow<py::tuple>(object_)[i]] = parts_[i].with(tensors);
      }
      return dict;
    }
    case Kind::kRegistered:
      return Pytree::get().unflatten(py::cast(parts_with(tensors)), object_);
  }
  TORCH_INTERNAL_ASSERT(false);
}

}  // namespace reprise::python
