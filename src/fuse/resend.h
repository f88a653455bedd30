// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reshardfs {

/// Asks the kernel to hand out once more all requests that a process has taken and not answered
/// (FUSE_NOTIFY_RESEND; Linux 6.9). Then they are new requests, whose old numbers nobody waits for.
/// @return whether it does.
bool resend_requests(int fuse) noexcept;

}  // namespace reshardfs
