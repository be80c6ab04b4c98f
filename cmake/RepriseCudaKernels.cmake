# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# Kernels of our own for CUDA, where nvcc is. They need neither a GPU to be built nor LibTorch's own
# kernels, only c10's CUDA library and the run time that comes with LibTorch.

set(REPRISE_CUDA_KERNELS AUTO CACHE STRING "Build the CUDA kernels: AUTO (if nvcc is found), ON or OFF")
set_property(CACHE REPRISE_CUDA_KERNELS PROPERTY STRINGS AUTO ON OFF)
set(REPRISE_CUDA_ARCHITECTURES all-major CACHE STRING
    "What nvcc's -arch gets: all-major, native, sm_90, ...")
mark_as_advanced(REPRISE_CUDA_ARCHITECTURES)

# Sets `out` to why the kernels cannot be built, or to nothing.
function(_reprise_without_cuda_kernels out)
  set(${out} "" PARENT_SCOPE)
  if(NOT REPRISE_WITH_CUDA)
    set(${out} "REPRISE_WITH_CUDA is OFF" PARENT_SCOPE)
    return()
  elseif(NOT TARGET LibTorch::cuda_runtime)
    set(${out} "LibTorch has no CUDA run time" PARENT_SCOPE)
    return()
  endif()
  # As tools/setup installs it; an explicit choice comes first.
  find_program(REPRISE_NVCC nvcc DOC "CUDA's compiler"
               HINTS ENV CUDACXX ENV CUDA_HOME "${LibTorch_ROOT_DIR}/../nvidia/cu13"
               PATHS "${PROJECT_SOURCE_DIR}/build/nvcc/nvidia/cu13" /usr/local/cuda
               PATH_SUFFIXES bin)
  mark_as_advanced(REPRISE_NVCC)
  if(NOT REPRISE_NVCC)
    set(${out} "nvcc was not found" PARENT_SCOPE)
    return()
  endif()
  execute_process(COMMAND "${REPRISE_NVCC}" --version OUTPUT_VARIABLE text ERROR_QUIET)
  string(REGEX MATCH "release ([0-9]+)\\.[0-9]+" _ "${text}")
  if(NOT CMAKE_MATCH_1 STREQUAL LibTorch_CUDA_MAJOR)
    set(${out} "nvcc is of CUDA ${CMAKE_MATCH_1}, LibTorch of CUDA ${LibTorch_CUDA_MAJOR}"
        PARENT_SCOPE)
  endif()
endfunction()

# reprise_find_nvcc()
#
# Sets REPRISE_HAS_CUDA_KERNELS, as REPRISE_CUDA_KERNELS says and what is there allows.
macro(reprise_find_nvcc)
  set(_reprise_reason "REPRISE_CUDA_KERNELS is OFF")
  if(REPRISE_CUDA_KERNELS)
    _reprise_without_cuda_kernels(_reprise_reason)
    if(_reprise_reason AND NOT REPRISE_CUDA_KERNELS STREQUAL "AUTO")
      message(FATAL_ERROR "REPRISE_CUDA_KERNELS is ON, but ${_reprise_reason}.")
    endif()
  endif()
  if(_reprise_reason)
    set(REPRISE_HAS_CUDA_KERNELS OFF)
    message(STATUS "Reprise: without CUDA kernels: ${_reprise_reason}")
  else()
    set(REPRISE_HAS_CUDA_KERNELS ON)
    message(STATUS "Reprise: CUDA kernels by ${REPRISE_NVCC}")
  endif()
  unset(_reprise_reason)
endmacro()

# reprise_cuda_object(cuda/kernels.cu object INCLUDES <folder> ...)
#
# Compiles `source` and sets `object` to what comes out, a source for add_library(). By a command
# and not as CMake's language CUDA, which whoever links a static library of ours would then have to
# enable as well.
function(reprise_cuda_object source out)
  cmake_parse_arguments(PARSE_ARGV 2 ARG "" "" "INCLUDES")
  cmake_path(GET source STEM name)
  set(object "${CMAKE_CURRENT_BINARY_DIR}/${name}.cu${CMAKE_CXX_OUTPUT_EXTENSION}")
  set(host_flags -fPIC -fvisibility=hidden -Wall -Wextra)
  if(REPRISE_WERROR)
    list(APPEND host_flags -Werror)
  endif()
  list(TRANSFORM host_flags PREPEND -Xcompiler=)
  # LibTorch's headers call constexpr functions of the standard library in device code, as by the
  # generator of random numbers. Without the option nvcc compiles such a call to nothing, and warns
  # of it in headers that are not the system's alone.
  set(device_flags --expt-relaxed-constexpr)
  list(TRANSFORM ARG_INCLUDES PREPEND -I)
  list(TRANSFORM LibTorch_INCLUDE_DIRS PREPEND -isystem= OUTPUT_VARIABLE libtorch_includes)
  add_custom_command(OUTPUT "${object}"
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} "${REPRISE_NVCC}" -c "${CMAKE_CURRENT_SOURCE_DIR}/${source}" -o "${object}"
            -ccbin "${CMAKE_CXX_COMPILER}" -std=c++20 -O3 -DNDEBUG
            "-arch=${REPRISE_CUDA_ARCHITECTURES}" ${device_flags} ${host_flags} ${ARG_INCLUDES} ${libtorch_includes}
            -MD -MF "${object}.d"
    DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${source}"
    DEPFILE "${object}.d"
    COMMENT "Building CUDA object ${source}"
    VERBATIM)
  set_source_files_properties("${object}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  set(${out} "${object}" PARENT_SCOPE)
endfunction()
