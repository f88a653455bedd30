// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "transport/http_engine.h"

namespace reshardfs {

/// Collects an answer as a text.
class TextReceiver final : public HttpReceiver {
 public:
  /// Throws what a refused request means. @param body the beginning of the answer's
  using Refusal = std::function<void(const HttpHead& head, const std::string& body)>;

  /// @param most bytes; a longer answer is refused.
  TextReceiver(std::string name, std::size_t most, Refusal refusal);

  void begin(const HttpHead& head) override;
  void add(std::span<const std::byte> bytes) override;
  void end() override {}
  [[noreturn]] void refuse(const HttpHead& head, const std::string& body) override;

  const HttpHead& head() const noexcept { return head_; }
  const std::string& text() const noexcept { return text_; }

 private:
  std::string name_;
  std::size_t most_;
  Refusal refusal_;
  HttpHead head_;
  std::string text_;
};

/// The error for a status without a special meaning.
[[noreturn]] void throw_status(const HttpHead& head, const std::string& body,
                               const std::string& name);

}  // namespace reshardfs
