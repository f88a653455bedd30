// SPDX-License-Identifier: Apache-2.0
#include "export/manifest_text.h"

#include <span>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/json/json_writer.h"
#include "base/sha256.h"
#include "conversion/identity.h"
#include "export/folder.h"
#include "strategy/files/strategy_file.h"

namespace reshardfs {
namespace {

constexpr const char* kFormatKey = "reshardfs_export";
constexpr const char* kShareKey = "share";
constexpr const char* kFilesKey = "files";
constexpr const char* kConversionKey = "conversion";
constexpr const char* kCompleteKey = "complete";
constexpr int kFormat = 3;
/// Formats before it did not name all files that were read.
constexpr int kOldestFormat = 1;

/// What this program has written as JSON.
JsonDocument own(const std::string& json) {
  return JsonDocument::parse(json).value();
}

std::int64_t format_of(const JsonValue& header) {
  const auto found = header.find(kFormatKey);
  return found ? found->integer().value_or(0) : 0;
}

/// That it is the export of another conversion.
/// @param header nothing: its first line is no JSON.
Error other_export(const std::optional<JsonDocument>& header, const std::string& identity) {
  if (header && format_of(header->value()) == kFormat) {
    const auto old = header->value().find(kConversionKey);
    const JsonDocument now = own(identity);
    if (is_same_json(old, now.value())) {
      return Error(ErrorKind::kUsage, "the directory holds the share of an export of other files")
          .hint(
              "give the --ranks, --views and --params of that export, or use --force; an export "
              "without --share adds files");
    }
    const IdentityDifference difference = identity_difference(old, now.value());
    return Error(ErrorKind::kUsage,
                 "the directory holds the export of another conversion (" + difference.what + ")")
        .hint(difference.hint);
  }
  const std::int64_t format = header ? format_of(header->value()) : 0;
  if (format >= kOldestFormat && format < kFormat) {
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

using PathAndEntry = std::pair<std::string, Manifest::Entry>;

std::optional<PathAndEntry> entry_of(const JsonValue& json) {
  const auto path = json.find("path");
  const auto size = json.find("size");
  const auto sha256 = json.find("sha256");
  const auto xxh3 = json.find("xxh3");
  const auto& sum = sha256 ? sha256 : xxh3;
  if (!path || !size || !sum) return std::nullopt;
  if (!path->text() || !size->unsigned_integer() || !sum->text()) return std::nullopt;
  const auto text_of = [](const std::optional<JsonValue>& value) {
    return std::string(value ? value->text().value_or(std::string_view()) : std::string_view());
  };
  PathAndEntry entry{text_of(path),
                     {.size = *size->unsigned_integer(),
                      .sha256 = text_of(sha256),
                      .etag = text_of(json.find("etag")),
                      .xxh3 = text_of(xxh3)}};
  return is_plain_path(entry.first) ? std::optional(std::move(entry)) : std::nullopt;
}

/// @return whether it is a good line behind the first one.
bool take_line(std::string_view line, Manifest::Entries& out) {
  const auto json = JsonDocument::parse(line);
  if (!json || !json->value().is_object()) return false;
  auto entry = entry_of(json->value());
  if (!entry) {
    return json->value().find(kCompleteKey).has_value() ||
           json->value().find(kManifestStrategyKey).has_value();
  }
  out[std::move(entry->first)] = std::move(entry->second);
  return true;
}

}  // namespace

std::string manifest_header(const std::string& identity, const std::optional<SharePlan>& plan) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member(kFormatKey, kFormat);
  if (plan) {
    json.open_object(kShareKey);
    json.member("index", plan->share.index);
    json.member("count", plan->share.count);
    json.member(kFilesKey, plan->files_sum);
    json.close_object();
  }
  json.written_member(kConversionKey, identity);
  json.close_object();
  return json.take() + "\n";
}

std::string manifest_strategy_line(const std::string& strategy) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member(kManifestStrategyKey, strategy);
  json.close_object();
  return json.take() + "\n";
}

std::string manifest_entry_line(const std::string& path, const Manifest::Entry& entry) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member("path", path);
  json.member("size", entry.size);
  if (entry.xxh3.empty() || !entry.sha256.empty()) json.member("sha256", entry.sha256);
  if (!entry.xxh3.empty()) json.member("xxh3", entry.xxh3);
  if (!entry.etag.empty()) json.member("etag", entry.etag);
  json.close_object();
  return json.take() + "\n";
}

std::string manifest_last_line(const std::string& header) {
  JsonWriter json(kCompactJson);
  json.open_object();
  json.member(kCompleteKey, sha256_of(std::as_bytes(std::span(header))));
  json.close_object();
  return json.take() + "\n";
}

IsSameHeader same_files(const std::string& identity, const std::optional<SharePlan>& plan) {
  return [wanted = own(manifest_header(identity, plan))](const JsonValue& header) {
    return header.is_same(wanted.value());
  };
}

IsSameHeader same_conversion(const std::string& identity) {
  return [wanted = own(identity)](const JsonValue& header) {
    return format_of(header) == kFormat &&
           is_same_json(header.find(kConversionKey), wanted.value());
  };
}

std::uint64_t parse_manifest(const std::filesystem::path& file, const std::string& text,
                             const IsSameHeader& is_same, const std::string& identity, bool force,
                             Manifest::Entries& out) {
  std::uint64_t good = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', good)) {
    const std::string_view line = std::string_view(text).substr(good, end - good);
    if (good == 0) {
      const auto header = JsonDocument::parse(line);
      const bool same = header && header->value().is_object() && is_same(header->value());
      if (!same && force) return 0;
      if (!same) throw other_export(header, identity).in_file(file);
    } else if (!take_line(line, out)) {
      break;
    }
    good = end + 1;
  }
  return good;
}

}  // namespace reshardfs
