// SPDX-License-Identifier: Apache-2.0
#include "base/text/wrapper_names.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "reshardfs/error.h"

#include "base/text/shell_text.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

/// These name nothing else; `module` may be a part of a model's own names.
constexpr std::array<std::string_view, 3> kPrivate{"_orig_mod", "_fsdp_wrapped_module",
                                                   "_checkpoint_wrapped_module"};
constexpr std::string_view kModule = "module";
constexpr std::string_view kDictionary = "model.";

bool is_private(std::string_view part) noexcept {
  return std::find(kPrivate.begin(), kPrivate.end(), part) != kPrivate.end();
}

/// The component that begins at `begin`; empty for the last one, which is a parameter's own.
std::string_view component(std::string_view name, std::size_t begin) noexcept {
  const std::size_t end = begin <= name.size() ? name.find('.', begin) : std::string_view::npos;
  return end == std::string_view::npos ? std::string_view() : name.substr(begin, end - begin);
}

}  // namespace

std::string_view wrapper_key(std::string_view name) noexcept {
  std::size_t end = 0;
  std::size_t begin = component(name, 0) == "model" ? std::string_view("model.").size() : 0;
  while (true) {
    const std::string_view part = component(name, begin);
    if (part != kModule && !is_private(part)) return name.substr(0, end);
    end = begin + part.size();
    begin = end + 1;
  }
}

std::string_view wrapper_in(std::string_view name) noexcept {
  // Millions of names have none of these parts, which begin with '_'.
  if (!name.starts_with('_') && name.find("._") == std::string_view::npos) return {};
  std::size_t begin = 0;
  while (true) {
    const std::string_view part = component(name, begin);
    if (part.empty() && begin >= name.size()) return {};
    if (is_private(part)) return part;
    const std::size_t next = name.find('.', begin);
    if (next == std::string_view::npos) return {};
    begin = next + 1;
  }
}

std::string without_wrappers(std::string_view name) {
  std::string out;
  while (true) {
    const std::string_view part = component(name, 0);
    const bool is_last = name.find('.') == std::string_view::npos;
    if (is_last) return out.append(name);
    if (!is_private(part)) out.append(part).append(".");
    name.remove_prefix(part.size() + 1);
  }
}

void CommonWrapper::add(std::string_view name) {
  is_saved_below_ = is_saved_below_ && name.starts_with(kDictionary);
  has_own_below_ =
      has_own_below_ || name.starts_with("model.model.") || name.starts_with("model.lm_head.");
  std::string_view key = wrapper_key(name);
  if (!key.empty() && wrapper_key(without_wrappers(name)).empty()) key = {};
  if (is_first_) key_ = std::string(key);
  is_first_ = false;
  if (key != key_) key_.clear();
}

const std::string& CommonWrapper::key() const noexcept {
  static const std::string kKey(kDictionary.substr(0, kDictionary.size() - 1));
  return key_.empty() && is_saved_below_ && has_own_below_ ? kKey : key_;
}

std::string wrapper_words(const CommonWrapper& names, bool takes_key) {
  std::string words;
  if (!names.key().empty()) {
    words = "the names begin with '" + printable(names.key()) +
            (names.is_of_dictionary() ? ".', the key under which the model was saved: "
                                      : ".', which a wrapper of PyTorch adds: ") +
            (takes_key ? "--state-key " + shell_word(names.key()) + " takes it off"
                       : "save the state of the module inside the wrapper");
  }
  return words;
}

}  // namespace reshardfs
