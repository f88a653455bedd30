// SPDX-License-Identifier: Apache-2.0
#include "base/posix/directory_stream.h"

#include <fcntl.h>

#include <cerrno>
#include <string_view>

#include "base/text/numbers.h"

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

std::vector<int> open_descriptors() {
  std::vector<int> all;
  DirectoryStream list(Descriptor(::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  if (!list) return all;
  while (const dirent* entry = list.next()) {
    if (const auto number = parse_number<int>(entry->d_name)) all.push_back(*number);
  }
  return all;
}

}  // namespace reshardfs
