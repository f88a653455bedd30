// SPDX-License-Identifier: Apache-2.0
#include "storage/remote/remote_source.h"

#include <memory>
#include <utility>

#include "storage/pool/pooled_source.h"

namespace reshardfs {

ByteSourcePtr open_remote_source(RemoteAddress address) {
  return std::make_shared<PooledSource>(open_remote_object(std::move(address)));
}

ByteSourcePtr open_listed_source(RemoteAddress address, const ListedObject& listed) {
  return std::make_shared<PooledSource>(open_listed_object(std::move(address), listed));
}

ByteSourcePtr open_web_source(const std::string& name, const std::string& url,
                              const std::string& reader) {
  const auto ask = [name, url] {
    HttpRequest request;
    request.url = url;
    request.name = name;
    return request;
  };
  return open_remote_source({.name = name, .request = ask, .reader = reader});
}

}  // namespace reshardfs
