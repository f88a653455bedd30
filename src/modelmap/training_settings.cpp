// SPDX-License-Identifier: Apache-2.0
#include "modelmap/training_settings.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <sstream>
#include <string_view>
#include <utility>

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include "reshardfs/error.h"

#include "base/text/numbers.h"

namespace reshardfs::modelmap {

std::optional<Release> Release::parse(const std::string& text) {
  constexpr std::size_t kMostParts = 4;
  constexpr std::int64_t kLargest = 1'000'000;
  Release release;
  std::string_view rest = text;
  while (true) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    const auto number = parse_number(part);
    if (!number || *number > kLargest) return std::nullopt;
    release.parts.push_back(*number);
    if (part.size() == rest.size()) break;
    if (release.parts.size() == kMostParts) return std::nullopt;
    rest.remove_prefix(part.size() + 1);
  }
  while (release.parts.size() > 1 && release.parts.back() == 0) release.parts.pop_back();
  return release;
}

std::string Release::text() const {
  std::string out;
  for (const std::int64_t part : parts) {
    out += (out.empty() ? "" : ".") + std::to_string(part);
  }
  return out;
}

std::optional<std::int64_t> Setting::default_of(const Release& release) const {
  std::optional<std::int64_t> value;
  for (const auto& [from, setting] : releases) {
    if (from <= release) value = setting;
  }
  return value;
}

std::optional<std::int64_t> Setting::default_since(const Release& release) const {
  const std::optional<std::int64_t> value = default_of(release);
  const bool has_changed = std::any_of(releases.begin(), releases.end(), [&](const auto& later) {
    return later.first > release && later.second != value;
  });
  return has_changed ? std::nullopt : value;
}

namespace {

constexpr std::size_t kMaxYamlDepth = 64;

std::optional<std::int64_t> number_of(const std::string& text) {
  std::string lower = text;
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* word : {"true", "yes", "on"}) {
    if (lower == word) return 1;
  }
  for (const char* word : {"false", "no", "off"}) {
    if (lower == word) return 0;
  }
  return parse_signed_number(text);
}

bool is_null(const std::string& text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

}  // namespace

/// Takes events, so that no tree is made: a file cannot need more memory than it is long.
class TrainingReader : public YAML::EventHandler {
 public:
  TrainingReader(std::string file, const std::set<std::string>& keys, TrainingConfig& out)
      : file_(std::move(file)), keys_(keys), out_(out) {}

  void OnDocumentStart(const YAML::Mark& /*mark*/) override {}
  void OnDocumentEnd() override { open_.clear(); }
  void OnNull(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override { end_value(); }
  void OnAlias(const YAML::Mark& /*mark*/, YAML::anchor_t /*anchor*/) override { end_value(); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t /*anchor*/,
                const std::string& value) override {
    if (open_.empty() || !open_.back().is_map) return;
    Level& level = open_.back();
    if (!level.has_key) {
      level.has_key = true;
      level.name = value;
      level.key = wanted_key(value);
      return;
    }
    // A plain scalar has the tag "?", a quoted one "!".
    if (!level.key.empty() && !(tag == "?" && is_null(value))) {
      out_.entries_[level.key].push_back({file_, mark.line + 1, value, tag == "!"});
    }
    end_value();
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& /*tag*/,
                       YAML::anchor_t /*anchor*/, YAML::EmitterStyle::value /*style*/) override {
    begin(mark, false);
  }
  void OnSequenceEnd() override { end(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& /*tag*/, YAML::anchor_t /*anchor*/,
                  YAML::EmitterStyle::value /*style*/) override {
    begin(mark, true);
  }
  void OnMapEnd() override { end(); }

 private:
  struct Level {
    bool is_map = false;
    bool has_key = false;
    std::string name{};  ///< the key that stands there
    std::string key{};   ///< as it is wanted; empty: it is not
  };

  /// The key by itself, or with those above it from the top of the document.
  std::string wanted_key(const std::string& name) const {
    if (keys_.contains(name)) return name;
    std::string path;
    for (const Level& level : open_) {
      if (!level.is_map) return {};
      path += (path.empty() ? "" : ".") + level.name;
    }
    return open_.size() > 1 && keys_.contains(path) ? path : std::string();
  }

  void begin(const YAML::Mark& mark, bool is_map) {
    if (open_.size() == kMaxYamlDepth) {
      throw Error(ErrorKind::kBadInput, "line " + std::to_string(mark.line + 1) +
                                            ": nested more than " + std::to_string(kMaxYamlDepth) +
                                            " deep");
    }
    // A value that is wanted may not be a list; without a scalar it cannot be compared.
    if (!open_.empty() && open_.back().has_key && !open_.back().key.empty()) {
      out_.entries_[open_.back().key].push_back(
          {file_, mark.line + 1, "a list or a mapping", true});
    }
    open_.push_back({is_map, false, {}, {}});
  }

  void end() {
    if (!open_.empty()) open_.pop_back();
    end_value();
  }

  /// A key that is no scalar counts as one that is not wanted.
  void end_value() {
    if (open_.empty() || !open_.back().is_map) return;
    open_.back().has_key = !open_.back().has_key;
    open_.back().key.clear();
  }

  std::string file_;
  const std::set<std::string>& keys_;
  TrainingConfig& out_;
  std::vector<Level> open_{};
};

TrainingConfig TrainingConfig::parse(const std::string& text, const std::string& file,
                                     const std::set<std::string>& keys) {
  if (text.size() > kMaxTrainingConfigBytes) {
    throw Error(ErrorKind::kBadInput, "a training configuration is larger than 1 MiB")
        .in_file(file);
  }
  TrainingConfig config;
  config.files_ = {file};
  try {
    std::istringstream stream(text);
    YAML::Parser parser(stream);
    TrainingReader reader(file, keys, config);
    while (parser.HandleNextDocument(reader)) {
    }
  } catch (const YAML::Exception& error) {
    throw Error(ErrorKind::kBadInput,
                "line " + std::to_string(error.mark.line + 1) + ": it is no YAML: " + error.msg)
        .in_file(file);
  } catch (Error& error) {
    throw error.in_file(file);
  }
  return config;
}

void TrainingConfig::add(const TrainingConfig& other) {
  files_.insert(files_.end(), other.files_.begin(), other.files_.end());
  for (const auto& [key, entries] : other.entries_) {
    auto& own = entries_[key];
    own.insert(own.end(), entries.begin(), entries.end());
  }
}

Known<std::int64_t> TrainingConfig::find(const std::string& key) const {
  using Value = Known<std::int64_t>;
  const auto found = entries_.find(key);
  if (found == entries_.end()) return Value::unknown({});
  const auto place = [](const Entry& entry) {
    return printable(entry.file) + ":" + std::to_string(entry.line);
  };
  const Entry* first = nullptr;
  for (const Entry& entry : found->second) {
    const auto value = entry.is_quoted ? std::nullopt : number_of(entry.value);
    if (!value) {
      return Value::unknown(place(entry) + ": " + key + " is '" + printable(entry.value) +
                            "', expected True, False or a number");
    }
    if (first != nullptr && number_of(first->value) != value) {
      return Value::unknown(place(*first) + " and " + place(entry) + " have different values of " +
                            key);
    }
    if (first == nullptr) first = &entry;
  }
  if (first == nullptr) return Value::unknown({});
  return Value::stated(*number_of(first->value), place(*first) + ": " + key);
}

}  // namespace reshardfs::modelmap
