// SPDX-License-Identifier: Apache-2.0
/// Archives of torch.save for tests, written without the code that is tested.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reshardfs::test {

inline std::string little(std::uint64_t value, std::size_t width) {
  std::string bytes;
  for (std::size_t i = 0; i < width; ++i) {
    bytes += static_cast<char>(value & 0xffU);
    value >>= 8U;
  }
  return bytes;
}

struct ZipEntry {
  std::string name;
  std::string bytes;
  std::uint64_t method = 0;
  std::uint64_t flags = 0x0808;
  std::string local_name{};     ///< empty: the name
  std::uint64_t more_size = 0;  ///< what the directory adds to the size
  std::uint64_t padding = 0;    ///< bytes of the local extra field
};

/// What a test may set wrong.
struct ZipDamage {
  std::uint64_t more_count = 0;
  std::uint64_t more_offset = 0;
  std::uint64_t more_locator = 0;
  bool wide = true;  ///< with zip64 records at the end
};

inline std::string zip_file(const std::vector<ZipEntry>& entries, const ZipDamage& damage = {}) {
  std::string out;
  std::string directory;
  for (const ZipEntry& entry : entries) {
    const std::string& local = entry.local_name.empty() ? entry.name : entry.local_name;
    const std::string extra = entry.padding == 0 ? ""
                                                 : "FB" + little(entry.padding - 4, 2) +
                                                       std::string(entry.padding - 4, 'Z');
    directory += "PK\x01\x02" + little(0, 4) + little(entry.flags, 2) + little(entry.method, 2) +
                 little(0, 8) + little(entry.bytes.size() + entry.more_size, 4) +
                 little(entry.bytes.size() + entry.more_size, 4) + little(entry.name.size(), 2) +
                 little(0, 12) + little(out.size(), 4) + entry.name;
    out += "PK\x03\x04" + little(0, 2) + little(entry.flags, 2) + little(entry.method, 2) +
           little(0, 16) + little(local.size(), 2) + little(extra.size(), 2) + local + extra +
           entry.bytes + "PK\x07\x08" + std::string(12, '\0');
  }
  const std::uint64_t at = out.size();
  const std::uint64_t count = entries.size() + damage.more_count;
  out += directory;
  if (damage.wide) {
    const std::uint64_t wide_end = out.size();
    out += "PK\x06\x06" + little(44, 8) + little(0, 12) + little(count, 8) + little(count, 8) +
           little(directory.size(), 8) + little(at + damage.more_offset, 8);
    out += "PK\x06\x07" + little(0, 4) + little(wide_end + damage.more_locator, 8) + little(1, 4);
  }
  return out + "PK\x05\x06" + little(0, 4) + little(count, 2) + little(count, 2) +
         little(directory.size(), 4) + little(at + damage.more_offset, 4) + little(0, 2);
}

/// The pickle of a tensor in storage "0".
/// @param shape and strides: opcodes of a tuple.
inline std::string tensor_pickle(const std::string& storage, int elements, int first,
                                 const std::string& shape, const std::string& strides) {
  const auto number = [](int value) { return "M" + little(static_cast<std::uint64_t>(value), 2); };
  return "\x80\x02"
         "ctorch._utils\n_rebuild_tensor_v2\n((X\x07" +
         std::string(3, '\0') + "storagectorch\n" + storage + "\nX\x01" + std::string(3, '\0') +
         "0X\x03" + std::string(3, '\0') + "cpu" + number(elements) + "tQ" + number(first) + shape +
         strides +
         "\x89"
         "ccollections\nOrderedDict\n)RtR.";
}

inline std::vector<ZipEntry> tensor_entries(const std::string& pickle, const std::string& storage) {
  return {{"a/data.pkl", pickle},
          {"a/byteorder", "little"},
          {"a/data/0", storage, 0, 0x0808, "", 0, 20},
          {"a/version", "3\n"}};
}

}  // namespace reshardfs::test
