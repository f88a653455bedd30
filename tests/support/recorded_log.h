// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include "base/process/log_event.h"

namespace reshardfs::test {

/// While it lives, the log is told to the test, all levels of it.
class RecordedLog {
 public:
  /// In the scope of the line. @param line without a time.
  using OnLine = std::function<void(spdlog::level::level_enum level, std::string_view line)>;

  explicit RecordedLog(
      OnLine on_line, std::function<void()> on_flush = [] {}) {
    auto logger = std::make_shared<spdlog::logger>(
        "", std::make_shared<Sink>(std::move(on_line), std::move(on_flush)));
    logger->set_level(spdlog::level::trace);
    spdlog::set_default_logger(std::move(logger));
  }
  RecordedLog(const RecordedLog&) = delete;
  RecordedLog& operator=(const RecordedLog&) = delete;
  ~RecordedLog() { spdlog::set_default_logger(before_); }

 private:
  class Sink final : public spdlog::sinks::base_sink<std::mutex> {
   public:
    Sink(OnLine on_line, std::function<void()> on_flush)
        : on_line_(std::move(on_line)), on_flush_(std::move(on_flush)) {}

   private:
    void sink_it_(const spdlog::details::log_msg& message) override {
      on_line_(message.level, {message.payload.data(), message.payload.size()});
    }
    void flush_() override { on_flush_(); }

    const OnLine on_line_;
    const std::function<void()> on_flush_;
  };

  const std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

/// Keeps what is logged while it lives, as lines "level: text".
class CaughtLog {
 public:
  const std::string& text() const { return text_; }

 private:
  mutable std::string text_{};  ///< of a log that is const, too
  const RecordedLog log_{[this](spdlog::level::level_enum level, std::string_view line) {
    const auto name = spdlog::level::to_string_view(level);
    text_.append(name.data(), name.size()).append(": ").append(line).append("\n");
  }};
};

}  // namespace reshardfs::test
