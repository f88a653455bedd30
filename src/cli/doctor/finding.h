// SPDX-License-Identifier: Apache-2.0
/// What the doctor says about one thing.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/json/json_writer.h"

namespace reshardfs {

enum class Health : std::uint8_t {
  kOk,
  kWarning,  ///< works, but something is slower, not possible, or will fail for some users
  kFailed,   ///< mounting or reading will fail
  kSkipped,  ///< not looked at, because nothing needs it or something before it has failed
};

struct Finding {
  std::string name{};  ///< which check it is: "fuse-device". Programs rely on it
  Health health = Health::kOk;
  std::string message{};
  std::string remedy{};   ///< what to do: a command where one is enough; empty if all is well
  std::string subject{};  ///< "mount.tp4", "/etc/fstab:12"; empty: the machine
};

using Findings = std::vector<Finding>;

/// "ok", "warning", "failed" or "skipped".
std::string_view word_of(Health health) noexcept;

/// That the check has failed: the error's message, and its hint as the remedy.
Finding failed(const std::string& name, const Error& error);
Finding skipped(const std::string& name, const std::string& message);

/// The findings, with this subject where they have none.
Findings about(const std::string& subject, Findings findings);

/// The "checks" of `doctor --json`, as a member; a subject is there if there is one.
void write_findings(JsonWriter& json, const Findings& findings);
/// @param json the object with the member that write_findings() has written.
Findings findings_of(const JsonValue& json);

}  // namespace reshardfs
