// SPDX-License-Identifier: Apache-2.0
#include "base/unmatched_options.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/near_name.h"
#include "base/text/shell_text.h"

namespace reshardfs {
namespace {

/// In one message.
constexpr std::size_t kShown = 8;

}  // namespace

std::string near_glob_words(std::string_view option, const std::string& glob,
                            const std::vector<std::string>& names,
                            const std::function<std::string(const std::string& glob)>& text) {
  // As shells have them, and as inspect shows numbers.
  if (glob.find('{') != std::string::npos) {
    return "; braces are no wildcards: repeat " + std::string(option) +
           " for each alternative, or write [0-9] for a digit";
  }
  const std::optional<NearGlob> near = near_glob(glob, names);
  if (!near) return {};
  const std::string name = "'" + printable(near->name) + "'";
  if (near->glob.empty()) return "; the nearest name is " + name;
  const std::string meant = text ? text(near->glob) : near->glob;
  return "; did you mean " + std::string(option) + " " + shell_word(meant) + "? It matches " + name;
}

void UnmatchedOptions::add(std::string line) {
  lines_.push_back(std::move(line));
}

void UnmatchedOptions::add_globs(std::string_view option, const NameGlobs& globs,
                                 const std::vector<std::string>& names, std::string_view noun) {
  for (const std::string& glob : globs) {
    const bool matches = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return glob_match(glob, name);
    });
    if (matches) continue;
    std::string line =
        std::string(option) + " '" + printable(glob) + "' matches no " + std::string(noun);
    // Each search looks at all names.
    if (lines_.size() < kShown) line += near_glob_words(option, glob, names);
    add(std::move(line));
  }
}

void UnmatchedOptions::add_prefixes(std::string_view option,
                                    const std::vector<std::string>& prefixes,
                                    const std::vector<std::string>& names) {
  for (const std::string& prefix : prefixes) {
    const bool matches = std::any_of(names.begin(), names.end(), [&](const std::string& name) {
      return name.starts_with(prefix);
    });
    if (matches && !prefix.empty()) continue;
    std::string line =
        std::string(option) + " '" + printable(prefix) + "': no parameter's name begins with this";
    // The nearest name has the nearest prefix.
    std::vector<std::string> beginnings;
    for (const std::string& name : names) beginnings.push_back(name.substr(0, prefix.size()));
    if (const auto near = near_name(prefix, beginnings)) {
      line += "; did you mean " + std::string(option) + " " + shell_word(*near) + "?";
    } else if (const auto nearest = near_glob(glob_of(prefix) + "*", names)) {
      line += "; the nearest name is '" + printable(nearest->name) + "'";
    }
    add(std::move(line));
  }
}

void UnmatchedOptions::settle(bool allowed, std::vector<std::string>& warnings) const {
  if (lines_.empty()) return;
  if (allowed) {
    warnings.insert(warnings.end(), lines_.begin(), lines_.end());
    return;
  }
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, lines_.size()); ++i) {
    text += (i == 0 ? "" : "; ") + lines_[i];
  }
  if (lines_.size() > kShown) text += "; and " + std::to_string(lines_.size() - kShown) + " more";
  throw Error(ErrorKind::kUsage, text)
      .hint("--allow-unmatched accepts options without effect on this checkpoint");
}

}  // namespace reshardfs
