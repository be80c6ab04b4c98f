# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# Run by the commands in tools/: prints the folder of the LibTorch that the build will use, or why
# there is none.

cmake_minimum_required(VERSION 3.25)
list(APPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}/../cmake")
include(RepriseLibTorch)
find_package(LibTorch ${REPRISE_LIBTORCH_RANGE} QUIET)
if(LibTorch_FOUND)
  set(answer "${LibTorch_ROOT_DIR}")
else()
  set(answer "${LibTorch_NOT_FOUND_REASON}")
endif()
execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "${answer}")
