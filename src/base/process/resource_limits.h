// SPDX-License-Identifier: Apache-2.0
/// Limits of the process: which one may be the reason that the system gives it no more of
/// something, and how many files it may open.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>

namespace reshardfs {

enum class Resource : std::uint8_t {
  kThreads,    ///< threads and processes; memory for their stacks, too
  kMemory,     ///< of the process, or of its control group
  kOpenFiles,  ///< descriptors
  kFileSize,   ///< bytes of a file that it writes
  kStack,      ///< of a thread
};

/// For the hint of a message: "raise what limits it: ulimit -u (now 50), pids.max of the control
/// group /a/b (now 64)". If nothing limits it, it is the machine that has no more.
std::string limit_hint(Resource resource);

/// Why no thread could be started, and what to do.
/// @param error what std::thread has thrown: std::system_error, or std::bad_alloc.
std::string why_no_thread(const std::exception& error);

/// The same as limit_hint() for the error number of a call; empty for a number that tells of no
/// limit.
std::string limit_hint_of(int errno_value);

/// Bytes of memory that the process may use: the machine's, or what its control group allows.
std::uint64_t memory_size();

/// Whether the process may only have so many addresses (ulimit -v).
bool is_address_space_limited() noexcept;

/// Makes room for `files` more open files: raises the soft limit to the hard one if it is too low.
/// Never fails: if the hard limit is too low as well, sources share descriptors.
void raise_open_file_limit(std::size_t files) noexcept;

/// How many files the process may have open.
std::size_t open_file_limit() noexcept;

}  // namespace reshardfs
