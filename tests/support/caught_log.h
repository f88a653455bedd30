// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <sstream>
#include <string>

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

namespace reshardfs::test {

/// Keeps what is logged while it lives, as lines "level: text".
class CaughtLog {
 public:
  CaughtLog() {
    const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_);
    const auto log = std::make_shared<spdlog::logger>("caught", sink);
    log->set_level(spdlog::level::debug);
    log->set_pattern("%l: %v");
    spdlog::set_default_logger(log);
  }
  CaughtLog(const CaughtLog&) = delete;
  CaughtLog& operator=(const CaughtLog&) = delete;
  ~CaughtLog() { spdlog::set_default_logger(former_); }

  std::string text() const { return lines_.str(); }

 private:
  const std::shared_ptr<spdlog::logger> former_ = spdlog::default_logger();
  std::ostringstream lines_;
};

}  // namespace reshardfs::test
