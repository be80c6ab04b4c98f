// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
//
// File: export.h
//
// Marks the declarations that a shared build exports; all others are hidden, but for the classes
// within an exported one, which are marked REPRISE_LOCAL to be so.
#ifndef REPRISE_BASE_EXPORT_H_
#define REPRISE_BASE_EXPORT_H_

#ifndef REPRISE_API
#define REPRISE_API [[gnu::visibility("default")]]
#endif

#ifndef REPRISE_LOCAL
#define REPRISE_LOCAL [[gnu::visibility("hidden")]]
#endif

#endif  // REPRISE_BASE_EXPORT_H_
