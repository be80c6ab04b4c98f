# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# The options of the build, and what they mean for every target of ours.

option(BUILD_SHARED_LIBS "Build shared libraries" OFF)
option(REPRISE_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(REPRISE_BUILD_EXAMPLES "Build the examples" ${PROJECT_IS_TOP_LEVEL})
option(REPRISE_BUILD_BENCH "Build the benchmarks" ${PROJECT_IS_TOP_LEVEL})
option(REPRISE_BUILD_PYTHON "Build the Python package, for the Python that is found" OFF)
option(REPRISE_INSTALL "Generate the install rules" ${PROJECT_IS_TOP_LEVEL})
option(REPRISE_BUNDLE_DEPENDENCIES
       "Install the shared libraries of abseil, xxHash, LZ4 and Zstandard beside shared ones of ours" OFF)
option(REPRISE_WERROR "Treat compiler warnings as errors" ${PROJECT_IS_TOP_LEVEL})

set(REPRISE_SANITIZER "" CACHE STRING
    "Sanitizers to build with: address, undefined, address,undefined or thread")
set_property(CACHE REPRISE_SANITIZER PROPERTY STRINGS
             "" "address" "undefined" "address,undefined" "thread")

set(REPRISE_TEST_BATCH 6 CACHE STRING
    "Sources of tests that are compiled as one: more take less time altogether, and longer after a change")

option(REPRISE_FUZZ "Of the tests, build the fuzz targets alone, with libFuzzer: needs Clang" OFF)

set(REPRISE_PROFILE "" CACHE STRING
    "Profile-guided optimisation by GCC: GENERATE a profile in REPRISE_PROFILE_DIR, or USE it")
set_property(CACHE REPRISE_PROFILE PROPERTY STRINGS "" "GENERATE" "USE")
set(REPRISE_PROFILE_DIR "" CACHE PATH "Folder of the profile")

if(PROJECT_IS_TOP_LEVEL)
  if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
  endif()
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

  find_program(REPRISE_CCACHE ccache DOC "Compiler cache, used if found")
  if(REPRISE_CCACHE AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
    # ccache declines precompiled headers unless told that their defines and times may be trusted.
    set(CMAKE_CXX_COMPILER_LAUNCHER
        "${CMAKE_COMMAND}" -E env CCACHE_SLOPPINESS=pch_defines,time_macros "${REPRISE_CCACHE}")
  endif()
endif()

# One standard for the whole build; LibTorch's headers ask for it from 2.14 on.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

if(REPRISE_SANITIZER)
  # vptr needs type information that LibTorch, built with hidden visibility, does not export.
  set(_reprise_sanitize "-fsanitize=${REPRISE_SANITIZER}")
  if(REPRISE_SANITIZER MATCHES "undefined")
    list(APPEND _reprise_sanitize -fno-sanitize=vptr -fno-sanitize-recover=undefined)
  endif()
  add_compile_options(${_reprise_sanitize} -fno-omit-frame-pointer)
  add_link_options(${_reprise_sanitize})
endif()

if(REPRISE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    message(FATAL_ERROR "REPRISE_FUZZ needs Clang, whose libFuzzer it is")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# The profile names objects by their paths in the build folder: another build folder may use it.
if(REPRISE_PROFILE)
  if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU" OR NOT REPRISE_PROFILE_DIR)
    message(FATAL_ERROR "REPRISE_PROFILE needs GCC and REPRISE_PROFILE_DIR")
  endif()
  string(TOLOWER "${REPRISE_PROFILE}" _reprise_step)
  set(_reprise_profile "-fprofile-${_reprise_step}=${REPRISE_PROFILE_DIR}"
      "-fprofile-prefix-path=${CMAKE_BINARY_DIR}")
  if(REPRISE_PROFILE STREQUAL "GENERATE")
    list(APPEND _reprise_profile -fprofile-update=prefer-atomic)
  else()
    # Code that the profile has not seen, or that differs between versions of LibTorch, is no error.
    list(APPEND _reprise_profile -fprofile-correction -Wno-missing-profile -Wno-coverage-mismatch)
    set(REPRISE_WERROR OFF)
  endif()
  add_compile_options(${_reprise_profile})
  add_link_options(${_reprise_profile})
endif()
