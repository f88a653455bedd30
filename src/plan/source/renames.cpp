// SPDX-License-Identifier: Apache-2.0
#include "plan/source/renames.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/text/shell_text.h"
#include "base/text/text.h"
#include "base/text/wrapper_names.h"
#include "modelmap/pattern.h"
#include "plan/source/strategy_catalogue.h"
#include "plan/target/name_map.h"

namespace reshardfs {
namespace {

using modelmap::CaptureValue;
using modelmap::Pattern;

constexpr const char* kSeePatterns = "patterns are those of model maps: see reshardfs-map(5)";

[[noreturn]] void refuse(std::string_view option, const std::string& text, const std::string& why) {
  throw Error(ErrorKind::kUsage, "--" + std::string(option) + " '" + printable(text) + "': " + why)
      .hint(kSeePatterns);
}

[[noreturn]] std::int64_t no_variable(const std::string& name) {
  throw Error(ErrorKind::kUsage, "'" + printable(name) + "' has no value here");
}

/// What a capture of words takes: "{p:weight|bias}" of a pattern's text.
std::string words_text(const std::string& pattern, const std::string& name) {
  const std::size_t begin = pattern.find("{" + name + ":");
  return pattern.substr(begin, pattern.find('}', begin) + 1 - begin);
}

void replace_all(std::string& text, const std::string& from, const std::string& to) {
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at)) {
    text.replace(at, from.size(), to);
    at += to.size();
  }
}

/// A side of a rule: a pattern with "*" for any text in front or behind.
struct Side {
  bool any_before = false;
  bool any_behind = false;
  std::string text{};

  /// @param other side of the rule: it tells where a "*" that is all there is stands.
  explicit Side(std::string whole, const std::string& other) : text(std::move(whole)) {
    if (text == "*") {
      text.clear();
      any_before = other.starts_with('*') && other != "*";
      any_behind = other.ends_with('*') || !any_before;
      return;
    }
    any_before = text.starts_with('*');
    if (any_before) text.erase(0, 1);
    any_behind = text.ends_with('*');
    if (any_behind) text.pop_back();
  }
};

}  // namespace

/// The rule of one --rename or --drop.
class RenameRule {
 public:
  RenameRule(std::string_view option, std::string given, const std::string& from,
             const std::optional<std::string>& to)
      : option_(option),
        given_(std::move(given)),
        from_side_(from, to.value_or("")),
        from_(parse(from_side_.text)),
        from_numberings_(numberings(from_)),
        has_new_name_(to.has_value()) {
    if (!to) return;
    Side side(*to, from);
    if (side.any_before != from_side_.any_before || side.any_behind != from_side_.any_behind) {
      refuse(option_, given_, "'*' has to stand at the same end of both names");
    }
    for (const Pattern::Capture& capture : captures_of(from_)) {
      if (!capture.is_word) continue;
      replace_all(side.text, "{" + capture.name + "}", words_text(from_side_.text, capture.name));
    }
    to_ = parse(side.text);
    to_numberings_ = numberings(to_);
    if (!to_) return;
    for (const std::string& name : to_->names()) {
      const std::vector<std::string> known = from_ ? from_->names() : std::vector<std::string>();
      const auto found = std::find(known.begin(), known.end(), name);
      if (found == known.end()) {
        refuse(option_, given_,
               "the new name has {" + printable(name) + "}, but the old one does not");
      }
      slots_.push_back(static_cast<std::size_t>(found - known.begin()));
    }
  }

  std::string text() const { return "--" + option_ + " " + shell_word(given_); }

  bool takes(std::string_view name) const { return split(name).has_value(); }

  /// The new name; nothing if the rule does not take this one.
  std::optional<std::string> apply(std::string_view name) const {
    const auto found = has_new_name_ ? split(name) : std::nullopt;
    if (!found) return std::nullopt;
    if (!to_) return std::string(found->before).append(found->behind);
    std::vector<CaptureValue> values;
    for (const std::size_t slot : slots_) values.push_back(found->values[slot]);
    const auto made = to_->fill(values, to_numberings_);
    if (!made) return std::nullopt;
    return std::string(found->before).append(*made).append(found->behind);
  }

 private:
  struct Split {
    std::string_view before;
    std::string_view behind;
    std::vector<CaptureValue> values;
  };

  /// nullopt for no text: "*" is all of the side.
  std::optional<Pattern> parse(const std::string& text) const {
    if (text.empty()) return std::nullopt;
    try {
      return Pattern::parse(text);
    } catch (const Error& error) {
      refuse(option_, given_, error.message());
    }
  }

  static std::vector<Pattern::Capture> captures_of(const std::optional<Pattern>& pattern) {
    return pattern ? pattern->captures() : std::vector<Pattern::Capture>();
  }

  modelmap::Numberings numberings(const std::optional<Pattern>& pattern) const {
    if (!pattern) return {};
    try {
      return pattern->numberings(
          [](const std::string& name) -> std::int64_t { no_variable(name); });
    } catch (const Error& error) {
      refuse(option_, given_, error.message());
    }
  }

  /// Of several ways, the one with the shortest text in front, then the shortest behind.
  std::optional<Split> split(std::string_view name) const {
    if (!from_) {
      const std::size_t before = from_side_.any_before ? name.size() : 0;
      return Split{name.substr(0, before), name.substr(before), {}};
    }
    const std::size_t last_begin = from_side_.any_before ? name.size() : 0;
    for (std::size_t begin = 0; begin <= last_begin; ++begin) {
      const std::string_view rest = name.substr(begin);
      if (!rest.starts_with(from_->literal_start())) continue;
      const std::size_t shortest = from_side_.any_behind ? 0 : rest.size();
      for (std::size_t length = rest.size() + 1; length-- > shortest;) {
        auto values = from_->match(rest.substr(0, length), from_numberings_);
        if (!values) continue;
        return Split{name.substr(0, begin), rest.substr(length), std::move(*values)};
      }
    }
    return std::nullopt;
  }

  std::string option_;
  std::string given_;
  Side from_side_;
  std::optional<Pattern> from_;
  modelmap::Numberings from_numberings_;
  bool has_new_name_;
  std::optional<Pattern> to_{};
  modelmap::Numberings to_numberings_{};
  std::vector<std::size_t> slots_{};  ///< in the old name, of the captures of the new one
};

namespace {

/// Another one's facts under new names.
class RenamedCatalogue final : public Catalogue {
 public:
  /// @param stored by new names.
  RenamedCatalogue(std::shared_ptr<const SourceTable> table,
                   std::unordered_map<std::string, std::string> stored, const Renames& renames)
      : Catalogue(table->ranks()),
        table_(std::move(table)),
        stored_(std::move(stored)),
        renames_(renames) {}

  bool states_layouts() const noexcept override { return of().states_layouts(); }
  std::vector<const Layout*> layouts_of(const std::string& name) const override {
    return of().layouts_of(stored(name));
  }
  bool states_whole(const std::string& name) const override {
    return of().states_whole(stored(name));
  }
  std::vector<std::string> axis_names(const std::string& name) const override {
    return of().axis_names(stored(name));
  }
  std::vector<SlicePlacement> placements(const std::string& name,
                                         const Holders& holders) const override {
    return of().placements(stored(name), holders);
  }
  std::optional<BoxPlacement> boxes(const std::string& name,
                                    const Holders& holders) const override {
    return of().boxes(stored(name), holders);
  }
  std::string hint() const override { return of().hint(); }
  std::vector<std::string> required_names() const override {
    return renames_.of(of().required_names());
  }
  std::vector<RefusedTensor> refused() const override { return of().refused(); }
  std::shared_ptr<const SavedObjects> saved_objects() const override {
    return of().saved_objects();
  }
  bool has_boxes() const override { return of().has_boxes(); }
  std::vector<std::string> warnings() const override { return of().warnings(); }

 private:
  const Catalogue& of() const { return table_->catalogue(); }
  const std::string& stored(const std::string& name) const {
    const auto found = stored_.find(name);
    return found == stored_.end() ? name : found->second;
  }

  std::shared_ptr<const SourceTable> table_;
  std::unordered_map<std::string, std::string> stored_;
  Renames renames_;
};

Strategy with_new_names(const Strategy& strategy, const Renames& renames) {
  std::vector<StageLayouts> stages;
  for (std::int64_t s = 0; s < strategy.stage_count(); ++s) {
    StageLayouts& layouts = stages.emplace_back();
    for (const auto& [name, layout] : strategy.stage(s)) {
      if (const auto shown = renames(name)) layouts.insert_or_assign(*shown, layout);
    }
  }
  return {std::move(stages), strategy.first_stage(), strategy.stage_prefixed(),
          strategy.operators(), strategy.devices_per_stage()};
}

/// @throws Error kUsage
void require_apart(const std::string& one, const std::string& other, const std::string& shown) {
  throw Error(ErrorKind::kUsage, "'" + printable(one) + "' and '" + printable(other) +
                                     "' would both be called '" + printable(shown) + "'")
      .hint("correct --rename, or leave one of them out with --drop");
}

}  // namespace

Renames::Renames(const std::vector<std::string>& renames, const std::vector<std::string>& drops,
                 std::vector<std::string> state_prefixes)
    : state_prefixes_(std::move(state_prefixes)) {
  for (const std::string& text : renames) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
      refuse("rename", text, "expected OLD=NEW");
    }
    rules_.push_back(std::make_shared<const RenameRule>("rename", text, text.substr(0, equals),
                                                        text.substr(equals + 1)));
  }
  for (const std::string& text : drops) {
    drops_.push_back(std::make_shared<const RenameRule>("drop", text, text, std::nullopt));
  }
}

namespace {

/// @param visit(entry) of each tensor, once for the files of a stage, which share an index. Returns
///        whether to go on.
template <typename Visit>
bool for_each_entry(const CheckpointSet& set, const Visit& visit) {
  const FileIndex* before = nullptr;
  for (const RankFile& file : set.files()) {
    if (file.index.get() == before) continue;
    before = file.index.get();
    for (const TensorEntry& entry : file.index->entries()) {
      if (!visit(entry)) return false;
    }
  }
  return true;
}

bool has_wrappers(const CheckpointSet& set) {
  return !for_each_entry(set,
                         [](const TensorEntry& entry) { return wrapper_in(entry.name).empty(); });
}

}  // namespace

void Renames::settle_wrappers(const CheckpointSet& set) {
  unwraps_ = has_wrappers(set) && wrapper_clash(set).empty();
}

std::string wrapper_clash(const CheckpointSet& set) {
  if (!has_wrappers(set)) return {};
  std::unordered_map<std::string, std::string_view> stored;  // by the names without wrappers
  std::string clash;
  for_each_entry(set, [&](const TensorEntry& entry) {
    const auto [known, is_new] = stored.try_emplace(without_wrappers(entry.name), entry.name);
    if (known->second == entry.name) return true;
    clash = "names keep the words that wrappers of PyTorch put into them: without these, '" +
            printable(std::string(known->second)) + "' and '" + printable(entry.name) +
            "' would have the same name";
    return false;
  });
  return clash;
}

/// @param used of each rule, those of rules_ first; nullptr: nobody asks.
std::string Renames::renamed(std::string name, std::vector<bool>* used) const {
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    auto made = rules_[i]->apply(name);
    if (!made) {
      const std::string weight = weight_of(name, state_prefixes_);
      if (weight.empty() || !name.ends_with(weight)) continue;
      made = rules_[i]->apply(weight);
      if (!made) continue;
      made->insert(0, name, 0, name.size() - weight.size());
    }
    name = std::move(*made);
    if (used != nullptr) (*used)[i] = true;
  }
  return name;
}

bool Renames::is_dropped(const std::string& name, std::vector<bool>* used) const {
  const std::string weight = weight_of(name, state_prefixes_);
  bool dropped = false;
  for (std::size_t i = 0; i < drops_.size(); ++i) {
    if (!drops_[i]->takes(name) && (weight.empty() || !drops_[i]->takes(weight))) continue;
    dropped = true;
    if (used != nullptr) (*used)[rules_.size() + i] = true;
  }
  return dropped;
}

std::optional<std::string> Renames::operator()(const std::string& stored) const {
  std::string name = renamed(unwraps_ ? without_wrappers(stored) : stored, nullptr);
  return is_dropped(name, nullptr) ? std::nullopt : std::optional(std::move(name));
}

std::vector<std::string> Renames::of(const std::vector<std::string>& stored) const {
  if (!changes_any()) return stored;
  std::vector<std::string> names;
  for (const std::string& name : stored) {
    if (auto shown = (*this)(name)) names.push_back(std::move(*shown));
  }
  return names;
}

void Renames::require_distinct(const std::vector<std::string>& stored,
                               const NameTaker& takes) const {
  std::unordered_map<std::string, std::string_view> known;
  for (const std::string& name : stored) {
    const auto shown = (*this)(name);
    if (!shown || (takes && !takes(*shown))) continue;
    const auto [first, is_new] = known.emplace(*shown, name);
    if (!is_new && first->second != name) {
      require_apart(std::string(first->second), name, *shown);
    }
  }
}

NameTaker Renames::taking(const NameTaker& takes) const {
  if (!changes_any() || (!takes && drops_.empty())) return takes;
  return [renames = *this, takes](const std::string& stored) {
    const auto name = renames(stored);
    return name && (!takes || takes(*name));
  };
}

std::vector<std::string> Renames::idle(const std::vector<std::string>& stored) const {
  std::vector<bool> is_used(rules_.size() + drops_.size(), false);
  for (const std::string& name : stored) {
    is_dropped(renamed(unwraps_ ? without_wrappers(name) : name, &is_used), &is_used);
  }
  std::vector<std::string> idle;
  for (std::size_t i = 0; i < is_used.size(); ++i) {
    const auto& rule = i < rules_.size() ? rules_[i] : drops_[i - rules_.size()];
    if (!is_used[i]) idle.push_back(rule->text() + " matches no tensor");
  }
  return idle;
}

std::shared_ptr<const SourceTable> Renames::apply(
    const std::shared_ptr<const SourceTable>& table) const {
  if (!changes_any()) return table;
  RenamedParameters renamed_table{.of = table};
  std::unordered_map<std::string, std::string> stored;
  for (std::size_t i = 0; i < table->parameters().size(); ++i) {
    const std::string& name = table->parameters()[i].name;
    auto shown = (*this)(name);
    if (!shown) continue;
    const auto [known, is_new] = stored.emplace(*shown, name);
    if (!is_new) require_apart(known->second, name, *shown);
    renamed_table.names.push_back(std::move(*shown));
    renamed_table.positions.push_back(i);
  }
  if (const Strategy* const strategy = table->strategy()) {
    auto catalogue = std::make_shared<const StrategyCatalogue>(table->checkpoint(),
                                                               with_new_names(*strategy, *this));
    renamed_table.strategy = &catalogue->strategy();
    renamed_table.catalogue = std::move(catalogue);
  } else {
    renamed_table.catalogue =
        std::make_shared<const RenamedCatalogue>(table, std::move(stored), *this);
  }
  return std::make_shared<const SourceTable>(std::move(renamed_table));
}

}  // namespace reshardfs
