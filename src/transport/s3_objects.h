// SPDX-License-Identifier: Apache-2.0
/// Whole objects of an S3-compatible store. All of these make requests and wait.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "transport/http_engine.h"
#include "transport/s3_checksum.h"
#include "transport/s3_listing.h"
#include "transport/s3_store.h"
#include "transport/text_receiver.h"

namespace reshardfs {

/// As messages name it: "s3://BUCKET/KEY".
std::string shown_s3(const S3Name& name);

/// The objects whose keys begin with that of `prefix`, in the order of their keys.
/// @param visit @return whether to go on
/// @throws Error kMissing if there is no such bucket, kIo, kBadInput.
void list_s3_objects(const S3Name& prefix, const std::function<bool(S3Object& object)>& visit);

/// @return nothing if there is none. @throws Error kIo.
std::optional<S3Object> look_at_s3_object(const S3Name& name);

/// @return nothing if there is none.
/// @throws Error kBadInput if it has more than `most` bytes, kIo.
std::optional<std::string> read_s3_text(const S3Name& name, std::size_t most);

/// Writes an object in one request; the store checks that it got these bytes.
/// @return its ETag. @throws Error kIo, also if the store has other bytes; kMissing if there is no
/// such bucket.
std::string write_s3_object(const S3Name& name, std::span<const std::byte> bytes);

/// That it is not there is no error. @throws Error kIo.
void remove_s3_object(const S3Name& name);

/// How long it is worth to try to send so many bytes: longer than settings say, by the time that a
/// slow link takes.
std::chrono::milliseconds patience_to_send(std::size_t bytes);

/// The most bytes of a page of a list: 1,000 keys of 1,024 bytes at most, each of which may be
/// three when encoded.
inline constexpr std::size_t kMaxS3Page = std::size_t{16} << 20U;
/// And of any other answer of a store.
inline constexpr std::size_t kMaxS3Answer = std::size_t{64} << 10U;

/// A receiver for an answer of at most that many bytes, which reports refusals with their meaning
/// in S3.
std::shared_ptr<TextReceiver> s3_receiver(const S3Name& name, std::size_t most);

/// Takes the ETag of an answer to a request that has written these bytes.
/// @return it, without quotation marks.
/// @throws Error kIo if it says that the store has others.
std::string checked_etag(const HttpHead& head, const Md5& sum, const S3Name& name);

}  // namespace reshardfs
