// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reshardfs {

/// For a process that lives long: what is freed goes back to the system sooner, at some cost in
/// time. To be called before there are other threads.
void keep_little_free_memory() noexcept;

/// Gives memory that was freed back to the system: after work that needs much for a while.
void return_free_memory() noexcept;

}  // namespace reshardfs
