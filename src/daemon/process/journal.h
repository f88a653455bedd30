// SPDX-License-Identifier: Apache-2.0
/// systemd's journal, by its native protocol: https://systemd.io/JOURNAL_NATIVE_PROTOCOL
#pragma once

#include <string>

#include "storage/descriptor_pool.h"

namespace reshardfs {

class Journal {
 public:
  static constexpr const char* kSocket = "/run/systemd/journal/socket";

  /// @param socket the path of the journal's.
  explicit Journal(std::string socket = kSocket);

  /// Whether a journal listens there now.
  bool is_there() const noexcept;
  /// @param entry the fields of one entry, in the protocol's format.
  /// @return whether the journal has it. Waits for a moment only.
  bool send(const std::string& entry) const noexcept;

 private:
  bool send_in_file(const std::string& entry) const noexcept;

  const std::string path_;
  Descriptor socket_;
};

/// Whether standard error leads to the journal: systemd says which device and inode that is.
bool error_output_is_journal();

/// Whether what is sent to the system's log goes to the journal.
bool system_log_is_journal();

}  // namespace reshardfs
