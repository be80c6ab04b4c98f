// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors

// Empty: a target needs a source of its own to own a precompiled header.
