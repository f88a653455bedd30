// SPDX-License-Identifier: Apache-2.0
#include "export/manifest_text.h"

#include <span>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/sha256.h"
#include "conversion/identity.h"
#include "export/folder.h"

namespace reshardfs {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kFormatKey = "reshardfs_export";
constexpr const char* kShareKey = "share";
constexpr const char* kFilesKey = "files";
constexpr const char* kConversionKey = "conversion";
constexpr const char* kCompleteKey = "complete";
constexpr int kFormat = 2;
/// It identified source files by path, size and modification time alone.
constexpr int kOldFormat = 1;

Json parse_line(std::string_view line) {
  return Json::parse(line, nullptr, /*allow_exceptions=*/false);
}

/// That it is the export of another conversion.
Error other_export(const Json& header, const Json& identity) {
  const auto format = header.is_object() ? header.value<Json>(kFormatKey, Json()) : Json();
  if (format == kFormat) {
    const Json old = header.value<Json>(kConversionKey, Json());
    if (old == identity) {
      return Error(ErrorKind::kUsage, "the directory holds the share of an export of other files")
          .hint(
              "give the --ranks, --views and --params of that export, or use --force; an export "
              "without --share adds files");
    }
    const IdentityDifference difference = identity_difference(old, identity);
    return Error(ErrorKind::kUsage,
                 "the directory holds the export of another conversion (" + difference.what + ")")
        .hint(difference.hint);
  }
  if (format == kOldFormat) {
    return Error(ErrorKind::kUsage,
                 "an earlier version of reshardfs began this export and recorded too little about "
                 "the source to resume it safely")
        .hint(
            "choose another directory, or use --force, which compares existing files with the "
            "source");
  }
  return Error(ErrorKind::kUsage, "this is not an export manifest")
      .hint("choose another directory, or use --force, which replaces it");
}

std::optional<std::pair<std::string, Manifest::Entry>> parse_entry(std::string_view line) {
  const Json json = parse_line(line);
  if (!json.is_object() || !json.contains("path") || !json.contains("size") ||
      !json.contains("sha256")) {
    return std::nullopt;
  }
  const Json& path = json.at("path");
  const Json& size = json.at("size");
  const Json& sha256 = json.at("sha256");
  if (!path.is_string() || !size.is_number_unsigned() || !sha256.is_string()) return std::nullopt;
  if (!is_plain_path(path.get<std::string>())) return std::nullopt;
  const Json etag = json.value<Json>("etag", "");
  return std::pair(path.get<std::string>(),
                   Manifest::Entry{size.get<std::uint64_t>(), sha256.get<std::string>(),
                                   etag.is_string() ? etag.get<std::string>() : ""});
}

}  // namespace

std::string manifest_line(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json manifest_header(const Json& identity, const std::optional<SharePlan>& plan) {
  Json header{{kFormatKey, kFormat}};
  if (plan) {
    header[kShareKey] = {
        {"index", plan->share.index}, {"count", plan->share.count}, {kFilesKey, plan->files_sum}};
  }
  header[kConversionKey] = identity;
  return header;
}

std::string manifest_entry_line(const std::string& path, const Manifest::Entry& entry) {
  Json json{{"path", path}, {"size", entry.size}, {"sha256", entry.sha256}};
  if (!entry.etag.empty()) json["etag"] = entry.etag;
  return manifest_line(json);
}

std::string manifest_last_line(const std::string& header) {
  return manifest_line({{kCompleteKey, sha256_of(std::as_bytes(std::span(header)))}});
}

IsSameHeader same_files(const Json& identity, const std::optional<SharePlan>& plan) {
  return
      [wanted = manifest_header(identity, plan)](const Json& header) { return header == wanted; };
}

IsSameHeader same_conversion(const Json& identity) {
  return [identity](const Json& header) {
    return header.value<Json>(kFormatKey, Json()) == kFormat &&
           header.value<Json>(kConversionKey, Json()) == identity;
  };
}

std::uint64_t parse_manifest(const std::filesystem::path& file, const std::string& text,
                             const IsSameHeader& is_same, const Json& identity, bool force,
                             Manifest::Entries& out) {
  std::uint64_t good = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', good)) {
    const std::string_view line = std::string_view(text).substr(good, end - good);
    if (good == 0) {
      const Json header = parse_line(line);
      const bool same = header.is_object() && is_same(header);
      if (!same && force) return 0;
      if (!same) throw other_export(header, identity).in_file(file);
    } else if (auto entry = parse_entry(line)) {
      out[std::move(entry->first)] = std::move(entry->second);
    } else if (const Json json = parse_line(line);
               !json.is_object() || !json.contains(kCompleteKey)) {
      break;
    }
    good = end + 1;
  }
  return good;
}

}  // namespace reshardfs
