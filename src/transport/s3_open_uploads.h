// SPDX-License-Identifier: Apache-2.0
/// Uploads in parts that have been neither completed nor aborted. The store keeps their parts, and
/// charges for them. All of these make requests and wait.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>

#include "transport/s3_listing.h"
#include "transport/s3_store.h"

namespace reshardfs {

/// All uploads whose keys begin with that of `prefix`, from any process.
/// @throws Error kIo, kBadInput.
void list_s3_uploads(const S3Name& prefix, const std::function<void(S3OpenUpload& upload)>& visit);

/// That it is not there is no error. @throws Error kIo.
void abort_s3_upload(const S3Name& name, const std::string& id);

/// The parts that an upload has so far.
struct S3BegunUpload {
  std::string id{};
  std::map<std::size_t, S3Part> parts{};  ///< counted from 0, as S3Upload does
  /// Whether all of them must be named with checksums that the store does not tell here.
  bool needs_checksums = false;
};

/// @throws Error kMissing if the upload is not there any more, kIo, kBadInput.
S3BegunUpload look_at_s3_upload(const S3Name& name, const std::string& id);

}  // namespace reshardfs
