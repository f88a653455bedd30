// SPDX-License-Identifier: Apache-2.0
/// Paths that may be URLs. A URL is kept as a path: its text is the URL without a query, percent
/// signs decoded, so that names are joined to it as to any other, and messages show no secret.
#pragma once

#include <filesystem>
#include <string>

#include "base/text/url_path.h"

namespace reshardfs {

/// "s3" of "s3://bucket/key"; empty for a path.
std::string scheme_of(const std::filesystem::path& path);

/// A location as it is given on a command line: an absolute path, or a URL as this header says. A
/// URL's query (a signature) is kept for the requests for it.
/// @throws Error kUsage for a URL that has a user's name and password in it, kUnsupported for one
///         of a scheme without a backend.
std::filesystem::path absolute_location(const std::string& text);

/// The same for a source: a JSON list of URLs becomes the directory that it describes, see
/// url_list_backend.cpp.
std::filesystem::path absolute_source(const std::string& text);

/// The URL to ask a web server for: percent-encoded, with its query if it was given with one.
std::string web_url(const std::filesystem::path& location);

/// As the user may write it: what messages and logs show in place of a location.
std::string shown_location(const std::string& text);

}  // namespace reshardfs
