// SPDX-License-Identifier: Apache-2.0
/// How an S3-compatible store and who writes to it make sure that they have the same bytes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace reshardfs {

using Md5 = std::array<unsigned char, 16>;

/// @throws Error kUnsupported where MD5 is switched off, as FIPS demands.
Md5 md5_of(std::span<const std::byte> bytes);
/// As the header Content-MD5 has it.
std::string base64(const Md5& sum);
/// The ETag of an object that was written by one request.
std::string etag_of(const Md5& sum);
/// The ETag of an object that was written in parts: the MD5 of their MD5s, and how many there are.
std::string etag_of_parts(std::span<const Md5> parts);

/// Whether an ETag is made as above. Stores that encrypt with keys of their own have others, which
/// cannot be compared with anything.
bool is_checksum_etag(std::string_view etag) noexcept;

/// Bytes of each part of an object but the last: 8 MiB, as other programs take, and more only where
/// there would be more than 10,000 parts, which is the most that S3 takes. Depends on nothing else,
/// so that an object has the same ETag whoever writes it.
std::uint64_t s3_part_bytes(std::uint64_t object_bytes) noexcept;

}  // namespace reshardfs
