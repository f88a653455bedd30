// SPDX-License-Identifier: Apache-2.0
/// URLs as text: without a library, so that a path is told from a URL at no cost.
#pragma once

#include <string>
#include <string_view>

namespace reshardfs {

/// Percent-encodes all but letters, digits and "-._~" (RFC 3986's unreserved characters), and "/"
/// if it is to be kept.
std::string url_encoded(std::string_view text, bool keep_slashes);

/// Replaces %XX by bytes; a "%" that no two hexadecimal digits follow stays as it is.
std::string url_decoded(std::string_view text);

/// scheme://authority/path?query, the parts as they stand in the text.
struct UrlParts {
  std::string scheme;     ///< lower case
  std::string authority;  ///< [user@]host[:port]; may be empty
  std::string path;       ///< with its leading slash; empty if there is none
  std::string query;      ///< with its "?"; empty if there is none
};

/// @return without a scheme if `text` is no URL ("scheme://...").
UrlParts split_url(std::string_view text);

/// "scheme://authority": the receiver of data that is meant only for this host.
std::string origin_of(std::string_view url);

}  // namespace reshardfs
