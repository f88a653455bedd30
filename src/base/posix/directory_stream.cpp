// SPDX-License-Identifier: Apache-2.0
#include "base/posix/directory_stream.h"

#include <cerrno>
#include <string_view>

namespace reshardfs {

DirectoryStream::DirectoryStream(Descriptor directory) noexcept
    : stream_(directory ? ::fdopendir(directory.get()) : nullptr) {
  if (stream_) static_cast<void>(directory.release());
}

const dirent* DirectoryStream::next() noexcept {
  for (;;) {
    errno = 0;  // the only way to tell the end from an error
    const dirent* const entry = ::readdir(stream_.get());
    if (entry == nullptr) return nullptr;
    const std::string_view name = static_cast<const char*>(entry->d_name);
    if (name != "." && name != "..") return entry;
  }
}

}  // namespace reshardfs
