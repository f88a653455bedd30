// SPDX-License-Identifier: Apache-2.0
#include "view/files/shown_words.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "base/json/json_value.h"
#include "base/json/json_writer.h"
#include "base/text/text.h"
#include "checkpoint/whole/stated_words.h"

namespace reshardfs {
namespace {

enum class Verdict : std::uint8_t {
  kTrue,
  kUntrue,
  kNotShown,  ///< none of the tensors that it is about is shown
};

/// Judges words by the tensors that they are about.
class Judge {
 public:
  Judge(const ViewContext& context, const DescribedFiles& files)
      : context_(context),
        files_(files),
        is_mapped_(files.table.source().mapped_from() != nullptr) {
    for (const RankFile& file : files.table.source().checkpoint().files()) {
      for (const TensorEntry& entry : file.index->entries()) stored_.emplace_back(entry.name);
    }
    std::sort(stored_.begin(), stored_.end());
    stored_.erase(std::unique(stored_.begin(), stored_.end()), stored_.end());
    for (const TargetParameter& parameter : files.table.parameters()) {
      if (is_mapped_ || parameter.source->holders.empty()) continue;
      if (!files.takes || files.takes(parameter)) {
        shown_.emplace(stored_name(parameter), &parameter);
      }
    }
  }

  Verdict of(const std::string& key, const std::string& value) const {
    if (states_class(value)) return of_class(key);
    if (is_stored(key)) return of_tensors({key});
    if (!is_stored(value)) return Verdict::kTrue;
    // Another name of that tensor.
    const TargetParameter* const shown = find(value);
    if (shown == nullptr && !is_mapped_) return Verdict::kNotShown;
    return keeps_name(shown) ? Verdict::kTrue : Verdict::kUntrue;
  }

  /// Whether the tensors are all of the source's.
  bool has_all() const {
    return !is_mapped_ && !context_.options.source.dequantize &&
           context_.options.source.quantize.empty() && shown_.size() == stored_.size() &&
           files_.table.source().checkpoint().refused().empty();
  }

 private:
  /// The class of a tensor: of one that is stored as it is, or of one that is stored as several:
  /// "a.weight" as "a._weight_qdata" and "a._weight_scale".
  Verdict of_class(const std::string& key) const {
    if (is_stored(key)) {
      const TargetParameter* const shown = find(key);
      if (shown == nullptr && !is_mapped_) return Verdict::kNotShown;
      return keeps_name(shown) ? Verdict::kTrue : Verdict::kUntrue;
    }
    const std::size_t leaf = key.rfind('.') + 1;  // 0: it has no module
    const std::string prefix = key.substr(0, leaf) + "_" + key.substr(leaf) + "_";
    std::vector<std::string_view> parts;
    for (auto name = std::lower_bound(stored_.begin(), stored_.end(), prefix);
         name != stored_.end() && name->starts_with(prefix); ++name) {
      parts.push_back(*name);
    }
    return parts.empty() ? Verdict::kUntrue : of_tensors(parts);
  }

  Verdict of_tensors(const std::vector<std::string_view>& names) const {
    if (is_mapped_) return Verdict::kUntrue;
    std::size_t missing = 0;
    for (const std::string_view name : names) {
      const TargetParameter* const shown = find(name);
      if (shown == nullptr) {
        ++missing;
      } else if (!is_unchanged(*shown)) {
        return Verdict::kUntrue;
      }
    }
    if (missing == 0) return Verdict::kTrue;
    return missing == names.size() ? Verdict::kNotShown : Verdict::kUntrue;
  }

  static const std::string& stored_name(const TargetParameter& parameter) {
    return parameter.source->holders.front().entry->name;
  }
  bool is_stored(std::string_view name) const {
    return std::binary_search(stored_.begin(), stored_.end(), name);
  }
  const TargetParameter* find(std::string_view name) const {
    const auto found = shown_.find(name);
    return found == shown_.end() ? nullptr : found->second;
  }
  bool keeps_name(const TargetParameter* shown) const {
    return shown != nullptr && shown->name == stored_name(*shown);
  }
  bool is_unchanged(const TargetParameter& shown) const {
    return keeps_name(&shown) && shown.dtype == shown.source->dtype && is_stored_whole(shown) &&
           !is_cut(shown);
  }
  /// Remarks about a slice do not hold for the whole.
  static bool is_stored_whole(const TargetParameter& shown) {
    const Shape stored = shown.source->holders.front().entry->shape;
    return shown.grid != nullptr && stored == shown.grid->full_shape();
  }
  bool is_cut(const TargetParameter& shown) const {
    if (files_.are_one_model || !files_.table.strategy()) return false;
    const auto rank = std::find_if(context_.ranks.begin(), context_.ranks.end(),
                                   [&](Rank any) { return files_.table.has(shown, any); });
    return rank != context_.ranks.end() &&
           files_.table.slice_shape(shown, *rank) != shown.grid->full_shape();
  }

  const ViewContext& context_;
  const DescribedFiles& files_;
  bool is_mapped_;
  std::vector<std::string_view> stored_;  ///< sorted
  std::unordered_map<std::string_view, const TargetParameter*>
      shown_;  ///< by their names in the files
};

/// Judges all words, and keeps those that are not true.
class Selection {
 public:
  Selection(const ViewContext& context, const DescribedFiles& files) : judge_(context, files) {}

  /// The value to be shown; nothing: the word is left out.
  std::optional<std::string> value_of(const std::string& key, const std::string& value,
                                      const StatedWords& words) {
    if (const auto names = described_tensors(key, value)) return described(*names, value, words);
    const Verdict verdict = judge_.of(key, value);
    if (verdict == Verdict::kTrue) return value;
    if (verdict == Verdict::kUntrue) untrue_.insert(key);
    return std::nullopt;
  }

  const Judge& judge() const noexcept { return judge_; }
  std::vector<std::string> untrue() const { return {untrue_.begin(), untrue_.end()}; }

 private:
  /// The list of those tensors whose class is still stated.
  std::optional<std::string> described(std::vector<std::string> names, const std::string& value,
                                       const StatedWords& words) const {
    const std::size_t all = names.size();
    std::erase_if(names, [&](const std::string& name) {
      const auto word = words.header.find(name);
      return word != words.header.end() && judge_.of(name, word->second) != Verdict::kTrue;
    });
    if (names.empty() && all > 0) return std::nullopt;
    return names.size() == all ? value : described_tensors_text(names);
  }

  Judge judge_;
  std::set<std::string> untrue_;
};

std::optional<std::string> text_in(const std::string& json) {
  const auto document = JsonDocument::parse(json);
  if (!document || !document->value().text()) return std::nullopt;
  return std::string(*document->value().text());
}

void warn(const ViewContext& context, const StatedWords& words,
          const std::vector<std::string>& untrue) {
  if (!words.refused.empty()) {
    context.warnings.push_back("the metadata of the source is left out: it has " + words.refused);
  }
  if (!words.ambiguous.empty()) {
    context.warnings.push_back(
        "metadata that differs between the files of the source is left out: " +
        name_list(words.ambiguous));
  }
  if (!untrue.empty()) {
    context.warnings.push_back(
        "metadata of the source is left out, because it describes tensors that are renamed, cut or "
        "converted here: " +
        name_list(untrue));
  }
}

}  // namespace

safetensors::Metadata words_of_types(const DescribedFiles& files) {
  safetensors::Metadata out;
  for (const TargetParameter& parameter : files.table.parameters()) {
    if (!parameter.holds_int4() || (files.takes && !files.takes(parameter))) continue;
    out.emplace_back(parameter.name, mindspore_name(DType::kInt4));
  }
  return out;
}

ShownWords shown_words(const ViewContext& context, const DescribedFiles& files) {
  ShownWords out{words_of_types(files), {}};
  if (context.model.words == nullptr) return out;
  const StatedWords& words = *context.model.words;
  if (words.header.empty() && words.index.empty()) {
    warn(context, words, {});
    return out;
  }
  Selection selection(context, files);
  for (const auto& [key, value] : words.header) {
    if (auto shown = selection.value_of(key, value, words)) {
      out.header.emplace_back(key, *std::move(shown));
    }
  }
  for (const auto& [key, json] : words.index) {
    const std::optional<std::string> text = text_in(json);
    if (key == kParameterCount) {
      if (selection.judge().has_all()) out.index.emplace_back(key, json);
    } else if (!text) {
      out.index.emplace_back(key, json);
    } else if (const auto shown = selection.value_of(key, *text, words)) {
      out.index.emplace_back(key, json_quoted(*shown, JsonText::kAscii));
    }
  }
  warn(context, words, selection.untrue());
  return out;
}

std::shared_ptr<const SafetensorsFile::Common> with_words(
    std::shared_ptr<const SafetensorsFile::Common> common, const safetensors::Metadata& words) {
  if (words.empty()) return common;
  SafetensorsFile::Common all = *common;
  std::map<std::string_view, std::string*> own;
  for (auto& [key, value] : all.metadata) own.emplace(key, &value);
  safetensors::Metadata more;
  for (const auto& [key, value] : words) {
    const auto found = own.find(key);
    if (found == own.end()) {
      more.emplace_back(key, value);
    } else if (key == "cast") {
      *found->second = value + ", " + *found->second;  // one after the other
    }
  }
  std::move(more.begin(), more.end(), std::back_inserter(all.metadata));
  return std::make_shared<const SafetensorsFile::Common>(std::move(all));
}

void tell_lost_words(const ViewContext& context, const std::set<ViewKind>& shown) {
  if (context.model.words == nullptr) return;
  const StatedWords& words = *context.model.words;
  const auto any_of = [&](std::initializer_list<ViewKind> kinds) {
    return std::any_of(kinds.begin(), kinds.end(),
                       [&](ViewKind kind) { return shown.contains(kind); });
  };
  const bool in_ranks = shown.contains(ViewKind::kRanks) && rank_files_hold_words(context);
  const bool in_headers =
      in_ranks || any_of({ViewKind::kMergedSafetensors, ViewKind::kHub, ViewKind::kHuggingFace,
                          ViewKind::kDcpHuggingFace, ViewKind::kVllm});
  const bool in_index = any_of({ViewKind::kHub, ViewKind::kHuggingFace});
  std::vector<std::string> lost;
  for (const auto& [key, value] : words.header) {
    if (!in_headers) lost.push_back(key);
  }
  for (const auto& [key, json] : words.index) {
    // A count is no loss.
    if (!in_index && key != kParameterCount && !words.header.contains(key)) lost.push_back(key);
  }
  if (lost.empty()) return;
  context.warnings.push_back("no file that is shown can hold this metadata of the source: " +
                             name_list(lost));
}

bool rank_files_hold_words(const ViewContext& context) {
  const auto& formats = context.formats;
  return context.options.safetensors_metadata != "ms" &&
         std::find(formats.begin(), formats.end(), OutputFormat::kSafetensors) != formats.end();
}

}  // namespace reshardfs
