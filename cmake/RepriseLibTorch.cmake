# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# Which LibTorch Reprise is built with.

# No binary compatibility exists between LibTorch's minor versions; these are built and tested.
set(REPRISE_LIBTORCH_RANGE 2.9...<2.16)

# Where tools/setup puts LibTorch; consulted after everything that the user chose.
list(APPEND LibTorch_FALLBACK_DIRS "${CMAKE_CURRENT_LIST_DIR}/../build/libtorch")

if(CMAKE_SCRIPT_MODE_FILE)
  return()
endif()

set(REPRISE_LIBTORCH "" CACHE PATH
    "LibTorch to build with: an unpacked LibTorch, or the torch folder of a Python package")

set(REPRISE_WITH_CUDA AUTO CACHE STRING "Use LibTorch's CUDA libraries: AUTO, ON or OFF")
set_property(CACHE REPRISE_WITH_CUDA PROPERTY STRINGS AUTO ON OFF)

# reprise_find_libtorch()
#
# Finds LibTorch and, as REPRISE_WITH_CUDA says, its CUDA libraries; sets REPRISE_HAS_CUDA.
macro(reprise_find_libtorch)
  if(REPRISE_WITH_CUDA STREQUAL "AUTO")
    find_package(LibTorch ${REPRISE_LIBTORCH_RANGE} REQUIRED OPTIONAL_COMPONENTS CUDA CUDARuntime)
  elseif(REPRISE_WITH_CUDA)
    find_package(LibTorch ${REPRISE_LIBTORCH_RANGE} REQUIRED COMPONENTS CUDA
                 OPTIONAL_COMPONENTS CUDARuntime)
  else()
    find_package(LibTorch ${REPRISE_LIBTORCH_RANGE} REQUIRED)
  endif()
  set(REPRISE_HAS_CUDA OFF)
  if(REPRISE_WITH_CUDA AND TARGET LibTorch::cuda)
    set(REPRISE_HAS_CUDA ON)
  endif()
  # Remembered, so that a build which configures itself anew stays with the LibTorch it has.
  if(PROJECT_IS_TOP_LEVEL)
    set_property(CACHE REPRISE_LIBTORCH PROPERTY VALUE "${LibTorch_ROOT_DIR}")
  endif()
  message(STATUS "Reprise: LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR}, "
                 "CUDA ${REPRISE_HAS_CUDA}")
endmacro()
