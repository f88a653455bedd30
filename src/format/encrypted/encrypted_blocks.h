// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/byte_range.h"
#include "format/encrypted/encrypted.h"
#include "format/encrypted/encrypted_cipher.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// Plain bytes of each block but the last.
inline constexpr std::uint64_t kEncryptedBlockBytes = 64ULL << 20;
static_assert(kGcmFirstCounter + (kEncryptedBlockBytes - 1) / kCipherBlockBytes <= kGcmLastCounter);

/// One block of an encrypted file: a header and cipher bytes.
struct EncryptedBlock {
  std::array<std::byte, kIvBytes> iv{};
  std::array<std::byte, kTagBytes> tag{};  ///< AES-GCM only
  ByteRange cipher;                        ///< in the file
  std::uint64_t plain_bytes = 0;
};

/// The blocks of a file: at least one, all but the last of exactly `block_bytes` plain bytes, and
/// nothing behind them. With CBC the padding of each block has been checked.
/// @throws Error kBadInput with file and offset for anything else; what `source` throws.
std::vector<EncryptedBlock> read_encrypted_blocks(const ByteSource& source,
                                                  const Decryption& decryption,
                                                  std::uint64_t block_bytes);

/// That the bytes of block `index` are not what was encrypted with this key.
Error undecryptable(const ByteSource& source, const EncryptedBlock& block, std::uint64_t index,
                    const Decryption& decryption);

/// As decrypt() of encrypted.h, for files cut into blocks of another size (in tests).
/// @param block_bytes a multiple of kCipherBlockBytes.
ByteSourcePtr decrypt_blocks(ByteSourcePtr encrypted, std::shared_ptr<const Decryption> decryption,
                             std::uint64_t block_bytes);

}  // namespace reshardfs
