# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# A script: lists the suites of a GoogleTest program and writes a file for ctest with one test for
# each; one whose cases are all skipped is reported as skipped. Run after the program has been linked:
#
#   cmake -DPROGRAM=engine_test -DOUTPUT=engine_test_suites.cmake "-DPROPERTIES=TIMEOUT 300"
#     -P AddSuites.cmake

execute_process(COMMAND "${PROGRAM}" --gtest_list_tests
  OUTPUT_VARIABLE list RESULT_VARIABLE failure TIMEOUT 180)
if(failure)
  message(FATAL_ERROR "${PROGRAM} --gtest_list_tests failed: ${failure}\n${list}")
endif()

# Suites start in the first column: "Suite.", "Values/Suite.", "Suite.  # TypeParam = float".
string(REGEX MATCHALL "\n[A-Za-z0-9_/]+\\.[^\n]*" suites "\n${list}")
get_filename_component(program "${PROGRAM}" NAME)
set(lines "")
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "^\n([A-Za-z0-9_/]+)\\..*" "\\1" suite "${suite}")
  string(APPEND lines
    "add_test(${program}.${suite} \"${PROGRAM}\" --gtest_brief=1 \"--gtest_filter=${suite}.*\")\n"
    "set_tests_properties(${program}.${suite} PROPERTIES SKIP_RETURN_CODE 77 ${PROPERTIES})\n")
endforeach()
if(NOT lines)
  message(FATAL_ERROR "${PROGRAM} has no tests")
endif()
file(WRITE "${OUTPUT}" "${lines}")
