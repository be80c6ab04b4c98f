# SPDX-License-Identifier: Apache-2.0
# Copyright 2026 The Reprise Authors
"""Runs linkchecker with all rights of its user: another user may not be able to read the site.

Usage: check_site.py [arguments of linkchecker]
"""

from linkcheck.command import linkchecker

linkchecker.drop_privileges = lambda: None

if __name__ == "__main__":
    linkchecker.linkchecker()
