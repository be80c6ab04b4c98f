// SPDX-License-Identifier: Apache-2.0
// Copyright 2026 The Reprise Authors
#include <c10/util/Exception.h>

#include "reprise/partition/backends/backends.h"

namespace reprise::partition_internal {

bool has_gloo_backend() { return false; }

c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const Meeting& /*meeting*/) {
  C10_THROW_ERROR(NotImplementedError,
                  "[partition] Gloo is not available: Reprise was built without it; install Gloo's "
                  "headers (Debian: libgloo-dev) and build with REPRISE_WITH_GLOO=ON");
}

}  // namespace reprise::partition_internal
