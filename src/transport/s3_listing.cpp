// SPDX-License-Identifier: Apache-2.0
#include "transport/s3_listing.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>

#include <expat.h>

#include "reshardfs/error.h"

#include "transport/http_message.h"
#include "transport/url.h"

namespace reshardfs {
namespace {

// A page has at most 1,000 keys of 1,024 bytes, each of which may be three bytes when encoded.
constexpr std::size_t kMaxDepth = 16;

struct FreeParser {
  void operator()(XML_Parser parser) const noexcept { ::XML_ParserFree(parser); }
};

/// Elements as they end, with the path that leads to them and their text.
class Walk {
 public:
  using Visit = std::function<void(const std::vector<std::string>& path, const std::string& text)>;

  explicit Walk(Visit visit) : visit_(std::move(visit)), parser_(::XML_ParserCreate(nullptr)) {
    if (!parser_) throw std::bad_alloc();
    ::XML_SetUserData(parser_.get(), this);
    ::XML_SetElementHandler(parser_.get(), &Walk::begin, &Walk::end);
    ::XML_SetCharacterDataHandler(parser_.get(), &Walk::text);
    ::XML_SetStartDoctypeDeclHandler(parser_.get(), &Walk::doctype);
  }

  /// @return whether it was well-formed, and no deeper than is needed.
  bool run(std::string_view xml) {
    return ::XML_Parse(parser_.get(), xml.data(), static_cast<int>(xml.size()), 1) == XML_STATUS_OK;
  }

 private:
  static Walk& self(void* data) { return *static_cast<Walk*>(data); }

  static void XMLCALL begin(void* data, const XML_Char* name, const XML_Char** /*attributes*/) {
    Walk& walk = self(data);
    if (walk.path_.size() == kMaxDepth) {
      ::XML_StopParser(walk.parser_.get(), XML_FALSE);
      return;
    }
    walk.path_.emplace_back(name);
    walk.text_.clear();
  }
  static void XMLCALL end(void* data, const XML_Char* /*name*/) {
    Walk& walk = self(data);
    if (walk.path_.empty()) return;
    walk.visit_(walk.path_, walk.text_);
    walk.path_.pop_back();
    walk.text_.clear();
  }
  static void XMLCALL text(void* data, const XML_Char* characters, int length) {
    self(data).text_.append(characters, static_cast<std::size_t>(length));
  }
  /// No store sends one; it is where entities are declared.
  static void XMLCALL doctype(void* data, const XML_Char* /*name*/, const XML_Char* /*system*/,
                              const XML_Char* /*public_id*/, int /*has_internal*/) {
    ::XML_StopParser(self(data).parser_.get(), XML_FALSE);
  }

  Visit visit_;
  std::unique_ptr<std::remove_pointer_t<XML_Parser>, FreeParser> parser_;
  std::vector<std::string> path_;
  std::string text_;
};

/// A key as a list encodes it, which is how forms do it: a space may be "+".
std::string listed_key(std::string text) {
  std::replace(text.begin(), text.end(), '+', ' ');
  return url_decoded(text);
}

Error no_list(const std::string& what, const std::string& name) {
  return Error(ErrorKind::kBadInput, "the store's answer is not a list of " + what).in_file(name);
}

Error no_next_page(const std::string& name) {
  return Error(ErrorKind::kBadInput, "the store's list has more pages, but no token for the next")
      .in_file(name);
}

}  // namespace

S3Page parse_s3_page(std::string_view xml, const std::string& name) {
  S3Page page;
  bool is_listing = false;
  bool truncated = false;
  bool encoded = false;
  Walk walk([&](const std::vector<std::string>& path, const std::string& text) {
    if (path.front() != "ListBucketResult") return;
    is_listing = true;
    if (path.size() == 3 && path[1] == "Contents" && path[2] == "Key") page.keys.push_back(text);
    if (path.size() == 3 && path[1] == "CommonPrefixes" && path[2] == "Prefix") {
      page.prefixes.push_back(text);
    }
    if (path.size() != 2) return;
    if (path[1] == "IsTruncated") truncated = text == "true";
    if (path[1] == "NextContinuationToken") page.next = text;
    if (path[1] == "EncodingType") encoded = text == "url";
  });
  if (!walk.run(xml) || !is_listing) throw no_list("objects", name);
  if (!truncated) page.next.clear();
  if (truncated && page.next.empty()) throw no_next_page(name);
  if (encoded) {
    for (std::string& key : page.keys) key = listed_key(key);
    for (std::string& prefix : page.prefixes) prefix = listed_key(prefix);
  }
  return page;
}

S3ObjectPage parse_s3_objects(std::string_view xml, const std::string& name) {
  S3ObjectPage page;
  S3Object object;
  bool is_listing = false;
  bool truncated = false;
  bool encoded = false;
  bool has_sizes = true;
  Walk walk([&](const std::vector<std::string>& path, const std::string& text) {
    if (path.front() != "ListBucketResult") return;
    is_listing = true;
    const bool in_object = path.size() > 1 && path[1] == "Contents";
    if (in_object && path.size() == 2) page.objects.push_back(std::exchange(object, {}));
    if (in_object && path.size() == 3) {
      if (path[2] == "Key") object.key = text;
      if (path[2] == "ETag") object.etag = bare_etag(text);
      if (path[2] == "LastModified") object.modified = text;
      if (path[2] == "Size") {
        const auto size = parse_decimal(text);
        has_sizes = has_sizes && size;
        object.size = size.value_or(0);
      }
    }
    if (path.size() != 2) return;
    if (path[1] == "IsTruncated") truncated = text == "true";
    if (path[1] == "NextContinuationToken") page.next = text;
    if (path[1] == "EncodingType") encoded = text == "url";
  });
  if (!walk.run(xml) || !is_listing || !has_sizes) throw no_list("objects", name);
  if (!truncated) page.next.clear();
  if (truncated && page.next.empty()) throw no_next_page(name);
  if (encoded) {
    for (S3Object& each : page.objects) each.key = listed_key(each.key);
  }
  return page;
}

S3UploadPage parse_s3_uploads(std::string_view xml, const std::string& name) {
  S3UploadPage page;
  S3OpenUpload upload;
  bool is_listing = false;
  bool truncated = false;
  bool encoded = false;
  Walk walk([&](const std::vector<std::string>& path, const std::string& text) {
    if (path.front() != "ListMultipartUploadsResult") return;
    is_listing = true;
    const bool in_upload = path.size() > 1 && path[1] == "Upload";
    if (in_upload && path.size() == 2) page.uploads.push_back(std::exchange(upload, {}));
    if (in_upload && path.size() == 3 && path[2] == "Key") upload.key = text;
    if (in_upload && path.size() == 3 && path[2] == "UploadId") upload.id = text;
    if (path.size() != 2) return;
    if (path[1] == "IsTruncated") truncated = text == "true";
    if (path[1] == "NextKeyMarker") page.next.key = text;
    if (path[1] == "NextUploadIdMarker") page.next.id = text;
    if (path[1] == "EncodingType") encoded = text == "url";
  });
  if (!walk.run(xml) || !is_listing) throw no_list("uploads", name);
  if (!truncated) page.next = {};
  if (truncated && page.next.key.empty()) throw no_next_page(name);
  if (encoded) {
    for (S3OpenUpload& each : page.uploads) each.key = listed_key(each.key);
    page.next.key = listed_key(page.next.key);
  }
  return page;
}

S3PartPage parse_s3_parts(std::string_view xml, const std::string& name) {
  S3PartPage page;
  S3Part part;
  bool is_listing = false;
  bool truncated = false;
  bool has_numbers = true;
  const auto number_of = [&](const std::string& text) {
    const auto number = parse_decimal(text);
    has_numbers = has_numbers && number;
    return number.value_or(0);
  };
  Walk walk([&](const std::vector<std::string>& path, const std::string& text) {
    if (path.front() != "ListPartsResult") return;
    is_listing = true;
    const bool in_part = path.size() > 1 && path[1] == "Part";
    if (in_part && path.size() == 2) {
      has_numbers = has_numbers && part.number > 0;
      page.parts.push_back(std::exchange(part, {}));
    }
    if (in_part && path.size() == 3) {
      if (path[2] == "PartNumber") part.number = number_of(text);
      if (path[2] == "Size") part.size = number_of(text);
      if (path[2] == "ETag") part.etag = bare_etag(text);
    }
    if (path.size() != 2) return;
    if (path[1] == "IsTruncated") truncated = text == "true";
    if (path[1] == "NextPartNumberMarker" && !text.empty()) page.next = number_of(text);
    // One of the whole object need not be sent; SHA-1 and SHA-256 are always of the parts.
    if (path[1] == "ChecksumType" && text == "COMPOSITE") page.needs_checksums = true;
    if (path[1] == "ChecksumAlgorithm" && text.starts_with("SHA")) page.needs_checksums = true;
  });
  if (!walk.run(xml) || !is_listing || !has_numbers) throw no_list("parts", name);
  if (!truncated) page.next = 0;
  if (truncated && page.next == 0) throw no_next_page(name);
  return page;
}

std::string bare_etag(std::string_view etag) {
  if (etag.size() >= 2 && etag.front() == '"' && etag.back() == '"') {
    etag = etag.substr(1, etag.size() - 2);
  }
  return std::string(etag);
}

std::string xml_text(std::string_view xml, std::string_view element) {
  std::string found;
  Walk walk([&](const std::vector<std::string>& path, const std::string& text) {
    if (found.empty() && path.back() == element) found = text;
  });
  walk.run(xml);
  return found;
}

}  // namespace reshardfs
