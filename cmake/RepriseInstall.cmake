# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# Installs the package that find_package(reprise) finds.

if(NOT REPRISE_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

set(REPRISE_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/reprise")
string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" _ "${LibTorch_VERSION}")
math(EXPR next_minor "${CMAKE_MATCH_2} + 1")
set(REPRISE_LIBTORCH_SAME_MINOR
    "${CMAKE_MATCH_1}.${CMAKE_MATCH_2}...<${CMAKE_MATCH_1}.${next_minor}")
set(REPRISE_LIBTORCH_COMPONENTS "")
if(REPRISE_HAS_CUDA_KERNELS)
  string(APPEND REPRISE_LIBTORCH_COMPONENTS " CUDARuntime")
endif()
if(REPRISE_HAS_NCCL)
  string(APPEND REPRISE_LIBTORCH_COMPONENTS " CUDA")
endif()
if(REPRISE_LIBTORCH_COMPONENTS)
  string(PREPEND REPRISE_LIBTORCH_COMPONENTS " COMPONENTS")
endif()
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/reprise-config.cmake.in"
                              "${PROJECT_BINARY_DIR}/package/reprise-config.cmake"
                              INSTALL_DESTINATION "${REPRISE_PACKAGE_DIR}"
                              NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/package/reprise-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/package/reprise-config.cmake"
              "${PROJECT_BINARY_DIR}/package/reprise-config-version.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/FindLibTorch.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/Findlz4.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/Findxxhash.cmake"
              "${CMAKE_CURRENT_LIST_DIR}/Findzstd.cmake"
        DESTINATION "${REPRISE_PACKAGE_DIR}")
install(EXPORT repriseTargets NAMESPACE reprise:: DESTINATION "${REPRISE_PACKAGE_DIR}")
