// SPDX-License-Identifier: Apache-2.0
#include "strategy/rules/rules_globs.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include "base/text/glob.h"
#include "base/text/state_names.h"

namespace reshardfs {
namespace {

using Names = std::map<std::string, std::size_t>;
using Member = Names::const_pointer;
using Members = std::vector<Member>;

/// More globs for one kind of names are harder to read than the names.
constexpr std::size_t kMaxDigitGlobs = 4;

/// Calls `use` with each part between dots.
template <typename Use>
void each_part(std::string_view name, const Use& use) {
  for (std::size_t begin = 0; begin <= name.size();) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    use(name.substr(begin, end - begin));
    begin = end + 1;
  }
}

/// The name as a glob that takes other numbers between dots too: "*" for each, or, as that takes
/// more than numbers, "[0-9]" for each digit.
std::string with_numbers_as(const std::string& name, bool digit_by_digit) {
  std::string glob;
  each_part(name, [&](std::string_view part) {
    if (part.data() != name.data()) glob += '.';
    const bool is_number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    if (!is_number) {
      glob += glob_of(part);
    } else if (digit_by_digit) {
      for (std::size_t i = 0; i < part.size(); ++i) glob += "[0-9]";
    } else {
      glob += '*';
    }
  });
  return glob;
}

}  // namespace

std::string glob_for_numbers(const std::string& name) {
  return with_numbers_as(name, /*digit_by_digit=*/false);
}

namespace {

/// What the name and its glob begin with: all that the glob can match begins so.
std::string literal_start(const std::string& name) {
  const std::string glob = glob_for_numbers(name);
  std::size_t length = 0;
  while (length < name.size() && glob[length] == name[length]) ++length;
  return name.substr(0, length);
}

class GlobWriter {
 public:
  explicit GlobWriter(const Names& names) : names_(names) {}

  GlobList write() {
    std::map<std::string, Members> classes;
    for (const auto& item : names_) {
      classes[glob_for_numbers(weight_name_of(item.first))].push_back(&item);
    }
    for (const auto& [glob, members] : classes) add_class(glob, members);
    return {listed(exceptions_), listed(general_)};
  }

 private:
  /// @param glob for the weights; the states of optimizers are members too.
  void add_class(const std::string& glob, const Members& members) {
    std::map<std::string, Members> by_prefix;
    for (const Member member : members) {
      const std::string& name = member->first;
      const std::size_t prefix = name.size() - weight_name_of(name).size();
      by_prefix[name.substr(0, prefix)].push_back(member);
    }
    const std::string starred = "*" + glob;
    if (by_prefix.size() > 1 && takes_only(starred, members.front()->second, {}, "")) {
      general_[members.front()->second].push_back(starred);
      return;
    }
    for (const auto& [prefix, own] : by_prefix) add_numbered(glob_of(prefix) + glob, own);
  }

  /// Names that differ in numbers alone.
  void add_numbered(const std::string& glob, const Members& members) {
    const std::size_t group = most_frequent_group(members);
    std::set<std::string> others;
    for (const Member member : members) {
      if (member->second != group) others.insert(member->first);
    }
    const std::string literal = literal_start(members.front()->first);
    std::vector<std::string> globs;
    if (members.size() > 1 && 2 * others.size() < members.size()) {
      if (takes_only(glob, group, others, literal)) globs = {glob};
      if (globs.empty()) globs = digit_globs(members, group, others, literal);
    }
    auto& list = general_[group];
    list.insert(list.end(), globs.begin(), globs.end());
    for (const Member member : members) {
      const bool is_exception = !globs.empty() && member->second != group;
      if (is_exception) exceptions_[member->second].push_back(glob_of(member->first));
      if (globs.empty()) general_[member->second].push_back(glob_of(member->first));
    }
  }

  /// "layers.[0-9].w", "layers.[0-9][0-9].w": where a * takes too much. Empty if these do too.
  std::vector<std::string> digit_globs(const Members& members, std::size_t group,
                                       const std::set<std::string>& others,
                                       const std::string& literal) const {
    std::set<std::string> globs;
    for (const Member member : members) globs.insert(with_numbers_as(member->first, true));
    if (globs.size() > kMaxDigitGlobs) return {};
    for (const std::string& glob : globs) {
      if (!takes_only(glob, group, others, literal)) return {};
    }
    return {globs.begin(), globs.end()};
  }

  static std::size_t most_frequent_group(const Members& members) {
    std::map<std::size_t, std::size_t> counts;
    for (const Member member : members) ++counts[member->second];
    return std::max_element(counts.begin(), counts.end(),
                            [](const auto& a, const auto& b) { return a.second < b.second; })
        ->first;
  }

  /// Whether all names that the glob matches are of the group, or among `exceptions`.
  /// @param literal what all names that it can match begin with.
  bool takes_only(const std::string& glob, std::size_t group,
                  const std::set<std::string>& exceptions, const std::string& literal) const {
    for (auto name = names_.lower_bound(literal);
         name != names_.end() && name->first.starts_with(literal); ++name) {
      if (name->second == group || exceptions.contains(name->first)) continue;
      if (glob_match(glob, name->first)) return false;
    }
    return true;
  }

  static std::vector<GroupGlobs> listed(
      const std::map<std::size_t, std::vector<std::string>>& map) {
    std::vector<GroupGlobs> list;
    for (const auto& [group, globs] : map) {
      if (!globs.empty()) list.push_back({group, globs});
    }
    return list;
  }

  const Names& names_;
  std::map<std::size_t, std::vector<std::string>> exceptions_{};
  std::map<std::size_t, std::vector<std::string>> general_{};
};

}  // namespace

GlobList write_globs(const std::map<std::string, std::size_t>& names) {
  return GlobWriter(names).write();
}

}  // namespace reshardfs
