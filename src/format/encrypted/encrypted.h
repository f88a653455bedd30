// SPDX-License-Identifier: Apache-2.0
/// Encrypted .ckpt files, seen as the plain files that they hold. Bytes are decrypted when they are
/// read, in memory: nothing decrypted is ever written to disk, and none of it is kept.
///
/// AES-GCM has one tag for each block of 64 MiB. The first time that a byte of a block is asked
/// for, the whole block is read and compared with its tag, and what it decrypts to is thrown away.
/// From then on any range of the block is read and decrypted by itself. So each block is verified
/// once for each time that its file is opened, in whatever order it is read, and the memory needed
/// is the same for any number of files. An index has headers in nearly every block: opening a set
/// reads and verifies nearly all of it.
///
/// What a later read finds is not compared with the tag again, and a bit that is changed in the
/// cipher bytes changes the same bit of the plain ones. It is the bytes that were verified because
/// the file is still the one that was: device, inode, size and times are compared with those at
/// opening when a block has been verified, and by the caller after each batch of reads, before its
/// bytes are given out (ByteSource::check_unchanged()). This notices whatever is written through
/// the file system, on purpose or not. It does not notice what goes around the file's times: who
/// can write to the disk or the file server below the file system, or set the clock; a disk that
/// returns other bytes the second time; a write into a shared mapping that the system has not
/// noted yet; two writes within one tick of the clock that times are taken from, around the
/// opening. Against these a block is protected when it is verified, and not later. Only a copy
/// that was decrypted and verified as a whole would be: that needs memory for all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "reshardfs/error.h"

#include "format/encrypted/encrypted_memory.h"
#include "storage/byte_source.h"

using EVP_CIPHER = struct evp_cipher_st;

namespace reshardfs {

enum class CipherMode : std::uint8_t {
  kAesGcm,  ///< authenticated: a wrong key or a changed byte is always noticed
  kAesCbc,  ///< not authenticated: a wrong key is noticed by chance only, see Decryption::explain()
  kSm4Cbc,  ///< as kAesCbc
};

/// "AES-GCM", "AES-CBC" or "SM4-CBC".
std::string_view cipher_mode_name(CipherMode mode) noexcept;

/// How to decrypt: a mode and a key. Immutable; any number of threads may use it at once.
/// The key is kept out of swap and core dumps as far as the system allows, is overwritten at
/// destruction, and is in no message.
class Decryption {
 public:
  /// Reads a key file: the 16, 24 or 32 bytes of the key themselves, or as hexadecimal digits, with
  /// or without a newline at the end. A file that can be read both ways (32 hexadecimal digits are
  /// 32 bytes as well) is taken as hexadecimal: a random key that looks so is most unlikely.
  /// @param mode "AES-GCM", "AES-CBC" or "SM4-CBC".
  /// @throws Error kUsage for another mode; kBadInput for a key length that the mode does not have;
  ///         kUnsupported if this system's OpenSSL does not have the mode; kMissing, kIo.
  static std::shared_ptr<const Decryption> load(const std::filesystem::path& key_file,
                                                const std::string& mode);

  /// The same, but nullptr if no key file is named.
  static std::shared_ptr<const Decryption> load_if_named(const std::filesystem::path& key_file,
                                                         const std::string& mode);

  Decryption(const Decryption&) = delete;
  Decryption& operator=(const Decryption&) = delete;
  ~Decryption() = default;

  CipherMode mode() const noexcept { return mode_; }
  /// What the user should know (the key file can be read by others), one line; else empty.
  const std::string& warning() const noexcept { return warning_; }

  /// What to do if this key does not fit a file.
  std::string key_hint() const;

  /// For an error that arose in making sense of a decrypted file, not in decrypting it: where the
  /// mode cannot tell a wrong key, a kBadInput or kUnsupported error says that the key may be wrong
  /// (and its byte offset goes). Others stay as they are. Returns `error`.
  Error& explain(Error& error) const;

 private:
  friend class CipherStream;
  Decryption(CipherMode mode, SecretBuffer key, bool hexadecimal);

  CipherMode mode_;
  SecretBuffer key_;
  bool hexadecimal_;
  std::string warning_;
  std::shared_ptr<EVP_CIPHER> cipher_;
  std::shared_ptr<EVP_CIPHER> range_cipher_;  ///< AES-GCM only: what decrypts a part of a block
};

/// The mode in which a file is encrypted, by its first bytes; nothing if it is not encrypted. No
/// plain .ckpt or safetensors file begins like that.
std::optional<CipherMode> encryption_of(const ByteSource& source);
/// The same by the file's first bytes, which are kCipherMagicBytes.
inline constexpr std::size_t kCipherMagicBytes = 4;
std::optional<CipherMode> encryption_of(std::span<const std::byte> first_bytes);
bool looks_encrypted(const ByteSource& source);

/// The plain bytes of an encrypted file. Its size() is the plain size; name(), mtime_ns() and
/// check_unchanged() are those of `encrypted`. Making it reads the header and the last bytes of
/// each block of 64 MiB. Reading from it reads and decrypts the range asked for (with CBC up to 46
/// bytes more), a piece at a time; with AES-GCM each block that is read for the first time is
/// verified before that, which takes some hundredths of a second and the time to read 64 MiB.
/// Others that want the same block wait; if that fails, they fail too, and the next read tries
/// again.
/// @throws Error kBadInput, here and on reading, with file and block: not encrypted, encrypted in
///         another mode, damaged, or the key is wrong; what `encrypted` throws.
ByteSourcePtr decrypt(ByteSourcePtr encrypted, std::shared_ptr<const Decryption> decryption);

/// What a file is that was to be decrypted.
Error not_encrypted(const std::string& name);

/// What a reader of checkpoints opens: `source` itself where no key is given, decrypt() otherwise.
/// @param decryption may be nullptr.
/// @throws Error kBadInput for an encrypted file without a key and for a plain file with one; what
///         decrypt() throws.
ByteSourcePtr open_plain(ByteSourcePtr source, const std::shared_ptr<const Decryption>& decryption);

}  // namespace reshardfs
