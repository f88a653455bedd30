// SPDX-License-Identifier: Apache-2.0
/// systemd's journal, by its native protocol: https://systemd.io/JOURNAL_NATIVE_PROTOCOL
#pragma once

#include <string>
#include <utility>

namespace reshardfs {

class Journal {
 public:
  static constexpr const char* kSocket = "/run/systemd/journal/socket";

  /// @param socket the path of the journal's.
  explicit Journal(std::string socket = kSocket) : path_(std::move(socket)) {}

  /// Whether a journal listens there now.
  bool is_there() const noexcept;
  /// @param entry the fields of one entry, in the protocol's format.
  /// @return whether the journal has it. Waits for a moment only.
  bool send(const std::string& entry) const noexcept;

 private:
  const std::string path_;
};

/// Whether standard error leads to the journal: systemd says which device and inode that is.
bool error_output_is_journal();

/// Whether what is sent to the system's log goes to the journal.
bool system_log_is_journal();

}  // namespace reshardfs
