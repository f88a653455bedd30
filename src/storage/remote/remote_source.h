// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "storage/backend.h"
#include "storage/remote/remote_object.h"

namespace reshardfs {

/// An object of a server, read through the pool and the cache.
/// @throws Error as open_remote_object().
ByteSourcePtr open_remote_source(RemoteAddress address);

/// The same without a request, by what a list has told of the object.
/// @param listed with an ETag.
ByteSourcePtr open_listed_source(RemoteAddress address, const ListedObject& listed);

/// As open_remote_source(), of a URL that is asked for as it is, without a signature of ours.
/// @param name what messages call it
/// @param reader see RemoteAddress
ByteSourcePtr open_web_source(const std::string& name, const std::string& url,
                              const std::string& reader = "");

}  // namespace reshardfs
