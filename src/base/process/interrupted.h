// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>
#include <utility>

namespace reshardfs {

/// The work was stopped from outside; not an Error, because nothing went wrong.
class Interrupted final : public std::exception {
 public:
  /// @param left what the work has left; empty: nothing that a user has to know.
  explicit Interrupted(std::string left = {}) : left_(std::move(left)) {}

  const std::string& left() const noexcept { return left_; }
  const char* what() const noexcept override { return "interrupted"; }

 private:
  std::string left_;
};

}  // namespace reshardfs
