// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "storage/backend.h"
#include "storage/remote/remote_object.h"

namespace reshardfs {

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
