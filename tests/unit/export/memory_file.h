// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "reshardfs/error.h"
#include "reshardfs/virtual_file.h"

#include "base/sha256.h"

namespace reshardfs::test {

/// A file of a view in memory, which may fail at a place.
class MemoryFile final : public VirtualFile {
 public:
  explicit MemoryFile(std::string bytes) : bytes_(std::move(bytes)) {}

  std::uint64_t size() const override { return bytes_.size(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    ++reads_;
    if (fails_from_ <= offset) throw io_error("read", "memory", EIO);
    if (offset > size() || out.size() > size() - offset) {
      throw Error(ErrorKind::kBadInput, "a read beyond the end of the file");
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
  }
  void fail_from(std::uint64_t offset) { fails_from_ = offset; }
  std::uint64_t reads() const { return reads_; }

 private:
  std::string bytes_;
  std::uint64_t fails_from_ = ~std::uint64_t{0};
  mutable std::atomic<std::uint64_t> reads_{0};
};

/// Bytes that are different in every block.
inline std::string varied_bytes(std::size_t count, unsigned seed = 1) {
  std::string out(count, '\0');
  std::uint32_t state = seed;
  for (char& c : out) {
    state = state * 1664525U + 1013904223U;
    c = static_cast<char>(state >> 24U);
  }
  return out;
}

inline std::string sha256_of(const std::string& bytes) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  return hash.finish();
}

}  // namespace reshardfs::test
