// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string_view>

namespace reshardfs {

/// Stands for the identity of an object: all that tells its bytes from the bytes of any other
/// object, and of itself at any other time. Of a remote object: its full URL, version id, strong
/// ETag and size; of a local file: its file system's id, path, inode, size and both times. Separate
/// the parts so that no two lists of parts make the same text. Making one costs some microseconds,
/// so keep it as long as the object; copying it costs nothing.
class ObjectKey {
 public:
  using Digits = std::array<char, 64>;

  /// @param identity any bytes.
  explicit ObjectKey(std::string_view identity);

  /// The identity's SHA-256: no two identities have the same one.
  const Digits& digits() const noexcept { return digits_; }

  bool operator==(const ObjectKey&) const = default;

 private:
  Digits digits_{};
};

}  // namespace reshardfs
