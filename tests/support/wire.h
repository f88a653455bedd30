// SPDX-License-Identifier: Apache-2.0
/// Protobuf's wire format by hand, for files that no ordinary writer would write. Shares no code
/// with src/format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace reshardfs::test {

inline std::string varint(std::uint64_t value, std::size_t min_bytes = 1) {
  std::string out;
  while (value >= 0x80 || out.size() + 1 < min_bytes) {
    out += static_cast<char>(0x80 | (value & 0x7f));
    value >>= 7;
  }
  return out + static_cast<char>(value);
}
inline std::string number(std::uint32_t field, std::uint64_t value) {
  return varint(field << 3) + varint(value);
}
inline std::string bytes(std::uint32_t field, const std::string& payload) {
  return varint(field << 3 | 2) + varint(payload.size()) + payload;
}

inline std::string dims(const std::vector<std::int64_t>& sizes) {
  std::string out;
  for (const std::int64_t size : sizes) out += number(1, static_cast<std::uint64_t>(size));
  return out;
}
inline std::string tensor(const std::vector<std::int64_t>& sizes, const std::string& type,
                          const std::string& content) {
  return dims(sizes) + bytes(2, type) + bytes(3, content);
}
inline std::string record_of(const std::string& name, const std::string& tensor_bytes) {
  return bytes(1, bytes(1, name) + bytes(2, tensor_bytes));
}
inline std::string record(const std::string& name, const std::vector<std::int64_t>& sizes,
                          const std::string& type, const std::string& content) {
  return record_of(name, tensor(sizes, type, content));
}
/// A record of one float, which is all that a small file needs.
inline std::string small_record(const std::string& name) {
  return record(name, {1}, "Float32", "\x01\x02\x03\x04");
}
inline std::string trailer(std::uint64_t crc) {
  std::string out = "crc_num";
  out += std::string(2, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) out += static_cast<char>(crc >> shift & 0xff);
  return out;
}

}  // namespace reshardfs::test
