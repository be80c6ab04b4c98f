# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# Installs the package that find_package(reprise) finds.

if(NOT REPRISE_INSTALL)
  return()
endif()
include(CMakePackageConfigHelpers)

set(REPRISE_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/reprise")
string(REGEX MATCH "^([0-9]+)\\.([0-9]+)" libtorch_minor "${LibTorch_VERSION}")
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
if(BUILD_SHARED_LIBS)
  set(REPRISE_LINKAGE shared)
else()
  set(REPRISE_LINKAGE static)
endif()
install(EXPORT repriseTargets NAMESPACE reprise:: DESTINATION "${REPRISE_PACKAGE_DIR}"
        FILE reprise-${REPRISE_LINKAGE}-targets.cmake)
install(FILES LICENSE CHANGELOG.md DESTINATION "${CMAKE_INSTALL_DOCDIR}")

if(BUILD_SHARED_LIBS)
  set(REPRISE_PKGCONFIG_LIBTORCH "${LibTorch_ROOT_DIR}" CACHE PATH
      "LibTorch that reprise.pc names where its user names none")
  get_property(REPRISE_PKGCONFIG_LIBS GLOBAL PROPERTY REPRISE_COMPONENTS)
  list(REVERSE REPRISE_PKGCONFIG_LIBS)
  list(TRANSFORM REPRISE_PKGCONFIG_LIBS PREPEND "-lreprise_")
  list(JOIN REPRISE_PKGCONFIG_LIBS " " REPRISE_PKGCONFIG_LIBS)
  set(REPRISE_PKGCONFIG_CUDA "")
  if(REPRISE_HAS_CUDA_KERNELS OR REPRISE_HAS_NCCL)
    set(REPRISE_PKGCONFIG_CUDA " -Wl,--push-state,--no-as-needed -lc10_cuda -Wl,--pop-state")
  endif()
  configure_file("${CMAKE_CURRENT_LIST_DIR}/reprise.pc.in" "${PROJECT_BINARY_DIR}/package/reprise.pc"
                 @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/package/reprise.pc"
          DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
endif()
if(BUILD_SHARED_LIBS AND REPRISE_BUNDLE_DEPENDENCIES)
  install(RUNTIME_DEPENDENCY_SET reprise_dependencies
          PRE_EXCLUDE_REGEXES ".*"
          PRE_INCLUDE_REGEXES "^lib(absl_.*|xxhash|lz4|zstd)[.]so"
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT bundled)
endif()
