// SPDX-License-Identifier: Apache-2.0
/// Whether files are of one save: what they state of it must be the same.
#pragma once

#include <map>
#include <string>

namespace reshardfs {

/// What a file states of its save, by key: "global_steps" is "500".
using SaveFacts = std::map<std::string, std::string>;

class OneSave {
 public:
  /// @param file its name, for messages.
  /// @param facts may lack keys that other files have.
  /// @throws Error kBadInput, without a file, if an earlier file states another value of a key;
  ///         names both files and both values.
  void add(const std::string& file, const SaveFacts& facts);

 private:
  struct Stated {
    std::string value{};
    std::string file{};
  };

  std::map<std::string, Stated> known_;
};

}  // namespace reshardfs
