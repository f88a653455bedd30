// SPDX-License-Identifier: Apache-2.0
/// What an S3-compatible store answers in XML.
#pragma once

#include <cstdint>
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

struct S3Object {
  std::string key{};
  std::uint64_t size = 0;
  std::string etag{};      ///< without quotation marks
  std::string modified{};  ///< as the store writes it
};

/// One page of ListObjectsV2 without a delimiter.
struct S3ObjectPage {
  std::vector<S3Object> objects{};
  std::string next{};  ///< the token of the next page; empty after the last
};

/// @throws Error kBadInput as parse_s3_page().
S3ObjectPage parse_s3_objects(std::string_view xml, const std::string& name);

/// A multipart upload that has been neither completed nor aborted.
struct S3OpenUpload {
  std::string key{};
  std::string id{};
};

/// One page of ListMultipartUploads.
struct S3UploadPage {
  std::vector<S3OpenUpload> uploads{};
  /// Where the next page begins; without a key there is none.
  S3OpenUpload next{};
};

/// @throws Error kBadInput as parse_s3_page().
S3UploadPage parse_s3_uploads(std::string_view xml, const std::string& name);

/// A part of an upload that has been neither completed nor aborted.
struct S3Part {
  std::uint64_t number = 0;  ///< counted from 1
  std::uint64_t size = 0;
  std::string etag{};  ///< without quotation marks
};

/// One page of ListParts.
struct S3PartPage {
  std::vector<S3Part> parts{};
  /// The number after which the next page begins; 0 after the last.
  std::uint64_t next = 0;
  /// Whether the upload was begun so that each part has to come with a checksum other than its MD5.
  bool needs_checksums = false;
};

/// @throws Error kBadInput as parse_s3_page().
S3PartPage parse_s3_parts(std::string_view xml, const std::string& name);

/// An ETag as a header or XML has it, without its quotation marks.
std::string bare_etag(std::string_view etag);

/// The text of the first element of a name anywhere in the document, such as an error's "Code" or
/// a multipart upload's "UploadId"; empty if there is none, or it is no XML.
std::string xml_text(std::string_view xml, std::string_view element);

}  // namespace reshardfs
