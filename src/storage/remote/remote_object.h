// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/process/counters.h"
#include "storage/backend.h"
#include "storage/pool/range_fetcher.h"
#include "transport/http_engine.h"

namespace reshardfs {

/// How an object on a server is requested.
struct RemoteAddress {
  std::string name{};  ///< its name in messages, without anything that may be secret
  /// The request for it, without a range: URL and signature.
  std::function<HttpRequest()> request{};
  /// The part of the object's identity that separates users with different rights.
  std::string reader{};
  SourceKind kind = SourceKind::kHttp;  ///< for the counters
};

/// Finds out an object's size and version, which stay fixed: later reads return bytes of this
/// version, or fail with kChanged.
/// @throws Error kMissing if it does not exist; kUnsupported if the server does not serve ranges of
///         it, or reports nothing that distinguishes versions; kIo.
RangeFetcherPtr open_remote_object(RemoteAddress address);

/// The same without a request: a list states the object's size and version. Until its first bytes
/// have arrived, it is unknown whether the user may read it: see is_opened().
/// @param listed with an ETag.
RangeFetcherPtr open_listed_object(RemoteAddress address, const ListedObject& listed);

/// ListedObject::modified ("2026-01-31T12:34:56.000Z") in nanoseconds since the epoch, in whole
/// seconds as in the header of an answer; 0 if it is no such time.
std::int64_t time_of_list(const std::string& text);

/// Opens an object on a server, to be read through the pool and the cache.
/// @throws Error as open_remote_object().
ByteSourcePtr open_remote_source(RemoteAddress address);

/// The same without a request, with the size and version from a list.
/// @param listed with an ETag.
ByteSourcePtr open_listed_source(RemoteAddress address, const ListedObject& listed);

/// Like open_remote_source(), for a URL that is requested as it is, without signing.
/// @param name its name in messages
/// @param reader see RemoteAddress
ByteSourcePtr open_web_source(const std::string& name, const std::string& url,
                              const std::string& reader = "");

}  // namespace reshardfs
