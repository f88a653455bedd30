// SPDX-License-Identifier: Apache-2.0
#include "base/posix/read_write.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "base/posix/descriptor.h"

namespace reshardfs {

std::optional<std::size_t> read_fully(int file, std::uint64_t offset,
                                      std::span<std::byte> out) noexcept {
  std::size_t done = 0;
  while (done < out.size()) {
    const ssize_t got =
        ::pread(file, out.data() + done, out.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

int read_fully(int file, std::uint64_t offset, std::span<iovec> buffers) noexcept {
  while (!buffers.empty()) {
    const ssize_t got = ::preadv(file, buffers.data(), static_cast<int>(buffers.size()),
                                 static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno;
    auto left = static_cast<std::size_t>(got);
    offset += left;
    const bool ended = got == 0;
    while (!buffers.empty() && left >= buffers.front().iov_len) {
      left -= buffers.front().iov_len;
      buffers = buffers.subspan(1);
    }
    if (buffers.empty()) return 0;
    if (ended) return EBADMSG;
    iovec& first = buffers.front();
    first.iov_base = static_cast<std::byte*>(first.iov_base) + left;
    first.iov_len -= left;
  }
  return 0;
}

int read_to_end(int file, std::string& text, std::size_t most) {
  std::array<char, 16 << 10> buffer{};
  while (text.size() < most) {
    const ssize_t got = ::read(file, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return got < 0 ? errno : 0;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return 0;
}

int write_fully(int file, std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(file, bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : ENOSPC;
    offset += static_cast<std::uint64_t>(count);
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return 0;
}

int write_all(int file, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t count = ::write(file, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return count < 0 ? errno : ENOSPC;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return 0;
}

std::string text_of_file(const std::filesystem::path& path) {
  std::string text;
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file) static_cast<void>(read_to_end(file.get(), text));
  return text;
}

std::string first_line_of(const std::filesystem::path& path) {
  const std::string text = text_of_file(path);
  return text.substr(0, text.find('\n'));
}

}  // namespace reshardfs
