// SPDX-License-Identifier: Apache-2.0
/// Objects that are written in parts. An object has its name when all of it is there, not before.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/s3_checksum.h"
#include "transport/s3_listing.h"
#include "transport/s3_store.h"

namespace reshardfs {

/// One object that is being written. All member functions make requests and wait.
class S3Upload {
 public:
  /// @param parts how many there will be.
  /// @throws Error kMissing if there is no such bucket, kIo.
  S3Upload(S3Name name, std::size_t parts);
  S3Upload(const S3Upload&) = delete;
  S3Upload& operator=(const S3Upload&) = delete;

  /// Each part once, counted from 0, in any order and from several threads at once. The store
  /// checks that it got these bytes.
  /// @throws Error kIo.
  void send(std::size_t part, std::span<const std::byte> bytes);
  /// Gives the object its name. When the answer is lost, looks at what has become of it.
  /// @return the object's ETag.
  /// @throws Error kIo, also if the store has put other bytes together.
  std::string complete();
  /// Makes the store forget the parts, unless the object is complete. What a server does not do
  /// soon is left: whoever writes the object again does it.
  void abandon() noexcept;

 private:
  /// @return the ETag, or an empty text where the store does not tell.
  std::string complete_once();

  S3Name name_;
  std::string id_;
  std::vector<Md5> sums_;
  std::vector<std::string> etags_;
  std::atomic<bool> comparable_{true};  ///< whether all etags_ are checksums
  bool completed_ = false;
};

/// What CompleteMultipartUpload sends. @param etags without quotation marks, of all parts.
std::string completion_xml(std::span<const std::string> etags);

/// All uploads whose keys begin with that of `prefix`, whoever has begun them.
/// @throws Error kIo, kBadInput.
void list_s3_uploads(const S3Name& prefix, const std::function<void(S3OpenUpload& upload)>& visit);

/// That it is not there is no error. @throws Error kIo.
void abort_s3_upload(const S3Name& name, const std::string& id);

}  // namespace reshardfs
