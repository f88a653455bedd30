// SPDX-License-Identifier: Apache-2.0
/// Objects that are written in parts. An object has its name when all of it is there, not before.
/// Of uploads that have been neither completed nor aborted, the store keeps the parts, and charges
/// for them; to list, read or abort these makes requests and waits.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "transport/http_engine.h"
#include "transport/s3_checksum.h"
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

/// One object that is being written. All member functions make requests and wait.
class S3Upload {
 public:
  /// @param parts how many there will be.
  /// @throws Error kMissing if there is no such bucket, kIo.
  S3Upload(S3Name name, std::size_t parts);
  /// Goes on with one that a process before this one has begun. Makes no request.
  S3Upload(S3Name name, std::size_t parts, S3BegunUpload begun);
  S3Upload(const S3Upload&) = delete;
  S3Upload& operator=(const S3Upload&) = delete;

  /// Each part once, counted from 0, in any order and from several threads at once. The store
  /// checks that it got these bytes. A part that is there is not sent if it has their size and MD5;
  /// else it is replaced.
  /// @return whether it was sent.
  /// @throws Error kIo.
  bool send(std::size_t part, std::span<const std::byte> bytes);
  /// Whether an earlier process sent a part of this number, with any contents.
  bool was_begun(std::size_t part) const { return begun_.contains(part); }
  /// Whether there is something that another process could go on with. Not while threads send.
  bool has_parts() const;
  /// Gives the object its name. When the answer is lost, looks at what has become of it.
  /// @return the object's ETag.
  /// @throws Error kIo, also if the store has put other bytes together.
  std::string complete();
  /// Makes the store delete the parts, unless the object is complete. If the server does not do so
  /// soon, the parts stay until the object is written again.
  void abandon() noexcept;

 private:
  /// Notes that the upload is not there any more, if that is the answer.
  void perform(HttpRequest request, const std::shared_ptr<HttpReceiver>& receiver);
  bool has(std::size_t part, std::size_t size, const Md5& sum) const;
  /// @return the ETag, or an empty text where the store does not tell.
  std::string complete_once();

  S3Name name_;
  std::string id_;
  std::map<std::size_t, S3Part> begun_;  ///< what was there already
  std::vector<Md5> sums_;
  std::vector<std::string> etags_;
  std::atomic<bool> comparable_{true};  ///< whether all etags_ are checksums
  std::atomic<bool> lost_{false};       ///< the store does not know it any more
  std::atomic<bool> useless_{false};    ///< the store would not take it the next time, either
  bool completed_ = false;
};

/// What CompleteMultipartUpload sends. @param etags without quotation marks, of all parts.
std::string completion_xml(std::span<const std::string> etags);

}  // namespace reshardfs
