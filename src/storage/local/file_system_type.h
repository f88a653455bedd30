// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace reshardfs {

/// Whether a file system of this type (statfs(2), f_type) waits for a network or another process.
bool is_remote_type(unsigned long file_system_type) noexcept;

/// The type of a file system in `info.f_type`: the field is signed, and so widened with its sign on
/// some machines.
template <typename Statfs>
unsigned long type_of(const Statfs& info) noexcept {
  return static_cast<unsigned long>(info.f_type) & 0xFFFFFFFFUL;
}

}  // namespace reshardfs
