// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory_resource>
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
    Numberings numberings{};  ///< as Pattern::numberings()
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
  std::vector<Match> matches(std::string_view name) const;
  bool takes(std::string_view name) const;

 private:
  /// Looks strings up by views of them.
  struct TextHash {
    using is_transparent = void;  // NOLINT(readability-identifier-naming): the standard's name
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };
  template <typename Value>
  using ByText = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

  /// Patterns with captures, by what their names start with.
  struct Bucket {
    std::set<std::size_t> lengths{};  ///< of these starts
    ByText<std::vector<std::size_t>> entries{};
  };

  static void find_in(const Bucket& bucket, std::string_view name,
                      std::pmr::vector<std::size_t>& out);
  std::pmr::vector<std::size_t> candidates_for(std::string_view name,
                                               std::pmr::memory_resource& memory) const;

  std::vector<Entry> entries_{};
  ByText<std::vector<std::size_t>> literals_{};
  ByText<Bucket> by_shape_{};
  Bucket others_{};  ///< patterns of too many shapes
};

}  // namespace reshardfs::modelmap
