// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "storage/backend.h"
#include "storage/pool/range_fetcher.h"
#include "transport/http_engine.h"

namespace reshardfs {

/// How an object of a server is asked for.
struct RemoteAddress {
  std::string name{};  ///< what messages call it: without what may be a secret
  /// The request for it, without a range: URL and signature.
  std::function<HttpRequest()> request{};
  /// What may not be shared with who has other rights: part of its identity.
  std::string reader{};
};

/// Finds out an object's size and version, which stay fixed: whatever is read later is of this
/// version, or fails with kChanged.
/// @throws Error kMissing if there is none; kUnsupported if the server does not serve ranges of it,
///         or gives nothing that tells its versions apart; kIo.
RangeFetcherPtr open_remote_object(RemoteAddress address);

/// The same without a request: the object is of the size and version that a list tells. Until its
/// first bytes have come, nothing shows that whoever asks may read it: see is_opened().
/// @param listed with an ETag.
RangeFetcherPtr open_listed_object(RemoteAddress address, const ListedObject& listed);

/// ListedObject::modified ("2026-01-31T12:34:56.000Z") in nanoseconds since the epoch, in whole
/// seconds as in the header of an answer; 0 if it is no such time.
std::int64_t time_of_list(const std::string& text);

}  // namespace reshardfs
