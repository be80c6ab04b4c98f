# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# The functions that make the library's components, its tests, benchmarks and examples.

# Gives `target` the warnings that code of ours is held to.
function(reprise_warnings target)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic)
  # Clang blames a program for what libstdc++ 12 itself deprecates and calls, in std::stable_sort();
  # GCC checks for calls of deprecated functions.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>)
  if(REPRISE_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
endfunction()

# Makes `link` a symbolic link to the folder or file `to`.
function(_reprise_link to link)
  cmake_path(GET link PARENT_PATH parent)
  file(MAKE_DIRECTORY "${parent}")
  file(CREATE_LINK "${to}" "${link}" SYMBOLIC)
endfunction()

if(BUILD_SHARED_LIBS)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/reprise.map.in" "${PROJECT_BINARY_DIR}/package/reprise.map"
                 @ONLY)
endif()

# Exports the interface under a version of its own, so that two versions in one process do not
# replace each other's symbols, and nothing else: no instantiations of the standard library's templates.
function(_reprise_version_symbols target)
  set(script "${PROJECT_BINARY_DIR}/package/reprise.map")
  target_link_options(${target} PRIVATE "LINKER:--version-script=${script}")
  set_target_properties(${target} PROPERTIES LINK_DEPENDS "${script}")
  if(REPRISE_BUNDLE_DEPENDENCIES)
    # DT_RPATH, unlike DT_RUNPATH, holds for the dependencies of dependencies.
    target_link_options(${target} PRIVATE "LINKER:--disable-new-dtags")
  endif()
endfunction()

# reprise_component(NAME rng
#   SOURCES rng_state.cpp
#   PUBLIC_HEADERS rng_state.h
#   INSTALLED_PRIVATE_HEADERS cells/cell.h   # those that templates in public headers need
#   LINKS LibTorch::cpu                          # what the component's headers need
#   PRIVATE_LINKS absl::flat_hash_map            # what its sources need
#   PROGRAM_LINKS LibTorch::cuda)                # likewise, and programs link it as well
#
# Adds the library reprise_<name>, alias reprise::<name>. Its headers stand below an include root of
# its own, which only the targets that link the component get: an include against the direction of
# the layers does not compile.
function(reprise_component)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "NAME"
    "SOURCES;PUBLIC_HEADERS;INSTALLED_PRIVATE_HEADERS;LINKS;PRIVATE_LINKS;PROGRAM_LINKS")
  set(target reprise_${ARG_NAME})
  set(include_root "${PROJECT_BINARY_DIR}/include/${ARG_NAME}")
  _reprise_link("${CMAKE_CURRENT_SOURCE_DIR}" "${include_root}/reprise/${ARG_NAME}")

  add_library(${target} ${ARG_SOURCES} ${ARG_PUBLIC_HEADERS} ${ARG_INSTALLED_PRIVATE_HEADERS})
  add_library(reprise::${ARG_NAME} ALIAS ${target})
  reprise_warnings(${target})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${include_root}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(${target} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS} ${ARG_PROGRAM_LINKS})
  if(BUILD_SHARED_LIBS)  # static ones pass on all that they link
    list(TRANSFORM ARG_PROGRAM_LINKS REPLACE "(.+)" "$<LINK_ONLY:\\1>")
    target_link_libraries(${target} INTERFACE ${ARG_PROGRAM_LINKS})
  endif()
  set_target_properties(${target} PROPERTIES
    EXPORT_NAME ${ARG_NAME}
    LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
    INSTALL_RPATH "$ORIGIN"
    REPRISE_PUBLIC_HEADERS "${ARG_PUBLIC_HEADERS}")
  if(NOT DEFINED CMAKE_UNITY_BUILD)  # LibTorch's headers are most of what there is to compile
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  endif()
  if(BUILD_SHARED_LIBS)
    _reprise_version_symbols(${target})
  endif()
  set_property(GLOBAL APPEND PROPERTY REPRISE_COMPONENTS ${ARG_NAME})

  if(REPRISE_INSTALL)
    install(TARGETS ${target} EXPORT repriseTargets
            RUNTIME_DEPENDENCY_SET reprise_dependencies)
    set(destination "${CMAKE_INSTALL_INCLUDEDIR}/reprise/${ARG_NAME}")
    install(FILES ${ARG_PUBLIC_HEADERS} DESTINATION "${destination}")
    foreach(header IN LISTS ARG_INSTALLED_PRIVATE_HEADERS)
      cmake_path(GET header PARENT_PATH room)
      install(FILES "${header}" DESTINATION "${destination}/${room}")
    endforeach()
  endif()
endfunction()

# reprise_umbrella(HEADER reprise.h LINKS reprise::engine)
#
# Adds reprise::reprise, the target that users link, with its header "reprise/<HEADER>"; and
# reprise_libraries, which builds all that is installed.
function(reprise_umbrella)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "HEADER" "LINKS")
  set(include_root "${PROJECT_BINARY_DIR}/include/umbrella")
  _reprise_link("${CMAKE_CURRENT_SOURCE_DIR}/${ARG_HEADER}" "${include_root}/reprise/${ARG_HEADER}")
  add_library(reprise_reprise INTERFACE)
  add_library(reprise::reprise ALIAS reprise_reprise)
  target_include_directories(reprise_reprise INTERFACE
    "$<BUILD_INTERFACE:${include_root}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(reprise_reprise INTERFACE ${ARG_LINKS})
  set_target_properties(reprise_reprise PROPERTIES EXPORT_NAME reprise)
  get_property(components GLOBAL PROPERTY REPRISE_COMPONENTS)
  list(TRANSFORM components PREPEND reprise_)
  add_custom_target(reprise_libraries DEPENDS ${components})
  if(REPRISE_INSTALL)
    install(TARGETS reprise_reprise EXPORT repriseTargets)
    install(FILES ${ARG_HEADER} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/reprise")
  endif()
endfunction()

# Links into `target` what makes LibTorch's kernels run: on the CPU, and on CUDA where it is built.
function(reprise_link_kernels target)
  target_link_libraries(${target} PRIVATE LibTorch::cpu)
  if(REPRISE_HAS_CUDA)
    target_link_libraries(${target} PRIVATE LibTorch::cuda)
  endif()
endfunction()

# reprise_test(NAME rng_test SOURCES rng/rng_state_test.cpp LINKS reprise::rng
#              LABELS unit TIMEOUT 120 PROCESSORS 2 SANITIZED_FILTER "-*Slow*" SANITIZED_SHARDS 2)
#
# Adds a GoogleTest program, one ctest test per suite. With a sanitizer, one ctest test for all, or
# for those of SANITIZED_FILTER; or SANITIZED_SHARDS tests with as many cases each.
# Its sources see torch/torch.h and gtest/gtest.h precompiled, once for all test programs.
function(reprise_test)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "NAME;TIMEOUT;PROCESSORS;SANITIZED_FILTER;SANITIZED_SHARDS"
    "SOURCES;LINKS;LABELS")
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)
  endif()
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  reprise_warnings(${ARG_NAME})
  target_link_libraries(${ARG_NAME} PRIVATE ${ARG_LINKS} reprise_testing)
  reprise_link_kernels(${ARG_NAME})
  target_precompile_headers(${ARG_NAME} REUSE_FROM reprise_test_pch)
  # A source costs a quarter of a minute before its first line: several share that. Each has a
  # namespace of its own.
  set_target_properties(${ARG_NAME} PROPERTIES
    UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE "${REPRISE_TEST_BATCH}")
  # Threads that wait by spinning slow each other down where tests run side by side.
  set(environment "OMP_WAIT_POLICY=passive")
  if(REPRISE_SANITIZER)
    set(defaults "${PROJECT_SOURCE_DIR}/tests/sanitizer_defaults.cpp")
    target_sources(${ARG_NAME} PRIVATE "${defaults}")
    set_source_files_properties("${defaults}" PROPERTIES
      SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
    # Loading LibTorch takes a sanitized program longer than most cases do: all in one process.
    set(filter "")
    if(ARG_SANITIZED_FILTER)
      set(filter "--gtest_filter=${ARG_SANITIZED_FILTER}")
    endif()
    if(NOT ARG_SANITIZED_SHARDS)
      set(ARG_SANITIZED_SHARDS 1)
    endif()
    foreach(shard RANGE 1 ${ARG_SANITIZED_SHARDS})
      math(EXPR index "${shard} - 1")
      set(test "${ARG_NAME}.${shard}")
      add_test(NAME ${test} COMMAND ${ARG_NAME} --gtest_brief=1 ${filter})
      set_tests_properties(${test} PROPERTIES
        LABELS "${ARG_LABELS}" TIMEOUT 1800 PROCESSORS ${ARG_PROCESSORS} SKIP_RETURN_CODE 77
        ENVIRONMENT
          "${environment};GTEST_TOTAL_SHARDS=${ARG_SANITIZED_SHARDS};GTEST_SHARD_INDEX=${index};\
GTEST_OUTPUT=xml:${CMAKE_CURRENT_BINARY_DIR}/reports/${test}.xml")
    endforeach()
    return()
  endif()
  # One ctest test per suite: loading LibTorch takes longer than most cases do.
  set(suites "${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}_suites.cmake")
  string(JOIN " " properties LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    PROCESSORS ${ARG_PROCESSORS} ENVIRONMENT "${environment}")
  add_custom_command(TARGET ${ARG_NAME} POST_BUILD VERBATIM
    COMMAND "${CMAKE_COMMAND}" "-DPROGRAM=$<TARGET_FILE:${ARG_NAME}>" "-DOUTPUT=${suites}"
      "-DPROPERTIES=${properties}" -P "${PROJECT_SOURCE_DIR}/cmake/AddSuites.cmake")
  # The program may not have been built when ctest reads this.
  set(include "${CMAKE_CURRENT_BINARY_DIR}/${ARG_NAME}_include.cmake")
  file(WRITE "${include}" "if(EXISTS \"${suites}\")
  include(\"${suites}\")
else()
  add_test(${ARG_NAME}_NOT_BUILT ${ARG_NAME}_NOT_BUILT)
endif()
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${include}")
endfunction()

# Shows torch/torch.h precompiled, once for all benchmarks and examples, to `target`, which is linked
# into programs only. A program is built otherwise than a library where position independence is asked
# for, and a precompiled header serves targets built alike only.
function(reprise_precompile_torch target)
  if(NOT TARGET reprise_program_pch)
    add_library(reprise_program_pch OBJECT "${PROJECT_SOURCE_DIR}/cmake/precompiled.cpp")
    target_precompile_headers(reprise_program_pch PRIVATE <torch/torch.h>)
    reprise_warnings(reprise_program_pch)  # -Wpedantic changes GCC's predefined macros
    reprise_link_kernels(reprise_program_pch)
    set_target_properties(reprise_program_pch PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
  target_precompile_headers(${target} REUSE_FROM reprise_program_pch)
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
endfunction()

# reprise_bench(NAME scaling SOURCES scaling.cpp LINKS benchmark::benchmark)
#
# Adds a benchmark program, which gets all of Reprise.
function(reprise_bench)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "NAME" "SOURCES;LINKS")
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  reprise_warnings(${ARG_NAME})
  target_include_directories(${ARG_NAME} PRIVATE "${PROJECT_BINARY_DIR}/include/bench")
  target_link_libraries(${ARG_NAME} PRIVATE reprise::reprise ${ARG_LINKS})
  reprise_link_kernels(${ARG_NAME})
  reprise_precompile_torch(${ARG_NAME})
endfunction()

# reprise_example(FOLDER 01_char_gpt TEST_TARGET char_gpt TEST_ARGUMENTS --steps 2)
#
# Adds an example, a project that stands on its own and finds reprise with find_package(), and, with
# the tests on, a test that runs its program once.
function(reprise_example)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "" "FOLDER;TEST_TARGET" "TEST_ARGUMENTS")
  set(reprise_DIR "${PROJECT_SOURCE_DIR}/cmake/in_tree")
  add_subdirectory(${ARG_FOLDER})
  get_property(programs DIRECTORY ${ARG_FOLDER} PROPERTY BUILDSYSTEM_TARGETS)
  foreach(program IN LISTS programs)
    reprise_precompile_torch(${program})
  endforeach()
  if(REPRISE_BUILD_TESTS AND ARG_TEST_TARGET)
    add_test(NAME example.${ARG_TEST_TARGET} COMMAND ${ARG_TEST_TARGET} ${ARG_TEST_ARGUMENTS})
    set_tests_properties(example.${ARG_TEST_TARGET} PROPERTIES LABELS example TIMEOUT 300)
  endif()
endfunction()
