// SPDX-License-Identifier: Apache-2.0
#include "cli/words/kept_opening.h"

#include <filesystem>
#include <optional>
#include <system_error>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "conversion/identity.h"
#include "conversion/installed_maps.h"
#include "storage/location.h"
#include "view/view.h"

namespace reshardfs {
namespace {

std::string identity_of(const ConversionOptions& options, const Conversion& conversion) {
  return mount_identity(options, conversion.source_files(), ConversionAccess::inputs(conversion),
                        ConversionAccess::companions(conversion));
}

/// A query may be a signature.
void refuse_secret(const std::string& url, const std::string& what) {
  const std::size_t host = url.find("://") + 3;
  const std::size_t name_end = url.find_first_of("/?", host);
  const bool has_user = url.substr(host, name_end - host).find('@') != std::string::npos;
  if (!has_user && url.find('?') == std::string::npos) return;
  throw Error(ErrorKind::kUsage,
              what + " is a URL with a query or a password, which a pickle does not keep")
      .in_file(shown_location(url))
      .hint("open it in each process, or name an s3:// source, whose keys are in the environment");
}

/// A form of the path that is valid in any working directory.
std::string lasting(const std::string& text, const std::string& what, bool is_path, KeptFor use) {
  if (is_url(text)) {
    if (use == KeptFor::kPickle) refuse_secret(text, what);
    return text;
  }
  return is_path ? std::filesystem::absolute(text).string() : text;
}

}  // namespace

bool names_path(const GivenOption& use) {
  const auto& [option, text] = use;
  const bool takes_path = option->type.find("FILE") != std::string::npos ||
                          option->type.find("DIR") != std::string::npos;
  if (!takes_path || text.empty()) return false;
  if (option->name == "map") return is_map_path(text);
  std::error_code failed;
  return option->name == "cache-dir" || std::filesystem::exists(text, failed);
}

KeptOpening kept_opening(const Given& given, const ConversionOptions& options,
                         const Conversion& conversion, KeptFor use) {
  KeptOpening kept{lasting(given.argument("SOURCE"), "the source", true, use), {}, {}};
  const auto keep = [&](const std::string& name, const std::string& text) {
    kept.values.push_back({name, std::vector<std::string>{text}, false});
  };
  for (const GivenOption& each : given.options) {
    const std::string& name = each.option->name;
    keep(name, lasting(each.text, "--" + name, names_path(each), use));
  }
  // A later one counts.
  if (!conversion.step().empty()) keep("step", conversion.step());
  if (!conversion.series().empty()) keep("src-prefix", conversion.series());
  kept.identity = identity_of(options, conversion);
  return kept;
}

void require_same_files(const std::string& identity, const ConversionOptions& options,
                        const Conversion& conversion) {
  const std::string found = identity_of(options, conversion);
  if (found == identity) return;
  const auto before = JsonDocument::parse(identity);
  const auto now = JsonDocument::parse(found);
  const IdentityDifference difference = identity_difference(
      before ? std::optional(before->value()) : std::nullopt, now.value().value());
  throw Error(ErrorKind::kChanged,
              "there are other files now than when the checkpoint was opened: " + difference.what)
      .in_file(options.source.path.string())
      .hint("open the source again");
}

}  // namespace reshardfs
