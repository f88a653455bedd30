// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reshardfs {

struct WebEntry {
  std::string name;  ///< decoded, without a slash
  bool is_directory = false;
  bool operator==(const WebEntry&) const = default;
};

/// The entries of a web server's list of a directory: JSON as nginx writes it, or the links of an
/// HTML page that lead to something directly below it. What else there is on the page is passed
/// over: a heading, links that sort, the parent directory.
/// @param url of the page, with a slash at its end.
/// @throws Error kBadInput for JSON that is no such list.
std::vector<WebEntry> parse_web_index(std::string_view content_type, std::string_view page,
                                      const std::string& url);

}  // namespace reshardfs
