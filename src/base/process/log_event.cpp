// SPDX-License-Identifier: Apache-2.0
#include "base/process/log_event.h"

#include <cstring>
#include <utility>

namespace reshardfs {
namespace {

thread_local const LogScope* current_scope = nullptr;

static_assert(kLogEventNames.size() == static_cast<std::size_t>(LogEvent::kLogNotReopened) + 1);

}  // namespace

LogScope::LogScope(LogEvent event) noexcept
    : event_(event),
      outer_(std::exchange(current_scope, this)),
      fields_(outer_ == nullptr ? &own_ : outer_->fields_) {}

LogScope::LogScope(LogEvent event, LogFields fields) noexcept
    : event_(event),
      own_(std::move(fields)),
      outer_(std::exchange(current_scope, this)),
      fields_(&own_) {}

LogScope::~LogScope() {
  current_scope = outer_;
}

const LogScope* LogScope::current() noexcept {
  return current_scope;
}

std::string errno_name(int error) {
  const char* const name = ::strerrorname_np(error);
  return name == nullptr ? "errno " + std::to_string(error) : name;
}

}  // namespace reshardfs
