// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/handover/handover_options.h"
#include "daemon/handover/takeover.h"

namespace reshardfs {

/// How this process was started, and by which process. main() makes it before the working directory
/// changes, and passes it down.
class StartedProgram {
 public:
  /// @param name as what it was started. @param words of its command line, without the name.
  StartedProgram(std::string name, std::vector<std::string> words);
  StartedProgram(const StartedProgram&) = delete;
  StartedProgram& operator=(const StartedProgram&) = delete;
  ~StartedProgram() = default;

  const std::string& name() const noexcept { return name_; }
  /// Whether another process that serves a mount, or keeps it, has started this one.
  bool is_successor() const noexcept { return socket_.has_value(); }
  /// The original arguments, without those that start_successor() added.
  const std::vector<std::string>& words() const noexcept { return words_; }
  /// In the place of words(), where these are another program's: mount(8) has its own.
  void set_words(std::vector<std::string> words) { words_ = std::move(words); }

  /// Finds out whether another process has a mount for this one to go on with, or a service
  /// manager has kept one. Before the configuration file is read: after a crash it does not matter.
  /// @throws Error as Takeover does.
  void meet_predecessor();
  /// nullptr: there is none, or it was taken.
  const Takeover* predecessor() const noexcept { return takeover_.get(); }
  std::unique_ptr<Takeover> take_predecessor() noexcept { return std::move(takeover_); }
  /// Tells the process that serves the mount that this one cannot take it over. Does nothing if
  /// there is no such process.
  void tell_predecessor(const std::string& why) noexcept;

  /// The program that is installed where this one was, with the same command line. To be called
  /// soon: an upgrade may replace it.
  ProgramStart successor() const;

 private:
  const std::string name_;
  std::vector<std::string> words_;
  const std::filesystem::path directory_;
  std::optional<int> socket_;  ///< to the process that has the mount
  std::unique_ptr<Takeover> takeover_;
};

}  // namespace reshardfs
