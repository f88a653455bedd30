// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "modelmap/pattern.h"

namespace reshardfs::modelmap {

/// Many patterns, of which a name is to try few: those that have its shape and its start.
class PatternIndex {
 public:
  struct Entry {
    const Pattern* pattern = nullptr;
    std::vector<std::int64_t> offsets{};  ///< as Pattern::offsets()
    std::size_t rule = 0;
    std::size_t source = 0;  ///< the number of the pattern in `from`; 0 for `to`
  };
  struct Match {
    const Entry* entry = nullptr;
    std::vector<CaptureValue> values{};  ///< by slot of the pattern
  };

  /// @param entry whose pattern outlives the index.
  void add(Entry entry);
  /// The patterns that take a name, in the order in which they were added.
  std::vector<Match> matches(const std::string& name) const;
  bool takes(const std::string& name) const { return !matches(name).empty(); }

 private:
  /// Patterns with captures, by what their names start with.
  struct Bucket {
    std::set<std::size_t> lengths{};  ///< of these starts
    std::unordered_map<std::string, std::vector<std::size_t>> entries{};
  };

  void find_in(const Bucket& bucket, const std::string& name, std::vector<std::size_t>& out) const;

  std::vector<Entry> entries_{};
  std::unordered_map<std::string, std::vector<std::size_t>> literals_{};
  std::unordered_map<std::string, Bucket> by_shape_{};
  Bucket others_{};  ///< patterns of too many shapes
};

}  // namespace reshardfs::modelmap
