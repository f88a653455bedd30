// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace reshardfs {

/// A running SHA-256.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> bytes);
  /// Lower-case hexadecimal; call once, at the end.
  std::string finish();
  /// As finish(), in base64.
  std::string finish_base64();

 private:
  std::array<unsigned char, 32> digest();

  evp_md_ctx_st* context_;
};

/// Of bytes that are all there. Lower-case hexadecimal.
std::string sha256_of(std::span<const std::byte> bytes);

}  // namespace reshardfs
