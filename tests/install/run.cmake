# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors

# Run by ctest: installs into a fresh prefix, then configures, builds and runs the consumer.

cmake_minimum_required(VERSION 3.25)

function(run)
  list(JOIN ARGV " " line)
  message(STATUS "${line}")
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "failed (${result}): ${line}")
  endif()
endfunction()

set(prefix "${WORK_DIR}/prefix")
set(build "${WORK_DIR}/build")
file(REMOVE_RECURSE "${WORK_DIR}")
run("${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${prefix}" --config "${CONFIG}")

# All that is installed for inclusion, in one source: a public header that needs one which is not
# installed does not compile.
file(GLOB headers RELATIVE "${prefix}/include" "${prefix}/include/reprise/*.h"
     "${prefix}/include/reprise/*/*.h")
if(NOT headers)
  message(FATAL_ERROR "nothing was installed below ${prefix}/include/reprise")
endif()
set(all_headers "${WORK_DIR}/all_headers.cpp")
list(TRANSFORM headers REPLACE "(.+)" "#include \"\\1\"\n")
list(JOIN headers "" text)
file(WRITE "${all_headers}" "${text}")

run("${CMAKE_COMMAND}" -S "${CONSUMER_DIR}" -B "${build}" -G "${GENERATOR}"
    "-DCMAKE_BUILD_TYPE=${CONFIG}" "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}"
    "-DCMAKE_PREFIX_PATH=${prefix}" "-DREPRISE_LIBTORCH=${LIBTORCH}"
    "-DREPRISE_LINKAGE=${LINKAGE}" "-DCONSUMER_EXTRA_SOURCES=${all_headers}")
run("${CMAKE_COMMAND}" --build "${build}" --config "${CONFIG}")
run("${build}/consumer")

# A component that is not installed is an error that names those that are.
foreach(component IN ITEMS shared static)
  if(NOT component STREQUAL LINKAGE)
    execute_process(
      COMMAND "${CMAKE_COMMAND}" -S "${CONSUMER_DIR}" -B "${build}-${component}" -G "${GENERATOR}"
              "-DCMAKE_CXX_COMPILER=${CXX_COMPILER}" "-DCMAKE_PREFIX_PATH=${prefix}"
              "-DREPRISE_LIBTORCH=${LIBTORCH}" "-DREPRISE_LINKAGE=${component}"
      RESULT_VARIABLE result ERROR_VARIABLE errors OUTPUT_QUIET)
    string(REGEX REPLACE "[ \n]+" " " errors "${errors}")
    if(result EQUAL 0 OR NOT errors MATCHES "has no component ${component}, only ${LINKAGE}")
      message(FATAL_ERROR "no error for the missing component ${component}: ${errors}")
    endif()
  endif()
endforeach()

if(PKG_CONFIG)
  set(ENV{PKG_CONFIG_PATH} "${prefix}/${LIB_DIR}/pkgconfig")
  execute_process(COMMAND "${PKG_CONFIG}" "--define-variable=libtorch=${LIBTORCH}" --cflags --libs reprise
                  OUTPUT_VARIABLE flags OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run("${CXX_COMPILER}" "${CONSUMER_DIR}/main.cpp" -o "${WORK_DIR}/by_pkg_config" ${flags})
  run("${WORK_DIR}/by_pkg_config")
endif()
