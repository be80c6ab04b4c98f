# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# What of LibTorch's distributed part can be built with. Its headers of Gloo and NCCL include those
# of Gloo and NCCL themselves, which LibTorch does not bring along.

set(REPRISE_WITH_GLOO AUTO CACHE STRING "Make process groups over Gloo: AUTO (if its headers are found), ON or OFF")
set(REPRISE_WITH_NCCL AUTO CACHE STRING "Make process groups over NCCL: AUTO (if its headers are found), ON or OFF")
set_property(CACHE REPRISE_WITH_GLOO REPRISE_WITH_NCCL PROPERTY STRINGS AUTO ON OFF)

# Sets `out` to whether a source that includes c10d's `header` compiles with the folders `includes`
# and the definitions that follow.
function(_reprise_compiles_with header includes out)
  set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
  string(SHA1 key "${header};${includes}")  # asked anew when a folder changes
  set(variable "REPRISE_COMPILES_${key}")
  if(NOT DEFINED ${variable})
    file(WRITE "${PROJECT_BINARY_DIR}/try/${variable}.cpp"
         "#include <torch/csrc/distributed/c10d/${header}>\n")
    try_compile(${variable} "${PROJECT_BINARY_DIR}/try/${header}"
                "${PROJECT_BINARY_DIR}/try/${variable}.cpp"
                CMAKE_FLAGS "-DINCLUDE_DIRECTORIES=${includes}"
                COMPILE_DEFINITIONS ${ARGN}
                CXX_STANDARD 20 CXX_STANDARD_REQUIRED ON
                OUTPUT_VARIABLE output)
    if(NOT ${variable})
      file(WRITE "${PROJECT_BINARY_DIR}/try/${variable}.log" "${output}")
    endif()
  endif()
  set(${out} ${${variable}} PARENT_SCOPE)
endfunction()

# Sets `out` to whether LibTorch was built with `definition`. Its own targets say it where they are.
function(_reprise_has_definition definition out)
  set(${out} FALSE PARENT_SCOPE)
  foreach(target IN ITEMS LibTorch::cpu torch_cpu)
    if(TARGET ${target})
      get_target_property(definitions ${target} INTERFACE_COMPILE_DEFINITIONS)
      if("${definition}" IN_LIST definitions)
        set(${out} TRUE PARENT_SCOPE)
      endif()
    endif()
  endforeach()
endfunction()

# Sets `out` to why Gloo cannot be built with, or to nothing.
function(_reprise_without_gloo out)
  set(${out} "" PARENT_SCOPE)
  _reprise_has_definition(USE_C10D_GLOO has_gloo)
  if(NOT has_gloo)
    set(${out} "LibTorch has no Gloo" PARENT_SCOPE)
    return()
  endif()
  find_path(REPRISE_GLOO_INCLUDE_DIR gloo/rendezvous/store.h DOC "Gloo's headers")
  mark_as_advanced(REPRISE_GLOO_INCLUDE_DIR)
  if(NOT REPRISE_GLOO_INCLUDE_DIR)
    set(${out} "Gloo's headers were not found (Debian: libgloo-dev)" PARENT_SCOPE)
    return()
  endif()
  _reprise_compiles_with(ProcessGroupGloo.hpp "${LibTorch_INCLUDE_DIRS};${REPRISE_GLOO_INCLUDE_DIR}"
                         compiles -DUSE_DISTRIBUTED -DUSE_C10D_GLOO)
  if(NOT compiles)
    set(${out} "LibTorch's ProcessGroupGloo.hpp does not compile with Gloo's headers in \
${REPRISE_GLOO_INCLUDE_DIR} (see ${PROJECT_BINARY_DIR}/try)" PARENT_SCOPE)
  endif()
endfunction()

# Sets `out` to whether LibTorch's header of NCCL compiles with those of NCCL and CUDA that are there.
function(reprise_nccl_headers_compile out)
  _reprise_compiles_with(
    ProcessGroupNCCL.hpp
    "${LibTorch_INCLUDE_DIRS};${LibTorch_CUDA_INCLUDE_DIR};${REPRISE_NCCL_INCLUDE_DIR}" compiles
    -DUSE_DISTRIBUTED -DUSE_C10D_NCCL)
  set(${out} ${compiles} PARENT_SCOPE)
endfunction()

# Sets `out` to why NCCL cannot be built with, or to nothing.
function(_reprise_without_nccl out)
  set(${out} "" PARENT_SCOPE)
  find_path(REPRISE_NCCL_INCLUDE_DIR nccl.h DOC "NCCL's headers"
            HINTS "${LibTorch_ROOT_DIR}/../nvidia/nccl/include"
            PATHS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES include)
  mark_as_advanced(REPRISE_NCCL_INCLUDE_DIR)
  if(NOT REPRISE_HAS_CUDA)
    set(${out} "Reprise is built without LibTorch's CUDA libraries" PARENT_SCOPE)
    return()
  endif()
  if(NOT REPRISE_NCCL_INCLUDE_DIR)
    set(${out} "nccl.h was not found" PARENT_SCOPE)
    return()
  endif()
  reprise_nccl_headers_compile(compiles)
  if(NOT compiles)
    set(${out} "LibTorch's ProcessGroupNCCL.hpp does not compile with the headers in \
${REPRISE_NCCL_INCLUDE_DIR} and '${LibTorch_CUDA_INCLUDE_DIR}' (see ${PROJECT_BINARY_DIR}/try)"
        PARENT_SCOPE)
  endif()
endfunction()

# Sets REPRISE_HAS_<name>, as REPRISE_WITH_<name> says and `reason` allows.
function(_reprise_decide name reason)
  if(NOT REPRISE_WITH_${name})
    set(reason "REPRISE_WITH_${name} is OFF")
  elseif(reason AND NOT REPRISE_WITH_${name} STREQUAL "AUTO")
    message(FATAL_ERROR "REPRISE_WITH_${name} is ON, but ${reason}.")
  endif()
  if(reason)
    message(STATUS "Reprise: without process groups over ${name}: ${reason}")
    set(REPRISE_HAS_${name} OFF PARENT_SCOPE)
  else()
    set(REPRISE_HAS_${name} ON PARENT_SCOPE)
  endif()
endfunction()

# reprise_find_distributed()
#
# Sets REPRISE_HAS_DISTRIBUTED (LibTorch has c10d), REPRISE_HAS_GLOO and REPRISE_HAS_NCCL.
macro(reprise_find_distributed)
  _reprise_has_definition(USE_DISTRIBUTED REPRISE_HAS_DISTRIBUTED)
  if(REPRISE_HAS_DISTRIBUTED)
    set(_reprise_reason "")
    if(REPRISE_WITH_GLOO)
      _reprise_without_gloo(_reprise_reason)
    endif()
    _reprise_decide(GLOO "${_reprise_reason}")
    set(_reprise_reason "")
    if(REPRISE_WITH_NCCL)
      _reprise_without_nccl(_reprise_reason)
    endif()
    _reprise_decide(NCCL "${_reprise_reason}")
    unset(_reprise_reason)
  else()
    message(STATUS "Reprise: without partition/: LibTorch was built without distributed")
  endif()
endmacro()
