// SPDX-License-Identifier: Apache-2.0
/// Which option says which part of a SourceRequest.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reshardfs/source_request.h"

namespace reshardfs {

using SourceField =
    std::variant<bool SourceRequest::*, std::string SourceRequest::*,
                 std::filesystem::path SourceRequest::*, std::vector<std::string> SourceRequest::*>;

struct SourceOption {
  std::string_view name;
  SourceField field;
};

/// Those whose value is taken as it stands; strategies, maps and --replicas have meanings of their
/// own.
const std::vector<SourceOption>& plain_source_options();

/// Words of a command line.
class CommandWords {
 public:
  explicit CommandWords(std::vector<std::string> begin = {}) : words_(std::move(begin)) {}

  /// @param usual the value that need not be said.
  void add(std::string_view option, const std::string& value, const std::string& usual = {});
  void add(std::string_view option, const std::vector<std::string>& values);
  void flag(std::string_view option, bool given);
  /// -O FILE
  void output(const std::string& file) { words_.insert(words_.end(), {"-O", file}); }
  std::vector<std::string> take() { return std::move(words_); }

 private:
  std::vector<std::string> words_;
};

/// Adds all options of a request that do not have their usual value.
void add_source_words(const SourceRequest& request, CommandWords& words);

}  // namespace reshardfs
