// SPDX-License-Identifier: Apache-2.0
/// The one exception type of reshardfs.
///
/// It is thrown where a problem is found. Callers may add context while it propagates. Two places
/// catch it: the command line (one line on standard error and an exit code) and the FUSE adapter
/// (an errno and one log line).
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>

#include "reshardfs/export.h"
#include "reshardfs/rank.h"

namespace reshardfs {

/// The kind of problem, which decides the exit code and the errno.
enum class ErrorKind : std::uint8_t {
  kUsage,        ///< the command line or the configuration is wrong (exit code 2)
  kBadInput,     ///< a file or a strategy says something impossible (exit code 2, EIO)
  kMissing,      ///< a required file or other thing does not exist (exit code 2, ENOENT)
  kUnsupported,  ///< valid, but reshardfs cannot do it (exit code 2, EOPNOTSUPP)
  kIo,           ///< the operating system failed (exit code 3, its own errno)
  kChanged,      ///< a source file changed while it was in use (exit code 3, ESTALE)
  kInternal,     ///< a bug in reshardfs (exit code 3, EIO)
};

/// What the caller lacks. A program that knows more than the message may find it.
enum class Need : std::uint8_t {
  kNothing,
  kSource,          ///< a checkpoint: the path is something else
  kArgument,        ///< an argument or an option of a command
  kMountpoint,      ///< a directory to mount on: the path cannot be one as it is
  kSourceStrategy,  ///< a strategy that states how the ranks' slices were cut
};

class RESHARDFS_EXPORT Error : public std::exception {
 public:
  /// @param message what was found, and what was expected; without a full stop at its end.
  Error(ErrorKind kind, std::string message);

  /// Each of these adds context and returns *this, for use in a throw expression:
  ///   throw Error(ErrorKind::kBadInput, "...").in_file(path).at_offset(17).hint("...");
  /// The innermost context wins: a field that is already set is kept.
  Error& in_file(const std::string& path);
  Error& at_offset(std::uint64_t bytes);
  Error& for_parameter(const std::string& name);
  Error& for_rank(Rank rank);
  Error& hint(std::string what_to_do);
  Error& os_error(int errno_value);
  Error& needs(Need need) noexcept;
  /// Appends `more` to the message, for details that only a caller knows.
  Error& explain(const std::string& more);

  ErrorKind kind() const noexcept { return kind_; }
  Need need() const noexcept { return need_; }
  /// The operating system's error number, or 0.
  int os_error() const noexcept { return os_error_; }
  const std::string& file() const noexcept { return file_; }
  const std::string& parameter() const noexcept { return parameter_; }
  const std::string& message() const noexcept { return message_; }
  /// What to do about it; empty if that is not known.
  const std::string& hint() const noexcept { return hint_; }
  std::optional<Rank> rank() const noexcept { return rank_; }
  /// Byte offset in file(), if the error is about a place in that file.
  std::optional<std::uint64_t> offset() const noexcept { return offset_; }

  /// One line: `FILE: offset N: parameter 'P': message; hint`. Control characters are escaped.
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  void compose();

  ErrorKind kind_;
  Need need_ = Need::kNothing;
  int os_error_ = 0;
  std::optional<std::uint64_t> offset_;
  std::optional<Rank> rank_;
  std::string message_;
  std::string file_;
  std::string parameter_;
  std::string hint_;
  std::string text_;
};

/// An I/O error from errno: "cannot <action>: <strerror>". If the error means that a limit of the
/// process was reached, the hint names that limit.
RESHARDFS_EXPORT Error io_error(const std::string& action, const std::string& path,
                                int errno_value);

/// `text` with control characters, quotes and invalid UTF-8 escaped, cut after 200 bytes. For names
/// from files in messages and logs.
RESHARDFS_EXPORT std::string printable(const std::string& text);

}  // namespace reshardfs
