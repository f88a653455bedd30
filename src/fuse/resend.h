// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reshardfs {

/// Asks the kernel to send again all requests that a process took and did not answer
/// (FUSE_NOTIFY_RESEND; Linux 6.9). They get new numbers, and the old ones are no longer valid.
/// @return whether it does.
bool resend_requests(int fuse) noexcept;

}  // namespace reshardfs
