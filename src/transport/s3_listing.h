// SPDX-License-Identifier: Apache-2.0
/// What an S3-compatible store answers in XML.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace reshardfs {

/// One page of ListObjectsV2.
struct S3Page {
  std::vector<std::string> keys{};      ///< of objects
  std::vector<std::string> prefixes{};  ///< what stands for a directory, with its slash
  std::string next{};                   ///< the token of the next page; empty after the last
};

/// @param name what an error names.
/// @throws Error kBadInput if it is no such answer.
S3Page parse_s3_page(std::string_view xml, const std::string& name);

/// The text of the first element of a name anywhere in the document, such as an error's "Code" or
/// a multipart upload's "UploadId"; empty if there is none, or it is no XML.
std::string xml_text(std::string_view xml, std::string_view element);

}  // namespace reshardfs
