// SPDX-License-Identifier: Apache-2.0
/// Checksums by which an S3-compatible store and a writer verify that they have the same bytes.
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

/// The size of each part of an object except the last: 8 MiB, as in other programs, and more only
/// if there would be more than 10,000 parts, the limit of S3. It depends on nothing else, so that
/// every writer of an object gets the same ETag.
std::uint64_t s3_part_bytes(std::uint64_t object_bytes) noexcept;

}  // namespace reshardfs
