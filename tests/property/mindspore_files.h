// SPDX-License-Identifier: Apache-2.0
/// Writes and reads MindSpore's files with a few lines of its own, independently of reshardfs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "naive.h"

namespace property {

struct Record {
  std::string type;  ///< "Float32", ..., or "str"
  naive::Numbers shape;
  std::string content;

  bool operator==(const Record&) const = default;
};

/// How a record is written; readers must take them all alike.
struct RecordStyle {
  std::size_t content_limit = 512U << 20U;  ///< bytes in each of several records
  bool packed_dims = false;
  bool scalar_as_zero_dim = false;  ///< the files of 2023
};

std::string encode(const std::string& name, const Record& record, const RecordStyle& style);

/// Name and record in file order.
/// @throws std::runtime_error if these are no whole records in the form that MindSpore writes.
std::vector<std::pair<std::string, Record>> decode(const std::string& file);

using StageLayouts = std::map<std::string, naive::Layout>;

std::string strategy_protobuf(const StageLayouts& layouts, std::int64_t stage);
/// With nested lists where a dimension is cut along several axes.
std::string strategy_json(const StageLayouts& layouts, std::int64_t stage);

}  // namespace property
