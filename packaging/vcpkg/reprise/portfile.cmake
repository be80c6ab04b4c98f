# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# An overlay port of this repository: vcpkg install reprise --overlay-ports=packaging/vcpkg
#
# LibTorch is the one in the environment variable REPRISE_LIBTORCH (add it to vcpkg's
# --x-env-passthrough or a triplet's VCPKG_ENV_PASSTHROUGH), else the active Python's.

get_filename_component(SOURCE_PATH "${CURRENT_PORT_DIR}/../../.." ABSOLUTE)
set(libtorch "")
if(DEFINED ENV{REPRISE_LIBTORCH})
  set(libtorch "-DREPRISE_LIBTORCH=$ENV{REPRISE_LIBTORCH}")
endif()
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS
    -DREPRISE_BUILD_TESTS=OFF
    -DREPRISE_BUILD_EXAMPLES=OFF
    -DREPRISE_BUILD_BENCH=OFF
    -DREPRISE_WERROR=OFF
    ${libtorch})
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/reprise)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
