// SPDX-License-Identifier: Apache-2.0
/// What a mount's status.json and a report's page state of a conversion, and what never changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace reshardfs {

/// The options' values, and when the conversion was opened. Does not name the key file.
struct OptionFacts {
  std::string source{};
  // Or the sizes that they are derived from.
  std::optional<std::string> src_strategy{};
  std::optional<std::string> dst_strategy{};
  std::string opened{};
};

struct ConversionFacts {
  OptionFacts options{};
  std::string source_format{};
  std::size_t source_files = 0;
  std::size_t source_parameters = 0;
  std::optional<std::string> step{};
  std::int64_t destination_ranks = 0;
  std::size_t shown_ranks = 0;
  std::vector<std::string> formats{};  ///< of the ranks' files
  std::vector<std::string> casts{};
  bool whole_model = false;
  std::vector<std::string> warnings{};
  std::vector<std::string> notes{};
};

}  // namespace reshardfs
