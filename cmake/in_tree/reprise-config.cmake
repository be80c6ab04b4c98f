# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
#
# What find_package(reprise) finds inside Reprise's own build, where the targets exist already.

set(reprise_FOUND TRUE)
