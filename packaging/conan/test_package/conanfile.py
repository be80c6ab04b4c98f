# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors

from conan import ConanFile
from conan.tools.build import can_run
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout


class ReprisePackageTest(ConanFile):
    settings = "os", "compiler", "build_type", "arch"

    def requirements(self):
        self.requires(self.tested_reference_str)

    def layout(self):
        cmake_layout(self)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.user_presets_path = False
        libtorch = self.conf.get("user.reprise:libtorch", default="", check_type=str)
        if libtorch:
            toolchain.cache_variables["REPRISE_LIBTORCH"] = libtorch
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def test(self):
        if can_run(self):
            self.run(f"{self.cpp.build.bindir}/hello", env="conanrun")
