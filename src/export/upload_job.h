// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "export/object_target.h"
#include "export/target.h"
#include "transport/s3_open_uploads.h"

namespace reshardfs {

/// Writes a file as an object: small ones by one request, others in parts, one a block.
/// @param begun an upload of the file to go on with, if a process before this one has left one.
std::unique_ptr<WriteJob> upload_job(const ObjectTarget& target, const OutputFile& output,
                                     Manifest& manifest, std::optional<S3BegunUpload> begun);

/// The memory that a block of a file takes.
std::uint64_t upload_memory(std::uint64_t file_bytes) noexcept;

}  // namespace reshardfs
