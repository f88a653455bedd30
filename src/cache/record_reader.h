// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cache/cache_directory.h"
#include "cache/kept_records.h"
#include "cache/record.h"

namespace reshardfs {

enum class Found : std::uint8_t {
  kThere,
  kMissing,
  kBad,     ///< it was there, but was not what it should be: it has been removed
  kFailed,  ///< the system did not give it out
};

/// Reads a part of a record's content, all pieces of which have been checked.
/// @param length of the whole content, which the record must have.
/// @param out undefined if the result is not kThere. What does not lie within the record is
/// missing.
Found read_record(const CacheDirectory& directory, KeptRecords& kept, const RecordId& id,
                  std::uint64_t length, std::uint64_t offset, std::span<std::byte> out) noexcept;

/// Reads all of a record of any length.
/// @param max_length longer ones are not what they should be.
Found read_record(const CacheDirectory& directory, const RecordId& id, std::uint64_t max_length,
                  std::string& out) noexcept;

}  // namespace reshardfs
