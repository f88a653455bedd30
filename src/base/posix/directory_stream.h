// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <dirent.h>

#include <memory>
#include <vector>

#include "base/posix/descriptor.h"

namespace reshardfs {

/// The entries of an open directory, in no order. For one thread.
class DirectoryStream {
 public:
  /// @param directory opened for reading, or none. See operator bool.
  explicit DirectoryStream(Descriptor directory) noexcept;

  /// False, with errno after the constructor, if there is none, or no memory for it.
  explicit operator bool() const noexcept { return stream_ != nullptr; }
  int descriptor() const noexcept { return ::dirfd(stream_.get()); }
  /// The next one but "." and "..", until the next call.
  /// @return nullptr at the end, with errno 0, or with another errno where it cannot be read.
  const dirent* next() noexcept;

 private:
  struct Close {
    void operator()(DIR* stream) const noexcept { ::closedir(stream); }
  };

  std::unique_ptr<DIR, Close> stream_;
};

/// The numbers of this process's descriptors, those that were open for a moment among them; empty
/// if the system does not tell. @throws std::bad_alloc
std::vector<int> open_descriptors();

}  // namespace reshardfs
