// SPDX-License-Identifier: Apache-2.0
/// Reads one strategy file, of either format.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/layout.h"
#include "reshardfs/strategy.h"

namespace reshardfs {

constexpr std::uint64_t kMaxStrategyBytes = std::uint64_t{256} << 20;
/// Layouts and operators together.
constexpr std::size_t kMaxStrategyItems = 2'000'000;

/// What one strategy file says, before names are sorted into pipeline stages.
struct RawStrategy {
  /// In file order; names as the file has them, with "<stage>-" if it is a merged one. Equal
  /// layouts may be shared.
  std::vector<std::pair<std::string, std::shared_ptr<const Layout>>> layouts;
  std::vector<OperatorStrategy> operators;
};

/// @throws Error kBadInput if `raw` holds as many items as a strategy may have.
void check_room_for_item(const RawStrategy& raw);

/// Reads the text of a JSON strategy file. Beyond what MindSpore reads, tensor_map may have lists
/// of axes among its entries, and "field" may be absent.
/// @throws Error kBadInput, with the parameter if there is one, without the file.
RawStrategy read_json_strategy(const std::string& text);

/// Reads the bytes of a protobuf strategy file.
/// @throws Error kBadInput, with the parameter if there is one, without the file.
RawStrategy read_protobuf_strategy(const std::string& bytes);

}  // namespace reshardfs
