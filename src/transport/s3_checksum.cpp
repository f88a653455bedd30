// SPDX-License-Identifier: Apache-2.0
#include "transport/s3_checksum.h"

#include <algorithm>
#include <memory>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "reshardfs/error.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20U;
constexpr std::uint64_t kPartBytes = 8 * kMiB;
constexpr std::uint64_t kMostParts = 10'000;

bool is_hexadecimal(std::string_view text) noexcept {
  return text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Md5 md5_of(std::span<const std::byte> bytes) {
  Md5 sum{};
  if (EVP_Digest(bytes.data(), bytes.size(), sum.data(), nullptr, EVP_md5(), nullptr) != 1) {
    throw Error(ErrorKind::kUnsupported, "this system's OpenSSL does not compute MD5")
        .hint("S3 checks uploads by MD5; allow it, or export to a directory");
  }
  return sum;
}

std::string base64(const Md5& sum) {
  std::array<unsigned char, 25> text{};  // 24 characters and a NUL
  const int length = EVP_EncodeBlock(text.data(), sum.data(), static_cast<int>(sum.size()));
  return {text.begin(), text.begin() + length};
}

std::string etag_of(const Md5& sum) {
  return fmt::format("{:02x}", fmt::join(sum, ""));
}

std::string etag_of_parts(std::span<const Md5> parts) {
  return etag_of(md5_of(std::as_bytes(parts))) + "-" + std::to_string(parts.size());
}

bool is_checksum_etag(std::string_view etag) noexcept {
  constexpr std::size_t kDigits = 32;
  if (etag.size() < kDigits || !is_hexadecimal(etag.substr(0, kDigits))) return false;
  if (etag.size() == kDigits) return true;
  const std::string_view parts = etag.substr(kDigits + 1);
  return etag[kDigits] == '-' && !parts.empty() &&
         parts.find_first_not_of("0123456789") == std::string_view::npos;
}

std::uint64_t s3_part_bytes(std::uint64_t object_bytes) noexcept {
  const std::uint64_t least = object_bytes / kMostParts + (object_bytes % kMostParts != 0 ? 1 : 0);
  const std::uint64_t whole = (least / kMiB + (least % kMiB != 0 ? 1 : 0)) * kMiB;
  return std::max(kPartBytes, whole);
}

}  // namespace reshardfs
