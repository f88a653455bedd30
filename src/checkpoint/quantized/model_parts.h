// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "checkpoint/quantized/quantized_weight.h"
#include "checkpoint/ranks/rank_file.h"

namespace reshardfs {

/// The tensors of a model by their names, what becomes of each when the model is dequantized, and
/// why it cannot be.
class ModelParts {
 public:
  /// @param files all of one rank, with whole tensors; must outlive this.
  explicit ModelParts(std::span<const RankFile> files);

  /// In the order of the files.
  const std::vector<const TensorEntry*>& entries() const noexcept { return entries_; }
  /// nullptr: there is none.
  const TensorEntry* find(std::string_view name) const;
  const TensorEntry* find(std::string_view module, std::string_view part) const;

  /// Where its bytes are. Refuses the model if they are not in one piece, as they are.
  StoredTensor stored(const TensorEntry& entry);
  /// All its bytes: of what is small. @throws Error of reading.
  std::vector<std::byte> content(const TensorEntry& entry) const;

  /// Shows a weight in the place of its codes.
  void show(const TensorEntry& codes, std::string name, QuantizedWeight weight);
  /// It is used for a weight, and is not shown.
  void leave_out(const TensorEntry& entry);
  /// The model cannot be dequantized: what is stored contradicts what is stated, or a part lacks.
  void refuse(const std::string& why, std::string_view name);
  /// Likewise, though nothing is wrong with it.
  void refuse_form(const std::string& why, std::string_view name);

  struct Shown {
    std::string name;
    QuantizedWeight weight;
  };
  /// nullptr: it is shown as it is, or not at all.
  const Shown* shown(const TensorEntry& entry) const;
  bool is_left_out(const TensorEntry& entry) const { return left_out_.contains(&entry); }
  bool is_used(const TensorEntry& entry) const {
    return is_left_out(entry) || shown(entry) != nullptr;
  }
  std::size_t weights() const noexcept { return shown_.size(); }
  /// Whether the module has a weight that is dequantized.
  bool has_weight(std::string_view module) const { return modules_.contains(std::string(module)); }
  bool is_refused(const std::string& name) const { return refused_names_.contains(name); }
  /// Names by the reason.
  const std::map<std::string, std::vector<std::string>>& refused() const noexcept {
    return refused_;
  }
  /// Reasons of refuse_form().
  const std::set<std::string>& forms() const noexcept { return forms_; }

 private:
  struct Place {
    std::size_t file = 0;
    const TensorEntry* entry = nullptr;
  };

  std::span<const RankFile> files_;
  std::vector<const TensorEntry*> entries_;
  std::unordered_map<std::string_view, Place> places_;
  std::unordered_map<const TensorEntry*, Shown> shown_;
  std::unordered_set<const TensorEntry*> left_out_;
  std::unordered_set<std::string> modules_;
  std::map<std::string, std::vector<std::string>> refused_;
  std::set<std::string> forms_;
  std::unordered_set<std::string> refused_names_;
};

/// "model.layers.0.mlp" and "weight": what lies before and behind the last dot. Without a dot the
/// module is empty.
struct ModuleName {
  std::string_view module;
  std::string_view part;
};
ModuleName module_name(std::string_view name);
/// The inverse.
std::string name_in(std::string_view module, std::string_view part);

}  // namespace reshardfs
