// SPDX-License-Identifier: Apache-2.0
#include "format/encrypted/encrypted_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace reshardfs {
namespace {

constexpr std::uint32_t kFirstMagic = 0x7F3A5ED8;  // AES-GCM; the others follow in enum order
constexpr std::uint64_t kMagicBytes = 4;
constexpr std::uint64_t kGcmHeaderBytes = 48;
constexpr std::uint64_t kCbcHeaderBytes = 32;
constexpr std::uint64_t kLengthFieldBytes = 4;
constexpr const char* kLostBytesHint = "the file is damaged or not complete";

std::uint32_t little_endian(std::span<const std::byte> bytes) noexcept {
  static_assert(std::endian::native == std::endian::little);
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::optional<CipherMode> mode_of_magic(std::uint32_t magic) noexcept {
  if (magic - kFirstMagic > static_cast<std::uint32_t>(CipherMode::kSm4Cbc)) return std::nullopt;
  return static_cast<CipherMode>(magic - kFirstMagic);
}

/// Walks over the blocks of one file.
class BlockReader {
 public:
  BlockReader(const ByteSource& source, const Decryption& decryption, std::uint64_t block_bytes)
      : source_(source),
        decryption_(decryption),
        gcm_(decryption.mode() == CipherMode::kAesGcm),
        header_bytes_(gcm_ ? kGcmHeaderBytes : kCbcHeaderBytes),
        block_bytes_(block_bytes),
        most_cipher_bytes_(gcm_ ? block_bytes : block_bytes + kCipherBlockBytes) {}

  std::vector<EncryptedBlock> read_all() {
    std::vector<EncryptedBlock> blocks;
    check_magic_of_file();
    while (!at_end()) {
      index_ = blocks.size();
      EncryptedBlock block = read_header();
      position_ = block.cipher.end();
      if (position_ > source_.size()) {
        fail(block.cipher.offset() - kLengthFieldBytes,
             "has " + std::to_string(block.cipher.length()) +
                 " cipher bytes, and the file ends after " +
                 std::to_string(source_.size() - block.cipher.offset()));
      }
      if (!at_end() && block.cipher.length() != most_cipher_bytes_) {
        fail_length(block, "; only the last block may be shorter");
      }
      if (!gcm_) check_padding(block);
      blocks.push_back(block);
    }
    return blocks;
  }

 private:
  [[noreturn]] void fail(std::uint64_t offset, const std::string& what) const {
    throw Error(ErrorKind::kBadInput, "encrypted block " + std::to_string(index_) + " " + what)
        .in_file(source_.name())
        .at_offset(offset)
        .hint(kLostBytesHint);
  }
  [[noreturn]] void fail_length(const EncryptedBlock& block, const std::string& more) const {
    fail(block.cipher.offset() - kLengthFieldBytes, "has " + std::to_string(block.cipher.length()) +
                                                        " cipher bytes, a full one has " +
                                                        std::to_string(most_cipher_bytes_) + more);
  }

  /// The whole file's mode, so that a user who gave another one learns which it is.
  void check_magic_of_file() const {
    const auto found = encryption_of(source_);
    if (found == decryption_.mode()) return;
    if (!found) {
      throw not_encrypted(source_.name());
    }
    const std::string name(cipher_mode_name(*found));
    throw Error(ErrorKind::kBadInput, "is encrypted with " + name + ", not with " +
                                          std::string(cipher_mode_name(decryption_.mode())))
        .in_file(source_.name())
        .hint("give --dec-mode " + name);
  }

  EncryptedBlock read_header() {
    if (source_.size() - position_ < header_bytes_) fail(position_, "ends inside its header");
    std::array<std::byte, kGcmHeaderBytes> header{};
    const std::span<std::byte> bytes = std::span(header).first(header_bytes_);
    source_.read_at(position_, bytes);
    if (mode_of_magic(little_endian(bytes)) != decryption_.mode()) {
      fail(position_,
           "does not begin like one of " + std::string(cipher_mode_name(decryption_.mode())));
    }
    EncryptedBlock block;
    std::size_t at = kMagicBytes;
    if (gcm_) {
      std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at), kTagBytes, block.tag.begin());
      at += kTagBytes;
    }
    const std::uint32_t rest = little_endian(bytes.subspan(at));
    const std::uint32_t iv_bytes = little_endian(bytes.subspan(at + 4));
    std::copy_n(bytes.begin() + static_cast<std::ptrdiff_t>(at) + 8, kIvBytes, block.iv.begin());
    const std::uint32_t cipher_bytes = little_endian(bytes.subspan(at + 8 + kIvBytes));
    block.cipher = ByteRange(position_ + header_bytes_, cipher_bytes);
    block.plain_bytes = cipher_bytes;  // until the padding is known
    if (iv_bytes != kIvBytes) {
      fail(position_ + at + 4,
           "has an initialization vector of " + std::to_string(iv_bytes) + " bytes, not 16");
    }
    if (std::uint64_t{rest} != std::uint64_t{cipher_bytes} + 2 * kLengthFieldBytes + kIvBytes) {
      fail(position_ + at, "has lengths that do not add up");
    }
    if (cipher_bytes == 0 || (!gcm_ && cipher_bytes % kCipherBlockBytes != 0)) {
      fail(block.cipher.offset() - kLengthFieldBytes, "has an impossible length");
    }
    if (cipher_bytes > most_cipher_bytes_) fail_length(block, "");
    return block;
  }

  /// MindSpore lets crc_check be combined with enc_key, and writes a trailer with the number 0
  /// then, which its own loader takes for a block.
  bool at_end() const {
    constexpr std::string_view kLetters = "crc_num";
    constexpr std::uint64_t kTrailerBytes = 17;
    if (position_ == source_.size()) return true;
    if (position_ == 0 || position_ > source_.size()) return false;
    if (source_.size() - position_ != kTrailerBytes) return false;
    std::array<char, kTrailerBytes> expected{};
    std::copy(kLetters.begin(), kLetters.end(), expected.begin());
    std::array<char, kTrailerBytes> found{};
    source_.read_at(position_, std::as_writable_bytes(std::span(found)));
    return found == expected;
  }

  /// PKCS#7: 1 to 16 bytes, each of which is their number.
  void check_padding(EncryptedBlock& block) const {
    std::array<std::byte, kIvBytes + kCipherBlockBytes> end{};
    const std::uint64_t last = block.cipher.length() - kCipherBlockBytes;
    if (last == 0) {
      std::copy(block.iv.begin(), block.iv.end(), end.begin());
      source_.read_at(block.cipher.offset(), std::span(end).last(kCipherBlockBytes));
    } else {
      source_.read_at(block.cipher.offset() + last - kIvBytes, end);
    }
    const auto plain = std::span(end).last(kCipherBlockBytes);
    CipherStream(decryption_, std::span(end).first(kIvBytes)).decrypt(plain);
    const auto padding = std::to_integer<std::size_t>(plain.back());
    const bool good = padding >= 1 && padding <= kCipherBlockBytes &&
                      std::all_of(plain.end() - static_cast<std::ptrdiff_t>(padding), plain.end(),
                                  [&](std::byte byte) { return byte == plain.back(); });
    const bool last_block = at_end();
    block.plain_bytes = good ? block.cipher.length() - padding : 0;
    if (block.plain_bytes == 0 || block.plain_bytes > block_bytes_ ||
        (!last_block && block.plain_bytes != block_bytes_)) {
      source_.check_unchanged();
      throw undecryptable(source_, block, index_, decryption_);
    }
  }

  const ByteSource& source_;
  const Decryption& decryption_;
  bool gcm_;
  std::uint64_t header_bytes_;
  std::uint64_t block_bytes_;
  std::uint64_t most_cipher_bytes_;
  std::uint64_t position_ = 0;
  std::uint64_t index_ = 0;
};

}  // namespace

std::optional<CipherMode> encryption_of(const ByteSource& source) {
  if (source.size() < kCipherMagicBytes) return std::nullopt;
  std::array<std::byte, kCipherMagicBytes> magic{};
  source.read_at(0, magic);
  return encryption_of(magic);
}

std::optional<CipherMode> encryption_of(std::span<const std::byte> first_bytes) {
  return mode_of_magic(little_endian(first_bytes));
}

bool looks_encrypted(const ByteSource& source) {
  return encryption_of(source).has_value();
}

std::vector<EncryptedBlock> read_encrypted_blocks(const ByteSource& source,
                                                  const Decryption& decryption,
                                                  std::uint64_t block_bytes) {
  return BlockReader(source, decryption, block_bytes).read_all();
}

Error undecryptable(const ByteSource& source, const EncryptedBlock& block, std::uint64_t index,
                    const Decryption& decryption) {
  return Error(ErrorKind::kBadInput,
               "encrypted block " + std::to_string(index) +
                   " cannot be decrypted: the key is wrong or the file was changed")
      .in_file(source.name())
      .at_offset(block.cipher.offset())
      .hint(decryption.key_hint());
}

}  // namespace reshardfs
