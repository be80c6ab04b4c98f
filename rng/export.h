// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#ifndef REPRISE_RNG_EXPORT_H_
#define REPRISE_RNG_EXPORT_H_

// Marks what a shared build exports; everything else is hidden. The same definition stands in
// reprise/hooks/export.h, because neither component sees the other's headers.
#ifndef REPRISE_API
#define REPRISE_API [[gnu::visibility("default")]]
#endif

#endif  // REPRISE_RNG_EXPORT_H_
