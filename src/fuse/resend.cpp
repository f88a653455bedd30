// SPDX-License-Identifier: Apache-2.0
// Alone in its file, so that a test can link a program as on an older kernel.
#include "fuse/resend.h"

#include <linux/fuse.h>
#include <unistd.h>

namespace reshardfs {

bool resend_requests(int fuse) noexcept {
  // FUSE_NOTIFY_RESEND, which the headers of older kernels lack.
  constexpr int kResend = 7;
  fuse_out_header message{};
  message.len = sizeof message;
  message.error = kResend;
  return ::write(fuse, &message, sizeof message) == sizeof message;
}

}  // namespace reshardfs
