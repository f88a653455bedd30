// SPDX-License-Identifier: Apache-2.0
#include "storage/location.h"

#include <map>
#include <string_view>

#include "reshardfs/error.h"

#include "base/process/process_state.h"
#include "base/text/file_name.h"
#include "storage/backend.h"
#include "storage/local/hub_cache.h"
#include "transport/url.h"

namespace reshardfs {
namespace {

constexpr std::string_view kListScheme = "urls://";

/// URLs as they were given, by their location. Read and written under a ForkLock.
std::map<std::string, std::string> given_urls;

/// Where the host begins in a location of a web server.
std::size_t host_of(const std::string& location) {
  return location.find("://") + 3;
}

/// @param given what web_url() is to return for the location.
/// @return the location; with a number before the host, where users have no name, if another URL
///         was given that has the same one: a query may tell one object from another.
std::string remembered(const std::string& location, const std::string& given) {
  const ForkLock lock;
  std::string own = location;
  for (std::size_t number = 2;; ++number) {
    if (given_urls.try_emplace(own, given).first->second == given) return own;
    own = location;
    own.insert(host_of(own), std::to_string(number) + "@");
  }
}

bool is_web(std::string_view scheme) noexcept {
  return scheme == "http" || scheme == "https";
}

std::string without_slashes(std::string text, std::size_t least) {
  while (text.size() > least && text.ends_with('/')) text.pop_back();
  return text;
}

std::string location_of_web(const UrlParts& parts, const std::string& text) {
  if (parts.authority.find('@') != std::string::npos) {
    throw Error(ErrorKind::kUsage, "the URL has a user name in it, which other users can see")
        .in_file(shown_location(text))
        .hint("put the name and the password into ~/.netrc");
  }
  if (parts.authority.empty()) {
    throw Error(ErrorKind::kUsage, "is not a valid URL: there is no host")
        .in_file(shown_location(text));
  }
  const std::string root = origin_of(text);
  const std::string location = without_slashes(root + url_decoded(parts.path), root.size());
  // A user may write it without percent-encoding.
  std::string path;
  for (const char c : parts.path) {
    const bool must_be_encoded = c <= ' ' || c >= '\x7f' ||
                                 std::string_view("\"<>\\^`{|}").find(c) != std::string_view::npos;
    path += must_be_encoded ? url_encoded(std::string_view(&c, 1), /*keep_slashes=*/true)
                            : std::string(1, c);
  }
  return remembered(location, without_slashes(root + path, root.size()) + parts.query);
}

}  // namespace

std::string scheme_of(const std::filesystem::path& path) {
  return split_url(path.native()).scheme;
}

std::string shown_location(const std::string& text) {
  if (!is_url(text)) return text;
  const UrlParts parts = split_url(text);
  const std::size_t user = parts.authority.find('@');
  const std::string host =
      user == std::string::npos ? parts.authority : parts.authority.substr(user + 1);
  return parts.scheme + "://" + host + parts.path;
}

std::filesystem::path absolute_location(const std::string& text) {
  if (!is_url(text)) return std::filesystem::absolute(text);
  const UrlParts parts = split_url(text);
  backend_of(parts.scheme + "://");  // for its error
  if (is_web(parts.scheme)) return location_of_web(parts, text);
  return without_slashes(parts.scheme + text.substr(text.find("://")), parts.scheme.size() + 3);
}

std::filesystem::path absolute_source(const std::string& text) {
  const std::filesystem::path location = absolute_location(text);
  std::error_code failed;
  const bool is_list = location.extension() == ".json" &&
                       !is_index_name(location.filename().string()) &&
                       !text.starts_with(kListScheme) &&
                       (is_url(location) || !std::filesystem::is_directory(location, failed));
  if (!is_list) return snapshot_or(location);
  return std::string(kListScheme) + location.string();
}

std::string web_url(const std::filesystem::path& location) {
  {
    const ForkLock lock;
    const auto given = given_urls.find(location.native());
    if (given != given_urls.end()) return given->second;
  }
  std::string text = location.native();
  const std::size_t host = host_of(text);
  const std::size_t number = text.find('@', host);
  if (number < text.find('/', host)) text.erase(host, number + 1 - host);
  const std::size_t path = text.find('/', host);
  if (path == std::string::npos) return text;
  return text.substr(0, path) + url_encoded(text.substr(path), /*keep_slashes=*/true);
}

}  // namespace reshardfs
