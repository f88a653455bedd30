// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "reshardfs/conversion.h"

#include "export/object_target.h"
#include "transport/s3_open_uploads.h"

namespace reshardfs {

/// The uploads to go on with, by the paths of their files.
using BegunUploads = std::map<std::string, S3BegunUpload>;

/// Looks for uploads of these files that processes before this one have begun. Of each file that is
/// to be written it takes the one that has most parts of the right numbers and sizes. It aborts all
/// others, because their parts are paid for, and no list of objects shows them.
/// @param files all that this process exports; uploads of others are not touched.
/// @param pending those of them that are to be written.
/// @param warnings gets what the store refuses; what cannot be listed is not gone on with.
BegunUploads take_begun_uploads(const ObjectTarget& target, const OutputFiles& files,
                                const OutputFiles& pending, std::vector<std::string>& warnings);

}  // namespace reshardfs
