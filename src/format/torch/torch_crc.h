// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reshardfs/error.h"

#include "base/byte_range.h"
#include "format/input_format.h"
#include "storage/byte_source.h"

namespace reshardfs {

/// An entry of an archive of torch.save that states the CRC-32 of its bytes.
struct TorchCrcEntry {
  std::string name;  ///< without the archive's folder: "data/0"
  ByteRange place;   ///< in the source
  std::uint32_t crc = 0;
};

/// What an archive states. torch.save() writes 0 for all entries after set_crc32_options(False),
/// and for those of tensors within skip_data().
struct TorchCrcs {
  std::vector<TorchCrcEntry> entries;
  bool are_all = false;  ///< neither data.pkl nor a tensor's bytes lack their CRC-32
};

/// @param place of the archive in the source.
/// @return nothing for what is no archive, such as a file from before PyTorch 1.6.
/// @throws Error as TorchZip.
TorchCrcs torch_crcs(const ByteSource& source, const ByteRange& place);

/// The error that a file differs from its CRC.
/// @param record of an archive; empty: it is that of the whole file.
Error crc_mismatch(const ByteSource& source, const std::string& record);

/// Reads the entry in blocks of 1 MiB.
bool matches(const ByteSource& source, const TorchCrcEntry& entry);

/// Compares all entries of a file. kNoTrailer unless TorchCrcs::are_all.
CrcCheck check_torch_crc(const ByteSource& source);

}  // namespace reshardfs
