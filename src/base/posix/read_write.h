// SPDX-License-Identifier: Apache-2.0
/// Reading and writing to the end, through signals. What returns an int returns 0, or the error
/// number.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace reshardfs {

/// Reads from a file at an offset, in bytes, until `out` is full or the file ends.
/// @return how many bytes it has read; nothing, with errno, if it cannot be read.
std::optional<std::size_t> read_fully(int file, std::uint64_t offset,
                                      std::span<std::byte> out) noexcept;

/// Fills all of them, one after the other, from an offset on.
/// @param buffers is changed.
/// @return EBADMSG if the file ends before.
int read_fully(int file, std::uint64_t offset, std::span<iovec> buffers) noexcept;

/// Adds what comes until the file, the pipe or the socket ends.
/// @param most bytes in `text` with which it stops, too. @throws std::bad_alloc
int read_to_end(int file, std::string& text,
                std::size_t most = std::numeric_limits<std::size_t>::max());

int write_fully(int file, std::uint64_t offset, std::span<const std::byte> bytes) noexcept;

/// Where the file stands.
int write_all(int file, std::string_view bytes) noexcept;

/// All of a small file, such as those in /proc, whose size is unknown before they are read.
/// @return what could be read of it; empty, with errno, if it cannot be opened.
std::string text_of_file(const std::filesystem::path& path);
/// Its first line.
std::string first_line_of(const std::filesystem::path& path);

}  // namespace reshardfs
