// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include <openssl/evp.h>

#include "format/encrypted/encrypted.h"

namespace reshardfs {
namespace {

constexpr std::array<std::string_view, 3> kModeNames{"AES-GCM", "AES-CBC", "SM4-CBC"};
/// More than any way to write a key.
constexpr std::uint64_t kMostKeyFileBytes = 128;

CipherMode mode_from(const std::string& name) {
  const auto* const found = std::find(kModeNames.begin(), kModeNames.end(), name);
  if (found == kModeNames.end()) {
    throw Error(ErrorKind::kUsage, "there is no decryption mode '" + printable(name) + "'")
        .hint("the modes are AES-GCM, AES-CBC and SM4-CBC");
  }
  return static_cast<CipherMode>(found - kModeNames.begin());
}

bool is_key_length(CipherMode mode, std::size_t bytes) noexcept {
  return bytes == 16 || (mode != CipherMode::kSm4Cbc && (bytes == 24 || bytes == 32));
}

/// OpenSSL's name: "AES-256-GCM", "SM4-CBC".
std::string algorithm(CipherMode mode, std::size_t key_bytes) {
  const std::string bits = std::to_string(key_bytes * 8);
  switch (mode) {
    case CipherMode::kAesGcm:
      return "AES-" + bits + "-GCM";
    case CipherMode::kAesCbc:
      return "AES-" + bits + "-CBC";
    case CipherMode::kSm4Cbc:
      return "SM4-CBC";
  }
  return {};
}

/// Once for a key: looking it up by name takes longer than decrypting a short range.
std::shared_ptr<EVP_CIPHER> fetch(const std::string& name) {
  std::shared_ptr<EVP_CIPHER> cipher(EVP_CIPHER_fetch(nullptr, name.c_str(), nullptr),
                                     EVP_CIPHER_free);
  if (cipher) return cipher;
  throw Error(ErrorKind::kUnsupported, "this system's OpenSSL does not have " + name);
}

std::optional<unsigned> digit(std::byte byte) noexcept {
  const auto c = std::to_integer<unsigned>(byte);
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

std::size_t without_newline(std::span<const std::byte> text) noexcept {
  std::size_t size = text.size();
  if (size > 0 && text[size - 1] == std::byte{'\n'}) {
    --size;
    if (size > 0 && text[size - 1] == std::byte{'\r'}) --size;
  }
  return size;
}

/// Replaces digits by the key that they stand for, in place; false (and nothing done) if they are
/// none of this mode.
bool decode_hexadecimal(CipherMode mode, SecretBuffer& file) {
  const std::size_t size = without_newline(file.bytes());
  const auto digits = file.bytes().first(size);
  if (size % 2 != 0 || !is_key_length(mode, size / 2)) return false;
  if (!std::all_of(digits.begin(), digits.end(), [](std::byte b) { return digit(b).has_value(); }))
    return false;
  for (std::size_t i = 0; i < size / 2; ++i) {
    digits[i] = static_cast<std::byte>(*digit(digits[2 * i]) << 4 | *digit(digits[2 * i + 1]));
  }
  file.shrink(size / 2);
  return true;
}

[[noreturn]] void refuse_length(CipherMode mode, const ByteSource& file) {
  const bool sm4 = mode == CipherMode::kSm4Cbc;
  throw Error(ErrorKind::kBadInput, "holds no key of " + std::string(cipher_mode_name(mode)) +
                                        ": it has " + std::to_string(file.size()) + " bytes")
      .in_file(file.name())
      .hint(std::string("a key file has the key's ") + (sm4 ? "16" : "16, 24 or 32") +
            " bytes, or twice as many hexadecimal digits");
}

/// Whether others than the owner can read the file.
bool readable_by_others(const std::filesystem::path& path) {
  using std::filesystem::perms;
  std::error_code ignored;
  const perms found = std::filesystem::status(path, ignored).permissions();
  return found != perms::unknown &&
         (found & (perms::group_read | perms::others_read)) != perms::none;
}

}  // namespace

std::string_view cipher_mode_name(CipherMode mode) noexcept {
  return kModeNames[static_cast<std::size_t>(mode)];
}

std::shared_ptr<const Decryption> Decryption::load_if_named(const std::filesystem::path& key_file,
                                                            const std::string& mode) {
  return key_file.empty() ? nullptr : load(key_file, mode);
}

std::shared_ptr<const Decryption> Decryption::load(const std::filesystem::path& key_file,
                                                   const std::string& mode_name) {
  const CipherMode mode = mode_from(mode_name);
  const ByteSourcePtr file = open_file(key_file);
  if (file->size() > kMostKeyFileBytes) refuse_length(mode, *file);
  SecretBuffer key(file->size(), SecretBuffer::Swap::kAvoided);
  file->read_at(0, key.bytes());
  file->check_unchanged();
  const bool hexadecimal = decode_hexadecimal(mode, key);
  if (!hexadecimal && !is_key_length(mode, key.bytes().size())) {
    key.shrink(without_newline(key.bytes()));  // a key of letters, written with an editor
    if (!is_key_length(mode, key.bytes().size())) refuse_length(mode, *file);
  }
  std::shared_ptr<Decryption> result(new Decryption(mode, std::move(key), hexadecimal));
  if (readable_by_others(key_file)) {
    result->warning_ =
        "others can read the key file " + printable(key_file.string()) + "; chmod 600 it";
  }
  return result;
}

Decryption::Decryption(CipherMode mode, SecretBuffer key, bool hexadecimal)
    : mode_(mode),
      key_(std::move(key)),
      hexadecimal_(hexadecimal),
      cipher_(fetch(algorithm(mode, key_.bytes().size()))) {
  if (mode != CipherMode::kAesGcm) return;
  range_cipher_ = fetch("AES-" + std::to_string(key_.bytes().size() * 8) + "-CTR");
}

std::string Decryption::key_hint() const {
  if (hexadecimal_) return "check the key file, which was read as hexadecimal digits";
  return "check the key file, whose bytes were used as the key";
}

Error& Decryption::explain(Error& error) const {
  if (mode_ == CipherMode::kAesGcm) return error;
  if (error.kind() != ErrorKind::kBadInput && error.kind() != ErrorKind::kUnsupported) return error;
  Error explained(error.kind(), "is not a checkpoint when decrypted: " + error.message());
  explained.in_file(error.file())
      .hint("the file is damaged, or the key is wrong: " + std::string(cipher_mode_name(mode_)) +
            " cannot tell the two apart");
  if (!error.parameter().empty()) explained.for_parameter(error.parameter());
  return error = explained;
}

}  // namespace reshardfs
