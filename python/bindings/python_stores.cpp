// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include "reprise/python/bindings/python_stores.h"

#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "reprise/hooks/background/background.h"
#include "reprise/hooks/compressed_store.h"
#include "reprise/hooks/disk_store.h"
#include "reprise/hooks/host_store.h"
#include "reprise/hooks/save_on_cpu.h"
#include "reprise/hooks/slab_store.h"
#include "reprise/hooks/store_guard.h"
#include "reprise/hooks/stores.h"
#if REPRISE_PYTHON_HAS_DISTRIBUTED
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "reprise/partition/partitioned_store.h"
#endif
#include "reprise/python/bindings/python_guard.h"

namespace reprise::python {
namespace {

using std::chrono::nanoseconds;
using Store = std::shared_ptr<ActivationStore>;

constexpr std::chrono::minutes kExitPatience{1};
constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

double in_seconds(nanoseconds time) { return std::chrono::duration<double>(time).count(); }

std::chrono::milliseconds in_milliseconds(double seconds) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::duration<double>(seconds));
}

std::int64_t or_unlimited(std::optional<std::int64_t> bytes) { return bytes.value_or(kUnlimited); }

// Of a store that moves tensors away and back.
template <class Counters>
py::dict traffic_of(const Counters& counters) {
  py::dict dict;
  dict["bytes_out"] = counters.bytes_out;
  dict["bytes_in"] = counters.bytes_in;
  dict["bytes_reused"] = counters.bytes_reused;
  dict["bytes_forwarded"] = counters.bytes_forwarded;
  dict["waits"] = counters.waits;
  dict["wait_seconds"] = in_seconds(counters.wait_time);
  dict["in_flight_bytes"] = counters.in_flight_bytes;
  dict["resident_bytes"] = counters.resident_bytes;
  return dict;
}

py::dict background_traffic_of(const BackgroundCounters& counters) {
  py::dict dict = traffic_of(counters);
  dict["put_seconds"] = in_seconds(counters.put_time);
  return dict;
}

py::dict counters_of(const HostStore& store) {
  const HostCounters counters = store.counters();
  py::dict dict = traffic_of(counters);
  dict["put_waits"] = counters.put_waits;
  dict["put_wait_seconds"] = in_seconds(counters.put_wait_time);
  dict["host_bytes"] = counters.host_bytes;
  return dict;
}

py::dict counters_of(const DiskStore& store) {
  const DiskCounters counters = store.counters();
  py::dict dict = background_traffic_of(counters);
  dict["disk_bytes"] = counters.disk_bytes;
  return dict;
}

py::dict counters_of(const CompressedStore& store) {
  const CompressedCounters counters = store.counters();
  py::dict dict = background_traffic_of(counters);
  dict["compressed_bytes"] = counters.compressed_bytes;
  dict["bytes_not_smaller"] = counters.bytes_not_smaller;
  dict["bytes_no_time"] = counters.bytes_no_time;
  dict["bytes_no_room"] = counters.bytes_no_room;
  return dict;
}

py::dict counters_of(const SlabStore& store) {
  const SlabCounters counters = store.counters();
  py::dict dict;
  dict["slab_bytes"] = counters.slab_bytes;
  dict["used_bytes"] = counters.used_bytes;
  dict["peak_used_bytes"] = counters.peak_used_bytes;
  dict["largest_free_bytes"] = counters.largest_free_bytes;
  dict["slabs"] = counters.slabs;
  dict["growths"] = counters.growths;
  return dict;
}

#if REPRISE_PYTHON_HAS_DISTRIBUTED
py::dict counters_of(const PartitionedStore& store) {
  const PartitionedCounters counters = store.counters();
  py::dict dict;
  dict["gathers"] = counters.gathers;
  dict["gathered_bytes"] = counters.gathered_bytes;
  return dict;
}
#endif

template <class StoreType>
py::class_<StoreType, ActivationStore, std::shared_ptr<StoreType>> add_store(py::module_& module,
                                                                             const char* name) {
  return py::class_<StoreType, ActivationStore, std::shared_ptr<StoreType>>(module, name)
      .def("counters", [](const StoreType& store) { return counters_of(store); });
}

void add_moving_stores(py::module_& module) {
  add_store<HostStore>(module, "HostStore").def("release_unused", &HostStore::release_unused);
  module.def(
      "host",
      [](bool pin_memory, std::int64_t min_bytes, std::optional<std::int64_t> max_host_bytes,
         double max_wait_seconds, std::int64_t max_in_flight_bytes, std::int64_t max_device_bytes,
         std::int64_t keep_last) {
        return stores::host(
            {.pin_memory = pin_memory,
             .min_bytes = min_bytes,
             .max_host_bytes = or_unlimited(max_host_bytes),
             .max_wait = std::chrono::milliseconds(static_cast<int>(max_wait_seconds * 1e3)),
             .max_in_flight_bytes = max_in_flight_bytes,
             .max_device_bytes = max_device_bytes,
             .keep_last = keep_last});
      },
      py::kw_only(), py::arg("pin_memory") = true, py::arg("min_bytes") = 4096,
      py::arg("max_host_bytes") = py::none(), py::arg("max_wait_seconds") = 0.0,
      py::arg("max_in_flight_bytes") = HostOptions{}.max_in_flight_bytes,
      py::arg("max_device_bytes") = 0, py::arg("keep_last") = 1);
  add_store<DiskStore>(module, "DiskStore")
      .def("flush", &DiskStore::flush, py::call_guard<py::gil_scoped_release>())
      .def("release_unused", &DiskStore::release_unused);
  module.def(
      "disk",
      [](std::string directory, std::int64_t min_bytes, std::optional<std::int64_t> max_disk_bytes,
         bool forward_when_full, std::int64_t max_in_flight_bytes, std::int64_t keep_last,
         bool direct) {
        return stores::disk({.directory = std::move(directory),
                             .min_bytes = min_bytes,
                             .max_disk_bytes = or_unlimited(max_disk_bytes),
                             .when_full = forward_when_full ? DiskFull::kForward : DiskFull::kThrow,
                             .max_in_flight_bytes = max_in_flight_bytes,
                             .keep_last = keep_last,
                             .direct = direct});
      },
      py::kw_only(), py::arg("directory") = "", py::arg("min_bytes") = DiskOptions{}.min_bytes,
      py::arg("max_disk_bytes") = py::none(), py::arg("forward_when_full") = false,
      py::arg("max_in_flight_bytes") = DiskOptions{}.max_in_flight_bytes, py::arg("keep_last") = 1,
      py::arg("direct") = true);
}

void add_packing_stores(py::module_& module) {
  module.def(
      "packed",
      [](std::int64_t min_bytes, bool find_constants) {
        return stores::packed({.min_bytes = min_bytes, .find_constants = find_constants});
      },
      py::kw_only(), py::arg("min_bytes") = 1024, py::arg("find_constants") = false);
  py::enum_<stores::QuantizedFormat>(module, "QuantizedFormat")
      .value("INT8", stores::QuantizedFormat::kInt8)
      .value("FLOAT8_E4M3", stores::QuantizedFormat::kFloat8E4m3);
  module.def(
      "quantized",
      [](stores::QuantizedFormat format, std::int64_t block_size, bool stochastic_rounding,
         std::uint64_t seed, std::int64_t min_bytes) {
        return stores::quantized({.format = format,
                                  .block_size = block_size,
                                  .stochastic_rounding = stochastic_rounding,
                                  .seed = seed,
                                  .min_bytes = min_bytes});
      },
      py::kw_only(), py::arg("format") = stores::QuantizedFormat::kInt8,
      py::arg("block_size") = 128, py::arg("stochastic_rounding") = false, py::arg("seed") = 0,
      py::arg("min_bytes") = 4096);
  add_store<CompressedStore>(module, "CompressedStore")
      .def("flush", &CompressedStore::flush, py::call_guard<py::gil_scoped_release>());
  py::enum_<CompressionCodec>(module, "CompressionCodec")
      .value("AUTOMATIC", CompressionCodec::kAutomatic)
      .value("LZ4", CompressionCodec::kLz4)
      .value("ZSTANDARD", CompressionCodec::kZstandard);
  module.def(
      "compressed",
      [](CompressionCodec codec, int level, double max_ratio, double max_slowdown,
         std::int64_t min_bytes, std::int64_t max_in_flight_bytes, std::int64_t keep_last) {
        return stores::compressed({.codec = codec,
                                   .level = level,
                                   .max_ratio = max_ratio,
                                   .max_slowdown = max_slowdown,
                                   .min_bytes = min_bytes,
                                   .max_in_flight_bytes = max_in_flight_bytes,
                                   .keep_last = keep_last});
      },
      py::kw_only(), py::arg("codec") = CompressionCodec::kAutomatic, py::arg("level") = 1,
      py::arg("max_ratio") = 0.9, py::arg("max_slowdown") = 0.2,
      py::arg("min_bytes") = CompressedOptions{}.min_bytes,
      py::arg("max_in_flight_bytes") = CompressedOptions{}.max_in_flight_bytes,
      py::arg("keep_last") = 1);
}

#if REPRISE_PYTHON_HAS_DISTRIBUTED
// The group is found by its name in c10d's registry: its class in Python is another module's.
void add_partitioned_store(py::module_& module) {
  add_store<PartitionedStore>(module, "PartitionedStore");
  module.def(
      "partitioned",
      [](py::handle group, std::int64_t min_bytes, bool check_order, double check_timeout) {
        const auto name = py::cast<std::string>(group.attr("group_name"));
        return stores::partitioned(c10d::resolve_process_group(name),
                                   {.min_bytes = min_bytes,
                                    .check_order = check_order,
                                    .check_timeout = in_milliseconds(check_timeout)});
      },
      py::arg("group"), py::kw_only(), py::arg("min_bytes") = 4096, py::arg("check_order") = false,
      py::arg("check_timeout") = 300.0);
}
#else
void add_partitioned_store(py::module_& module) {
  module.def("partitioned", [](const py::args&, const py::kwargs&) {
    throw std::runtime_error("reprise was built for a torch without torch.distributed");
  });
}
#endif

void add_slab_store(py::module_& module) {
  add_store<SlabStore>(module, "SlabStore");
  module.def(
      "slab",
      [](std::int64_t initial_bytes, std::int64_t initial_tensors, std::int64_t min_bytes) {
        return stores::slab({.initial_bytes = initial_bytes,
                             .initial_tensors = initial_tensors,
                             .min_bytes = min_bytes});
      },
      py::kw_only(), py::arg("initial_bytes") = 0, py::arg("initial_tensors") = 0,
      py::arg("min_bytes") = 4096);
}

}  // namespace

void add_stores(py::module_& module) {
  py::class_<ActivationStore, Store>(module, "ActivationStore")
      .def("__or__", [](const Store& first, Store next) { return first | std::move(next); });
  module.def("device", &stores::device);
  // For os.register_at_fork(): fork() itself would wait with Python's lock, which tasks may need.
  module.def(
      "wait_before_fork",
      [] { hooks_internal::wait_for_background(hooks_internal::kForkPatience); },
      py::call_guard<py::gil_scoped_release>());
  // For atexit: a task that needs the lock of an interpreter that ends would end the process.
  module.def(
      "wait_before_exit", [] { hooks_internal::wait_for_background(kExitPatience); },
      py::call_guard<py::gil_scoped_release>());
  add_moving_stores(module);
  add_packing_stores(module);
  add_slab_store(module);
  add_partitioned_store(module);
  module.def(
      "store_guard",
      [](Store store, int prefetch_depth) {
        return guard_of<StoreGuard>(std::move(store),
                                    StoreGuardOptions{.prefetch_depth = prefetch_depth});
      },
      py::arg("store"), py::kw_only(), py::arg("prefetch_depth") = 1);
  module.def(
      "save_on_cpu",
      [](bool pin_memory, std::int64_t max_device_bytes) {
        return guard_of<SaveOnCpuGuard>(
            SaveOnCpuOptions{.pin_memory = pin_memory, .max_device_bytes = max_device_bytes});
      },
      py::arg("pin_memory") = false, py::kw_only(), py::arg("max_device_bytes") = 0);
}

}  // namespace reprise::python
