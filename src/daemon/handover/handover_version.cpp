// SPDX-License-Identifier: Apache-2.0
// Alone in its file, so that a test can link a program of another version.
#include "daemon/handover/handover_state.h"

namespace reshardfs {

HandoverVersions handover_versions() noexcept {
  return {.oldest = 2, .newest = 2};
}

}  // namespace reshardfs
