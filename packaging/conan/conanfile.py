# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Recipe of Conan 2: conan create packaging/conan -c user.reprise:libtorch=/path/to/libtorch"""

import pathlib
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy

SOURCES = (
    "CMakeLists.txt", "CHANGELOG.md", "LICENSE", "reprise.h", "cmake/*", "base/*", "engine/*",
    "hooks/*", "partition/*", "planner/*", "policies/*", "rng/*",
)  # fmt: skip


class Reprise(ConanFile):
    name = "reprise"
    description = "Activation checkpointing, recomputation and offload for LibTorch in C++"
    license = "Apache-2.0"
    topics = ("libtorch", "pytorch", "activation-checkpointing", "deep-learning")
    package_type = "library"
    settings = "os", "compiler", "build_type", "arch"
    options = {"shared": [True, False], "cuda_kernels": [True, False]}
    default_options = {"shared": True, "cuda_kernels": False}

    def set_version(self):
        header = pathlib.Path(self.recipe_folder, "..", "..", "base", "version.h").read_text()
        self.version = ".".join(re.findall(r"#define REPRISE_VERSION_\w+ (\d+)", header))

    def export_sources(self):
        root = pathlib.Path(self.recipe_folder, "..", "..")
        for pattern in SOURCES:
            copy(self, pattern, root, self.export_sources_folder)

    def requirements(self):
        self.requires("abseil/[>=20220623.0]")
        self.requires("xxhash/[>=0.8.1 <1]")
        self.requires("lz4/[>=1.9.4 <2]")
        self.requires("zstd/[>=1.5.4 <2]")
        self.requires("nlohmann_json/[>=3.11.2 <4]", visible=False)

    def validate(self):
        check_min_cppstd(self, 20)

    def layout(self):
        cmake_layout(self)

    @property
    def _libtorch(self):
        return self.conf.get("user.reprise:libtorch", default="", check_type=str)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        for name in ("TESTS", "EXAMPLES", "BENCH"):
            toolchain.cache_variables[f"REPRISE_BUILD_{name}"] = False
        kernels = "ON" if self.options.cuda_kernels else "OFF"
        toolchain.cache_variables["REPRISE_CUDA_KERNELS"] = kernels
        if self._libtorch:  # otherwise that of CMAKE_PREFIX_PATH or of the active Python
            toolchain.cache_variables["REPRISE_LIBTORCH"] = self._libtorch
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build(target="reprise_libraries")

    def package(self):
        CMake(self).install()

    def package_info(self):
        # The package that CMake has installed knows how to find LibTorch; one of Conan's would not.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/reprise"]
