// SPDX-License-Identifier: Apache-2.0
/// Files of a step as MindSpore Transformers' Checkpoint 2.0 has them, written without the code
/// that is tested.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

#include "unit/format/safetensors_samples.h"

namespace reshardfs::test {

/// A number with zeros before it.
inline std::string zero_padded(int number, std::size_t digits) {
  const std::string text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

inline std::string iteration_directory(int step) {
  return "iteration_" + zero_padded(step, 8);
}

/// @param kind "model" or "opt", with a prefix before it.
inline std::string iteration_file(const std::string& kind, int rank, int count) {
  return kind + "-" + zero_padded(rank, 7) + "-" + zero_padded(count, 7) + ".safetensors";
}

/// A file with one array of four bytes.
inline std::string iteration_tensors(const std::string& name) {
  return safetensors_file("{" + tensor_json(name, "U8", "[1,4]", 0, 4) + "}", "abcd");
}

/// metadata.json of so many ranks, each of which has a row of parameter w in its model file.
inline std::string iteration_metadata(int ranks) {
  std::string list;
  std::string shards;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string comma = rank > 0 ? ", " : "";
    const std::string number = std::to_string(rank);
    list += comma + number;
    shards += comma + "\"('w', (" + number + R"json(,))": [{"file_name": ")json" +
              iteration_file("model", rank, ranks) + R"(", "storage_rank": )" + number + "}]";
  }
  const std::string count = std::to_string(ranks);
  return R"({"state_dict_metadata": {"w": {"properties": {"dtype": "UInt8"}, "global_shape": [)" +
         count + R"(, 4], "layout": {"device_matrix": [)" + count +
         R"(], "tensor_map": [0, -1], "interleaved_parallel": false, "alias_name": ["a"], )" +
         R"("rank_list": [)" + list + R"(]}}}, "storage_data": {)" + shards + "}}";
}

/// `text` with the first `old` replaced.
inline std::string with_text(std::string text, const std::string& old,
                             const std::string& replacement) {
  return text.replace(text.find(old), old.size(), replacement);
}

}  // namespace reshardfs::test
