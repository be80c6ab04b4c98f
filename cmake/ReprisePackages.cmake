# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# The packages that cpack makes of one build; tools/package makes those with shared and static
# libraries of two. Included after RepriseInstall, which sets libtorch_minor.

if(NOT REPRISE_INSTALL OR NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

set(CPACK_GENERATOR TGZ DEB)
set(CPACK_PACKAGE_VENDOR "The Reprise Authors")
set(CPACK_PACKAGE_CONTACT "The Reprise Authors <reprise@users.noreply.github.com>")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_STRIP_FILES OFF)
set(CPACK_VERBATIM_VARIABLES ON)
string(TOLOWER "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}" platform)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_PACKAGE_FILE_NAME "reprise-${PROJECT_VERSION}-torch${libtorch_minor}-${platform}")

# LibTorch is no package of Debian's; the rest is looked up from the libraries.
set(CPACK_DEBIAN_PACKAGE_NAME "libreprise-dev")
set(CPACK_DEBIAN_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "${PROJECT_DESCRIPTION}
 Headers, shared and static libraries, built with LibTorch ${libtorch_minor}, which is needed
 besides: an unpacked LibTorch, or the torch package of a Python.")
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${LibTorch_ROOT_DIR}/lib")
# Those that programs with the static libraries link.
set(CPACK_DEBIAN_PACKAGE_DEPENDS "libabsl-dev, libxxhash-dev, liblz4-dev, libzstd-dev")
set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/cmake/package_generator.cmake")
include(CPack)
