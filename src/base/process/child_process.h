// SPDX-License-Identifier: Apache-2.0
/// Child processes that run other programs, or this one.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace reshardfs {

/// How another program is started.
struct ProgramRun {
  std::string program;                ///< a path; without a slash, it is looked for in PATH
  std::vector<std::string> words;     ///< its arguments, the first of which is its name
  std::filesystem::path directory{};  ///< where it begins; empty: where this process is
  /// This process's descriptors, and which numbers they have in the program: one after the other,
  /// as dup2(2) has it.
  std::vector<std::pair<int, int>> descriptors{};
  /// It gets no others but the standard streams, even if a library forgot to mark one
  /// close-on-exec.
  bool closes_others = false;
  /// It blocks no signals, whatever this thread does.
  bool unblocks_signals = false;
};

struct Spawned {
  pid_t process = -1;
  int error = 0;  ///< why it was not started: that of the step that has failed
};

/// Starts a program. It ignores the signals that this process ignores. No handlers of fork(2) run,
/// and memory is not copied, so that a process with many threads and much memory may call it.
/// @throws std::bad_alloc
Spawned spawn(const ProgramRun& run);

/// Waits until a child process has ended, through signals too.
/// @param action "wait for ...", for the message. @param program that it runs; empty: this one.
/// @return its status as waitpid(2) gives it. @throws Error kIo if it is no child of this process.
int wait_for_end(pid_t child, const std::string& action, const std::string& program);

/// Waits for one byte on a pipe or socket. @return false if its other end was closed instead.
bool read_byte(int file) noexcept;

}  // namespace reshardfs
