# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors

#[=======================================================================[.rst:
FindLibTorch
------------

Finds LibTorch without the CUDA toolkit that LibTorch's own package config asks for: in an unpacked
LibTorch, in a Python package (a wheel), or as installed by a distribution.

Looked for in this order:

1. the targets of an earlier ``find_package(Torch)``, which are then reused
2. ``REPRISE_LIBTORCH``, as a variable or in the environment (it must then be right)
3. ``LibTorch_ROOT``, ``Torch_DIR``, ``CMAKE_PREFIX_PATH``, as variables or in the environment
4. the ``torch`` package of the active Python, if its version is acceptable
5. ``LibTorch_FALLBACK_DIRS``, a list variable
6. the system's prefixes

Components: ``CUDARuntime``, which is there also where the libraries that LibTorch's CUDA kernels
need are not, and ``CUDA``.

Targets: ``LibTorch::cpu``; with the component CUDARuntime ``LibTorch::cuda_runtime``, c10's part for
CUDA and the run time that LibTorch uses; with the component CUDA ``LibTorch::cuda``, which keeps
LibTorch's CUDA kernels in a program even if nothing of theirs is called by name.

Variables: ``LibTorch_FOUND``, ``LibTorch_VERSION``, ``LibTorch_ROOT_DIR``, ``LibTorch_INCLUDE_DIRS``,
``LibTorch_CUDARuntime_FOUND``, ``LibTorch_CUDA_FOUND``, ``LibTorch_CUDA_MAJOR`` (the major version of
its CUDA), ``LibTorch_NOT_FOUND_REASON``.
#]=======================================================================]

# Sets `out` to the folder below or above `dir` that holds include/ and lib/, or to nothing.
function(_libtorch_root_of dir out)
  set(${out} "" PARENT_SCOPE)
  if(NOT dir)
    return()
  endif()
  # As given; a folder with a Python package in it; <root>/share/cmake; <root>/share/cmake/Torch.
  foreach(suffix IN ITEMS "" /torch /libtorch /../.. /../../..)
    cmake_path(SET root NORMALIZE "${dir}${suffix}")
    if(EXISTS "${root}/include/ATen/core/Tensor.h")
      string(REGEX REPLACE "/+$" "" root "${root}")
      set(${out} "${root}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

# Sets `out` to the version that LibTorch's header in `include_dir` gives, or to nothing.
function(_libtorch_version_of include_dir out)
  set(${out} "" PARENT_SCOPE)
  foreach(header IN ITEMS torch/headeronly/version.h torch/csrc/api/include/torch/version.h
                          torch/version.h)
    if(EXISTS "${include_dir}/${header}")
      file(STRINGS "${include_dir}/${header}" lines
           REGEX "^#define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
      if(lines)
        list(TRANSFORM lines REPLACE "^#define [A-Z_]+ +([0-9]+).*" "\\1")
        list(JOIN lines "." version)
        set(${out} "${version}" PARENT_SCOPE)
        return()
      endif()
    endif()
  endforeach()
endfunction()

# Sets `out` to whether find_package(LibTorch <version or range>) would take `version`.
function(_libtorch_version_fits version out)
  set(fits TRUE)
  if(LibTorch_FIND_VERSION_RANGE)
    if(version VERSION_LESS LibTorch_FIND_VERSION_MIN)
      set(fits FALSE)
    elseif(LibTorch_FIND_VERSION_RANGE_MAX STREQUAL "EXCLUDE")
      if(version VERSION_GREATER_EQUAL LibTorch_FIND_VERSION_MAX)
        set(fits FALSE)
      endif()
    elseif(version VERSION_GREATER LibTorch_FIND_VERSION_MAX)
      set(fits FALSE)
    endif()
  elseif(LibTorch_FIND_VERSION AND version VERSION_LESS LibTorch_FIND_VERSION)
    set(fits FALSE)
  endif()
  set(${out} ${fits} PARENT_SCOPE)
endfunction()

# Sets `out` to the folder of the active Python's torch package. The package is not imported: that
# takes seconds, and fails where only its C++ half can run.
function(_libtorch_of_python out)
  set(${out} "" PARENT_SCOPE)
  find_program(LibTorch_PYTHON NAMES python3 python DOC "Python whose torch package may be used")
  mark_as_advanced(LibTorch_PYTHON)
  if(NOT LibTorch_PYTHON)
    return()
  endif()
  # An isolated build of a Python package hides what is installed by environment variables: -E.
  foreach(options IN ITEMS "-c" "-E;-c")
    execute_process(
      COMMAND "${LibTorch_PYTHON}" ${options}
              "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE dir RESULT_VARIABLE failed OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(NOT failed)
      break()
    endif()
  endforeach()
  if(NOT failed)
    _libtorch_root_of("${dir}" root)
    if(root)
      _libtorch_version_of("${root}/include" version)
      _libtorch_version_fits("${version}" fits)
      if(fits)
        set(${out} "${root}" PARENT_SCOPE)
      elseif(NOT LibTorch_FIND_QUIETLY)
        message(STATUS "LibTorch: passing over the active Python's torch ${version}")
      endif()
    endif()
  endif()
endfunction()

function(_libtorch_search out)
  set(given "${REPRISE_LIBTORCH}")
  if(NOT given)
    set(given "$ENV{REPRISE_LIBTORCH}")
  endif()
  if(given)
    _libtorch_root_of("${given}" root)
    if(NOT root)
      string(CONCAT reason
             "REPRISE_LIBTORCH is '${given}', where no LibTorch is (no include/ATen/core/Tensor.h). "
             "Set it to an unpacked LibTorch or to the torch folder of a Python package.")
      set(LibTorch_NOT_FOUND_REASON "${reason}" PARENT_SCOPE)
    endif()
    set(${out} "${root}" PARENT_SCOPE)
    return()
  endif()

  string(REPLACE ":" ";" environment_prefixes "$ENV{CMAKE_PREFIX_PATH}")
  foreach(dir IN LISTS LibTorch_ROOT ENV{LibTorch_ROOT} Torch_DIR ENV{Torch_DIR} CMAKE_PREFIX_PATH
                       environment_prefixes)
    _libtorch_root_of("${dir}" root)
    if(root)
      set(${out} "${root}" PARENT_SCOPE)
      return()
    endif()
  endforeach()

  _libtorch_of_python(root)
  if(root)
    set(${out} "${root}" PARENT_SCOPE)
    return()
  endif()

  foreach(dir IN LISTS LibTorch_FALLBACK_DIRS CMAKE_SYSTEM_PREFIX_PATH)
    if(EXISTS "${dir}/include/ATen/core/Tensor.h" OR EXISTS "${dir}/torch/include/ATen/core/Tensor.h")
      _libtorch_root_of("${dir}" root)
      set(${out} "${root}" PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${out} "" PARENT_SCOPE)
endfunction()

# Adds the imported shared library LibTorch::`name`, or sets LibTorch_`name`_LIBRARY to NOTFOUND.
function(_libtorch_import name)
  unset(LibTorch_${name}_LIBRARY)
  find_library(LibTorch_${name}_LIBRARY NAMES ${name}
               PATHS "${LibTorch_ROOT_DIR}/lib" "${LibTorch_ROOT_DIR}/lib64"
                     "${LibTorch_ROOT_DIR}/lib/${CMAKE_LIBRARY_ARCHITECTURE}"
               NO_DEFAULT_PATH NO_CACHE)
  set(LibTorch_${name}_LIBRARY "${LibTorch_${name}_LIBRARY}" PARENT_SCOPE)
  if(LibTorch_${name}_LIBRARY AND NOT TARGET LibTorch::${name})
    add_library(LibTorch::${name} SHARED IMPORTED)
    set_target_properties(LibTorch::${name} PROPERTIES
      IMPORTED_LOCATION "${LibTorch_${name}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIRS}"
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIRS}")
  endif()
endfunction()

# The definitions that LibTorch was built with and that its c10d headers ask for.
function(_libtorch_definitions name out)
  set(definitions "")
  set(file "${LibTorch_ROOT_DIR}/share/cmake/Caffe2/Caffe2Targets.cmake")
  if(EXISTS "${file}")
    file(READ "${file}" text)
    if(text MATCHES "set_target_properties\\(${name} PROPERTIES[ \n]+INTERFACE_COMPILE_DEFINITIONS \"([^\"]*)\"")
      set(definitions "${CMAKE_MATCH_1}")
    endif()
  endif()
  set(${out} "${definitions}" PARENT_SCOPE)
endfunction()

# A wheel keeps its CUDA libraries in sibling folders. LibTorch's own run path leads there; linkers
# other than GNU ld have to be told.
function(_libtorch_rpath_links out)
  file(GLOB dirs "${LibTorch_ROOT_DIR}/../nvidia/*/lib")
  list(TRANSFORM dirs PREPEND "LINKER:-rpath-link,")
  set(${out} "${dirs}" PARENT_SCOPE)
endfunction()

function(_libtorch_add_cpu)
  _libtorch_import(c10)
  _libtorch_import(torch_cpu)
  set(LibTorch_c10_LIBRARY "${LibTorch_c10_LIBRARY}" PARENT_SCOPE)
  set(LibTorch_torch_cpu_LIBRARY "${LibTorch_torch_cpu_LIBRARY}" PARENT_SCOPE)
  if(NOT LibTorch_c10_LIBRARY OR NOT LibTorch_torch_cpu_LIBRARY OR TARGET LibTorch::cpu)
    return()
  endif()
  _libtorch_definitions(torch_cpu definitions)
  _libtorch_rpath_links(rpath_links)
  add_library(LibTorch::cpu INTERFACE IMPORTED)
  set_target_properties(LibTorch::cpu PROPERTIES
    INTERFACE_LINK_LIBRARIES "LibTorch::torch_cpu;LibTorch::c10"
    INTERFACE_COMPILE_DEFINITIONS "${definitions}"
    INTERFACE_LINK_OPTIONS "${rpath_links}")
endfunction()

# Sets `out` to the libraries that libtorch_cuda needs and the loader does not find, as text. They
# are missing where a wheel was installed without its dependencies, and nothing links then.
function(_libtorch_missing_cuda_libraries out)
  find_program(LibTorch_LDD ldd DOC "Lists the shared libraries that a library needs")
  mark_as_advanced(LibTorch_LDD)
  set(missing "")
  if(LibTorch_LDD)
    execute_process(COMMAND "${LibTorch_LDD}" "${LibTorch_torch_cuda_LIBRARY}"
                    OUTPUT_VARIABLE needed ERROR_QUIET)
    string(REGEX MATCHALL "[^ \t\n]+ => not found" missing "${needed}")
    list(TRANSFORM missing REPLACE " => not found" "")
    list(REMOVE_DUPLICATES missing)
    list(JOIN missing ", " missing)
  endif()
  set(${out} "${missing}" PARENT_SCOPE)
endfunction()

# Sets LibTorch_CUDA_INCLUDE_DIR to the headers of the run time, and LibTorch_CUDA_MAJOR.
function(_libtorch_find_cuda_headers)
  find_path(LibTorch_CUDA_INCLUDE_DIR NAMES cuda_runtime_api.h
            HINTS "${LibTorch_ROOT_DIR}/../nvidia/cu13/include"
                  "${LibTorch_ROOT_DIR}/../nvidia/cuda_runtime/include"
            PATHS ENV CUDA_HOME /usr/local/cuda PATH_SUFFIXES include NO_CACHE)
  if(NOT LibTorch_CUDA_INCLUDE_DIR)
    set(LibTorch_CUDA_INCLUDE_DIR "" PARENT_SCOPE)
    return()
  endif()
  file(STRINGS "${LibTorch_CUDA_INCLUDE_DIR}/cuda_runtime_api.h" line
       REGEX "^#define CUDART_VERSION +[0-9]+")
  string(REGEX REPLACE "^.* ([0-9]+)[0-9][0-9][0-9].*$" "\\1" major "${line}")
  set(LibTorch_CUDA_MAJOR "${major}" PARENT_SCOPE)
  set(LibTorch_CUDA_INCLUDE_DIR "${LibTorch_CUDA_INCLUDE_DIR}" PARENT_SCOPE)
endfunction()

# The run time that LibTorch was linked with: a wheel and an unpacked LibTorch bring it along, under
# names with a version or a hash.
function(_libtorch_find_cudart out)
  file(GLOB found "${LibTorch_ROOT_DIR}/lib/libcudart*.so*"
                  "${LibTorch_ROOT_DIR}/../nvidia/cu13/lib/libcudart.so*"
                  "${LibTorch_ROOT_DIR}/../nvidia/cuda_runtime/lib/libcudart.so*")
  if(found)
    list(GET found 0 library)
  else()
    find_library(library NAMES cudart PATHS ENV CUDA_HOME /usr/local/cuda
                 PATH_SUFFIXES lib64 lib NO_CACHE)
  endif()
  set(${out} "${library}" PARENT_SCOPE)
endfunction()

# Makes programs that link `target` name `library`, also if the linker drops unused ones, and before
# all others. One option: CMake drops options that repeat.
function(_libtorch_always_link target library)
  set_property(TARGET ${target} APPEND PROPERTY INTERFACE_LINK_OPTIONS
    "LINKER:--push-state,--no-as-needed,${library},--pop-state")
endfunction()

function(_libtorch_add_cuda_runtime)
  set(LibTorch_CUDARuntime_FOUND FALSE PARENT_SCOPE)
  _libtorch_find_cuda_headers()
  set(LibTorch_CUDA_INCLUDE_DIR "${LibTorch_CUDA_INCLUDE_DIR}" PARENT_SCOPE)
  set(LibTorch_CUDA_MAJOR "${LibTorch_CUDA_MAJOR}" PARENT_SCOPE)
  _libtorch_import(c10_cuda)
  set(LibTorch_c10_cuda_LIBRARY "${LibTorch_c10_cuda_LIBRARY}" PARENT_SCOPE)
  _libtorch_find_cudart(cudart)
  if(NOT LibTorch_c10_cuda_LIBRARY OR NOT LibTorch_CUDA_INCLUDE_DIR OR NOT cudart)
    return()
  endif()
  set(LibTorch_CUDARuntime_FOUND TRUE PARENT_SCOPE)
  if(NOT TARGET LibTorch::cuda_runtime)
    add_library(LibTorch::cudart SHARED IMPORTED)
    set_target_properties(LibTorch::cudart PROPERTIES IMPORTED_LOCATION "${cudart}")
    add_library(LibTorch::cuda_runtime INTERFACE IMPORTED)
    set_target_properties(LibTorch::cuda_runtime PROPERTIES
      INTERFACE_LINK_LIBRARIES "LibTorch::cpu;LibTorch::c10_cuda;LibTorch::cudart"
      INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_CUDA_INCLUDE_DIR}"
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${LibTorch_CUDA_INCLUDE_DIR}")
    # No run path leads a shared library that needs libc10_cuda to it; libc10_cuda's own leads to the
    # run time.
    _libtorch_always_link(LibTorch::cuda_runtime "${LibTorch_c10_cuda_LIBRARY}")
  endif()
endfunction()

# After _libtorch_add_cuda_runtime().
function(_libtorch_add_cuda)
  set(LibTorch_CUDA_FOUND FALSE PARENT_SCOPE)
  _libtorch_import(torch_cuda)
  if(NOT LibTorch_c10_cuda_LIBRARY OR NOT LibTorch_torch_cuda_LIBRARY)
    set(LibTorch_CUDA_MISSING "it was built without CUDA" PARENT_SCOPE)
    return()
  endif()
  _libtorch_missing_cuda_libraries(missing)
  if(missing)
    set(LibTorch_CUDA_MISSING "these libraries that it needs are not installed: ${missing}"
        PARENT_SCOPE)
    return()
  endif()
  set(LibTorch_CUDA_FOUND TRUE PARENT_SCOPE)
  if(TARGET LibTorch::cuda)
    return()
  endif()
  _libtorch_definitions(torch_cuda definitions)
  add_library(LibTorch::cuda INTERFACE IMPORTED)
  # libtorch_cuda is used through the registrations that its loading makes, so that a linker which
  # drops unused libraries would drop it. The plain entry gives its folder to the run path.
  set_target_properties(LibTorch::cuda PROPERTIES
    INTERFACE_LINK_LIBRARIES "LibTorch::cpu;LibTorch::torch_cuda;LibTorch::c10_cuda"
    INTERFACE_COMPILE_DEFINITIONS "${definitions}"
    INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_CUDA_INCLUDE_DIR}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${LibTorch_CUDA_INCLUDE_DIR}")
  _libtorch_always_link(LibTorch::cuda "${LibTorch_torch_cuda_LIBRARY}")
endfunction()

# Wraps the targets of find_package(Torch), which has told what the user wants.
function(_libtorch_reuse_torch)
  if(NOT TARGET LibTorch::cpu)
    add_library(LibTorch::cpu INTERFACE IMPORTED)
    set_target_properties(LibTorch::cpu PROPERTIES
      INTERFACE_LINK_LIBRARIES "torch_cpu;c10"
      INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIRS}"
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${LibTorch_INCLUDE_DIRS}")
  endif()
  if(TARGET c10_cuda AND TARGET torch::cudart)
    _libtorch_find_cuda_headers()
    set(LibTorch_CUDA_MAJOR "${LibTorch_CUDA_MAJOR}" PARENT_SCOPE)
    set(LibTorch_CUDARuntime_FOUND TRUE PARENT_SCOPE)
    if(NOT TARGET LibTorch::cuda_runtime)
      add_library(LibTorch::cuda_runtime INTERFACE IMPORTED)
      set_target_properties(LibTorch::cuda_runtime PROPERTIES
        INTERFACE_LINK_LIBRARIES "LibTorch::cpu;c10_cuda;torch::cudart")
    endif()
  endif()
  if(TARGET torch_cuda_library AND NOT TARGET LibTorch::cuda)
    add_library(LibTorch::cuda INTERFACE IMPORTED)
    set_target_properties(LibTorch::cuda PROPERTIES
      INTERFACE_LINK_LIBRARIES "LibTorch::cpu;torch_cuda_library;c10_cuda")
  endif()
  if(TARGET LibTorch::cuda)
    set(LibTorch_CUDA_FOUND TRUE PARENT_SCOPE)
  else()
    set(LibTorch_CUDA_FOUND FALSE PARENT_SCOPE)
    set(LibTorch_CUDA_MISSING "it was built without CUDA" PARENT_SCOPE)
  endif()
endfunction()

set(LibTorch_CUDA_MISSING "")
set(LibTorch_CUDA_MAJOR "")
set(LibTorch_CUDARuntime_FOUND FALSE)
string(CONCAT LibTorch_NOT_FOUND_REASON
       "No LibTorch was found. Run tools/setup, or set REPRISE_LIBTORCH to an unpacked LibTorch or "
       "to the torch folder of a Python package.")
set(_libtorch_reuse FALSE)
if(TARGET torch_cpu AND TARGET c10)
  set(_libtorch_reuse TRUE)
  get_target_property(_libtorch_location torch_cpu LOCATION)
  cmake_path(GET _libtorch_location PARENT_PATH _libtorch_location)
  cmake_path(GET _libtorch_location PARENT_PATH LibTorch_ROOT_DIR)
else()
  _libtorch_search(LibTorch_ROOT_DIR)
endif()

set(LibTorch_INCLUDE_DIRS "")
set(LibTorch_VERSION "")
set(LibTorch_torch_cpu_LIBRARY "")
if(LibTorch_ROOT_DIR)
  set(LibTorch_INCLUDE_DIRS "${LibTorch_ROOT_DIR}/include"
                            "${LibTorch_ROOT_DIR}/include/torch/csrc/api/include")
  _libtorch_version_of("${LibTorch_ROOT_DIR}/include" LibTorch_VERSION)
  if(_libtorch_reuse)
    set(LibTorch_torch_cpu_LIBRARY "${_libtorch_location}")
    _libtorch_reuse_torch()
  else()
    _libtorch_version_fits("${LibTorch_VERSION}" _libtorch_fits)
    # A script only asks where LibTorch is: it can have no targets.
    if(_libtorch_fits AND NOT CMAKE_SCRIPT_MODE_FILE)
      _libtorch_add_cpu()
      if(LibTorch_FIND_COMPONENTS)
        _libtorch_add_cuda_runtime()
      endif()
      if("CUDA" IN_LIST LibTorch_FIND_COMPONENTS)
        _libtorch_add_cuda()
      endif()
    else()
      set(LibTorch_torch_cpu_LIBRARY "unused")
    endif()
  endif()
endif()

if(LibTorch_ROOT_DIR)
  _libtorch_version_fits("${LibTorch_VERSION}" _libtorch_fits)
  set(LibTorch_NOT_FOUND_REASON "")
  if(NOT _libtorch_fits)
    string(REPLACE "...<" " to below " _libtorch_range "${LibTorch_FIND_VERSION_COMPLETE}")
    string(CONCAT LibTorch_NOT_FOUND_REASON
           "LibTorch ${LibTorch_VERSION} in ${LibTorch_ROOT_DIR} is not supported: its version must "
           "be ${_libtorch_range}.")
  elseif("CUDA" IN_LIST LibTorch_FIND_COMPONENTS AND NOT LibTorch_CUDA_FOUND)
    string(CONCAT LibTorch_NOT_FOUND_REASON
           "LibTorch in ${LibTorch_ROOT_DIR} has no CUDA: ${LibTorch_CUDA_MISSING}.")
  endif()
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS LibTorch_ROOT_DIR LibTorch_torch_cpu_LIBRARY
  VERSION_VAR LibTorch_VERSION
  HANDLE_VERSION_RANGE HANDLE_COMPONENTS
  REASON_FAILURE_MESSAGE "${LibTorch_NOT_FOUND_REASON}")
unset(_libtorch_fits)
unset(_libtorch_location)
unset(_libtorch_range)
unset(_libtorch_reuse)
