// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <string>

#include "fuzz/fuzzing.h"
#include "storage/location.h"
#include "transport/url.h"

using namespace reshardfs;
using fuzz::require;

namespace {

void check_encoding(const std::string& text) {
  for (const bool keep : {false, true}) {
    const std::string encoded = url_encoded(text, keep);
    require(url_decoded(encoded) == text, "decoded it is another text");
    require(encoded.find_first_of(" ?#&+\"<>\r\n") == std::string::npos, "a bare character");
    require(keep || encoded.find('/') == std::string::npos, "a slash");
  }
  require(url_decoded(text).size() <= text.size(), "decoding adds something");
}

void check_parts(const std::string& text) {
  const UrlParts parts = split_url(text);
  if (parts.scheme.empty()) {
    require(parts.authority.empty() && parts.path.empty(), "parts of no URL");
    return;
  }
  require(parts.path.empty() || parts.path.front() == '/', "a path without its slash");
  require(parts.query.empty() || parts.query.front() == '?', "a query without its mark");
  require(parts.authority.find('/') == std::string::npos, "a host with a slash");
  const std::string whole = parts.authority + parts.path + parts.query;
  require(text.compare(parts.scheme.size() + 3, whole.size(), whole) == 0, "other parts");
  require(origin_of(text).size() == parts.scheme.size() + 3 + parts.authority.size(),
          "another origin");
}

void check_location(const std::string& text) {
  fuzz::may_refuse([&] {
    const std::filesystem::path location = absolute_location(text);
    require(is_url(location) == !split_url(text).scheme.empty(), "a path that is a URL");
    const std::string scheme = scheme_of(location);
    if (scheme != "http" && scheme != "https") return;
    const UrlParts parts = split_url(text);
    require(web_url(location).ends_with(parts.query), "the query is lost");
    // How a URL was given is kept, so this must be a name that none has been given with.
    static unsigned long names = 0;
    const std::string number = std::to_string(++names);
    require(web_url(location / ("x y" + number)).ends_with("/x%20y" + number), "another file");
    require(shown_location(text).find('?') == std::string::npos, "a query is shown");
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  check_encoding(text);
  check_parts(text);
  // A path has no byte 0.
  if (text.find('\0') == std::string::npos && !text.empty()) check_location(text);
  return 0;
}
