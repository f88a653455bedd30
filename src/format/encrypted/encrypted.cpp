// SPDX-License-Identifier: Apache-2.0
#include "format/encrypted/encrypted.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <openssl/crypto.h>

#include "format/encrypted/encrypted_blocks.h"
#include "format/encrypted/encrypted_cipher.h"
#include "format/encrypted/encrypted_verified.h"

namespace reshardfs {
namespace {

/// Overwrites bytes on the way out.
class Cleanse {
 public:
  explicit Cleanse(std::span<std::byte> bytes) noexcept : bytes_(bytes) {}
  Cleanse(const Cleanse&) = delete;
  Cleanse& operator=(const Cleanse&) = delete;
  ~Cleanse() { OPENSSL_cleanse(bytes_.data(), bytes_.size()); }

 private:
  std::span<std::byte> bytes_;
};

/// What is read and decrypted at once: small enough for the processor's cache.
constexpr std::uint64_t kPieceBytes = 256ULL << 10;

/// Of a block that is verified as a whole, this is fetched at once, and as much again ahead.
constexpr std::uint64_t kAheadBytes = 4ULL << 20;
static_assert(kAheadBytes % kPieceBytes == 0);

class DecryptedSource : public ByteSource {
 public:
  DecryptedSource(ByteSourcePtr encrypted, std::shared_ptr<const Decryption> decryption,
                  std::uint64_t block_bytes)
      : encrypted_(std::move(encrypted)),
        decryption_(std::move(decryption)),
        block_bytes_(block_bytes),
        blocks_(read_encrypted_blocks(*encrypted_, *decryption_, block_bytes)),
        size_((blocks_.size() - 1) * block_bytes + blocks_.back().plain_bytes) {}

  const std::string& name() const override { return encrypted_->name(); }
  std::uint64_t size() const override { return size_; }
  std::int64_t mtime_ns() const override { return encrypted_->mtime_ns(); }
  FileStamp stamp() const override { return encrypted_->stamp(); }
  void check_unchanged() const override { encrypted_->check_unchanged(); }
  bool is_far() const noexcept override { return encrypted_->is_far(); }
  bool is_remote() const noexcept override { return encrypted_->is_remote(); }
  void foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept override {
    try {
      std::vector<ByteRange> stored;
      for (const ByteRange& range : ranges) {
        if (!ByteRange::whole(size_).contains(range)) return;  // the read itself reports the error
        add_stored(range, stored);
      }
      encrypted_->foresee(stored, when);
    } catch (const std::exception&) {
      // Without memory for it, it is fetched when it is read.
    }
  }

  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    read({offset, out});
  }
  void read_many(std::span<const ReadRequest> parts) const override {
    for (const ReadRequest& part : parts) read(part);
  }

 protected:
  /// Fills `part.out` from byte `part.offset` of one block.
  virtual void read_block(std::uint64_t index, const ReadRequest& part) const = 0;

  const ByteSource& encrypted() const noexcept { return *encrypted_; }
  const Decryption& decryption() const noexcept { return *decryption_; }
  std::uint64_t block_count() const noexcept { return blocks_.size(); }
  const EncryptedBlock& block(std::uint64_t index) const noexcept { return blocks_[index]; }

 private:
  void read(const ReadRequest& request) const {
    auto [offset, out, foreseen] = request;
    if (offset > size_ || out.size() > size_ - offset) {
      throw Error(ErrorKind::kBadInput, "a read of " + std::to_string(out.size()) +
                                            " decrypted bytes goes beyond the end of the file")
          .in_file(name())
          .at_offset(offset);
    }
    while (!out.empty()) {
      const std::uint64_t index = offset / block_bytes_;
      const std::uint64_t begin = offset % block_bytes_;
      const std::uint64_t left = blocks_[index].plain_bytes - begin;
      const auto part = out.first(std::min<std::uint64_t>(out.size(), left));
      read_block(index, {begin, part, foreseen});
      offset += part.size();
      out = out.subspan(part.size());
    }
  }

  /// Where a range is stored, with the cipher bytes before it, which CBC needs.
  void add_stored(const ByteRange& range, std::vector<ByteRange>& out) const {
    for (std::uint64_t at = range.offset(); at < range.end();) {
      const std::uint64_t index = at / block_bytes_;
      const std::uint64_t block_begin = index * block_bytes_;
      const std::uint64_t block_end = block_begin + blocks_[index].plain_bytes;
      const ByteRange& cipher = blocks_[index].cipher;
      const std::uint64_t begin = (at - block_begin) / kCipherBlockBytes * kCipherBlockBytes;
      const std::uint64_t end = std::min(range.end(), block_end) - block_begin;
      out.push_back(ByteRange::between(
          cipher.offset() + begin - std::min<std::uint64_t>(begin, kIvBytes),
          cipher.offset() + std::min<std::uint64_t>(end + kCipherBlockBytes, cipher.length())));
      at = block_end;
    }
  }

  ByteSourcePtr encrypted_;
  std::shared_ptr<const Decryption> decryption_;
  std::uint64_t block_bytes_;
  std::vector<EncryptedBlock> blocks_;
  std::uint64_t size_;
};

/// Any byte needs only the 16 cipher bytes that it lies in and the 16 before them.
class CbcSource final : public DecryptedSource {
 public:
  using DecryptedSource::DecryptedSource;

 private:
  void read_block(std::uint64_t index, const ReadRequest& part) const override {
    auto [begin, out, foreseen] = part;
    const EncryptedBlock& from = block(index);
    std::uint64_t unwanted = begin % kCipherBlockBytes;
    std::uint64_t at = begin - unwanted;
    const std::uint64_t wanted_end = begin + out.size();
    const std::uint64_t end =
        (wanted_end + kCipherBlockBytes - 1) / kCipherBlockBytes * kCipherBlockBytes;
    std::vector<std::byte> piece(kIvBytes + std::min(end - at, kPieceBytes));
    const Cleanse cleanse(piece);
    std::optional<CipherStream> stream;
    while (at < end) {
      const auto bytes = std::span(piece).subspan(kIvBytes, std::min(end - at, kPieceBytes));
      if (stream || at == 0) {
        read_part(encrypted(), {from.cipher.offset() + at, bytes, foreseen});
        if (!stream) stream.emplace(decryption(), from.iv);
      } else {
        read_part(encrypted(), {from.cipher.offset() + at - kIvBytes,
                                std::span(piece).first(kIvBytes + bytes.size()), foreseen});
        stream.emplace(decryption(), std::span(piece).first(kIvBytes));
      }
      stream->decrypt(bytes);
      at += bytes.size();
      const auto wanted =
          bytes.subspan(unwanted).first(std::min<std::size_t>(bytes.size() - unwanted, out.size()));
      std::memcpy(out.data(), wanted.data(), wanted.size());
      out = out.subspan(wanted.size());
      unwanted = 0;
    }
  }
};

/// A byte may be given out only when its whole block has been verified.
class GcmSource final : public DecryptedSource {
 public:
  GcmSource(ByteSourcePtr encrypted, std::shared_ptr<const Decryption> decryption,
            std::uint64_t block_bytes)
      : DecryptedSource(std::move(encrypted), std::move(decryption), block_bytes),
        verified_(block_count()) {}

 private:
  void read_block(std::uint64_t index, const ReadRequest& part) const override {
    const auto& [begin, out, foreseen] = part;
    verified_.require(index, [&, is_foreseen = part.foreseen] { verify(index, is_foreseen); });
    const EncryptedBlock& from = block(index);
    CipherStream stream(decryption(), from.iv, begin);
    for (std::uint64_t at = 0; at < out.size();) {
      const auto piece = out.subspan(at, std::min<std::uint64_t>(out.size() - at, kPieceBytes));
      read_part(encrypted(), {from.cipher.offset() + begin + at, piece, foreseen});
      stream.decrypt(piece);
      at += piece.size();
    }
  }

  void verify(std::uint64_t index, bool foreseen) const {
    const EncryptedBlock& from = block(index);
    SecretBuffer plain(std::min(from.cipher.length(), kPieceBytes), SecretBuffer::Swap::kAllowed);
    CipherStream stream(decryption(), from.iv);
    for (std::uint64_t at = 0; at < from.cipher.length();) {
      if (at % kAheadBytes == 0 && encrypted().is_far()) {
        const ByteRange ahead(from.cipher.offset() + at,
                              std::min(from.cipher.length() - at, 2 * kAheadBytes));
        encrypted().foresee(std::span(&ahead, 1), Foresight::kNow);
      }
      const auto piece = plain.bytes().first(std::min(from.cipher.length() - at, kPieceBytes));
      read_part(encrypted(), {from.cipher.offset() + at, piece, foreseen});
      stream.decrypt(piece);
      at += piece.size();
    }
    // First, so that a file that changed is called that, and not a wrong key.
    encrypted().check_unchanged();
    if (!stream.verify(from.tag)) throw undecryptable(encrypted(), from, index, decryption());
  }

  mutable VerifiedBlocks verified_;
};

}  // namespace

ByteSourcePtr decrypt_blocks(ByteSourcePtr encrypted, std::shared_ptr<const Decryption> decryption,
                             std::uint64_t block_bytes) {
  if (decryption->mode() == CipherMode::kAesGcm) {
    return std::make_shared<GcmSource>(std::move(encrypted), std::move(decryption), block_bytes);
  }
  return std::make_shared<CbcSource>(std::move(encrypted), std::move(decryption), block_bytes);
}

ByteSourcePtr decrypt(ByteSourcePtr encrypted, std::shared_ptr<const Decryption> decryption) {
  return decrypt_blocks(std::move(encrypted), std::move(decryption), kEncryptedBlockBytes);
}

Error not_encrypted(const std::string& name) {
  return Error(ErrorKind::kBadInput, "is not encrypted, but a key was given")
      .in_file(name)
      .hint("leave out --dec-key-file, or keep encrypted and plain checkpoints apart");
}

ByteSourcePtr open_plain(ByteSourcePtr source,
                         const std::shared_ptr<const Decryption>& decryption) {
  if (decryption) return decrypt(std::move(source), decryption);
  if (const auto mode = encryption_of(*source)) {
    const std::string name(cipher_mode_name(*mode));
    throw Error(ErrorKind::kBadInput, "is encrypted (" + name + ")")
        .in_file(source->name())
        .hint("give --dec-key-file FILE and --dec-mode " + name);
  }
  return source;
}

}  // namespace reshardfs
