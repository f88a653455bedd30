// SPDX-License-Identifier: Apache-2.0
/// Safetensors files for tests, written without the code that is tested.
#pragma once

#include <cstdint>
#include <string>

namespace reshardfs::test {

/// The 8 bytes of length, the header's text as it is, and the data.
inline std::string safetensors_file(const std::string& header, const std::string& data = {}) {
  std::string bytes;
  for (unsigned i = 0; i < 8; ++i) {
    bytes += static_cast<char>(static_cast<std::uint64_t>(header.size()) >> (8 * i));
  }
  return bytes + header + data;
}

/// `"name":{...}` of a header.
inline std::string tensor_json(const std::string& name, const std::string& dtype,
                               const std::string& shape, std::uint64_t begin, std::uint64_t end) {
  return '"' + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":[)" +
         std::to_string(begin) + ',' + std::to_string(end) + "]}";
}

}  // namespace reshardfs::test
