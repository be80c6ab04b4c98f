# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# Read by cpack for each generator. REPRISE_PACKAGE_BUILDS: the build folders whose installations
# make up the package, separated by semicolons; without it, the one that cpack runs in.

if(REPRISE_PACKAGE_BUILDS)
  set(CPACK_INSTALL_CMAKE_PROJECTS "")
  foreach(build IN LISTS REPRISE_PACKAGE_BUILDS)
    list(APPEND CPACK_INSTALL_CMAKE_PROJECTS "${build};reprise;Unspecified;/")
    # A package of Debian depends on Debian's libraries; an archive has to bring its own.
    if(NOT CPACK_GENERATOR STREQUAL "DEB")
      list(APPEND CPACK_INSTALL_CMAKE_PROJECTS "${build};reprise;bundled;/")
    endif()
  endforeach()
endif()
if(CPACK_GENERATOR STREQUAL "DEB")
  set(CPACK_PACKAGING_INSTALL_PREFIX "/usr")
endif()
