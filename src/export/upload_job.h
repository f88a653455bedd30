// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "export/object_target.h"
#include "export/target.h"
#include "transport/s3_upload.h"

namespace reshardfs {

/// The uploads to go on with, by the paths of their files.
using BegunUploads = std::map<std::string, S3BegunUpload>;

/// Finds uploads of these files that earlier processes began. For each file to be written it
/// continues the upload with the most parts of the right numbers and sizes. It aborts all others,
/// because stored parts cost money and no list of objects shows them.
/// @param files all that this process exports; uploads of others are not touched.
/// @param pending the files to be written.
/// @param warnings gets what the store refuses; what cannot be listed is not gone on with.
BegunUploads take_begun_uploads(const ObjectTarget& target, const OutputFiles& files,
                                const OutputFiles& pending, std::vector<std::string>& warnings);

/// Writes a file as an object: small ones by one request, others in parts, one a block.
/// @param begun an upload of the file to go on with, if a process before this one has left one.
std::unique_ptr<WriteJob> upload_job(const ObjectTarget& target, const OutputFile& output,
                                     Manifest& manifest, std::optional<S3BegunUpload> begun);

/// The memory that a block of a file takes.
std::uint64_t upload_memory(std::uint64_t file_bytes) noexcept;

}  // namespace reshardfs
