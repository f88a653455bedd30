// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <string>

#include "reshardfs/error.h"

#include "base/text/near_name.h"
#include "storage/backend.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

using Get = const Backend& (*)();

/// All backends there are.
constexpr std::array<Get, 4> kBackends{
    file_backend,
    web_backend,
    s3_backend,
    url_list_backend,
};

/// What to do about a place that other programs read by itself; empty: nothing is known.
std::string way_to(const std::string& scheme) {
  constexpr std::array<std::string_view, 5> kWithS3Endpoints{"gs", "oss", "obs", "cos", "r2"};
  if (scheme == "hf") {
    return "download the model first, with 'hf download ORG/NAME', and give the directory that "
           "this prints";
  }
  const bool has_endpoint =
      std::find(kWithS3Endpoints.begin(), kWithS3Endpoints.end(), scheme) != kWithS3Endpoints.end();
  return has_endpoint ? "give s3://BUCKET/PATH, and the S3-compatible endpoint of this store with "
                        "--s3-endpoint"
                      : "";
}

}  // namespace

const Backend& backend_of(const std::filesystem::path& location) {
  if (!is_url(location)) return file_backend();
  const std::string scheme = scheme_of(location);
  for (const Get get : kBackends) {
    const Backend& backend = get();
    const auto schemes = backend.schemes();
    if (std::find(schemes.begin(), schemes.end(), scheme) != schemes.end()) return backend;
  }
  std::string known;
  for (const std::string_view name : url_schemes()) {
    known.append(known.empty() ? "" : ", ").append(name);
  }
  throw Error(ErrorKind::kUnsupported, "URLs that begin with '" + printable(scheme) +
                                           "://' are not supported; available: " + known)
      .in_file(location.string())
      .hint(way_to(scheme));
}

std::vector<std::string_view> url_schemes() {
  std::vector<std::string_view> out;
  for (const Get get : kBackends) {
    for (const std::string_view scheme : get().schemes()) {
      if (!scheme.empty()) out.push_back(scheme);
    }
  }
  return out;
}

ByteSourcePtr open_file(const std::filesystem::path& path) {
  return backend_of(path).open(path);
}

}  // namespace reshardfs
