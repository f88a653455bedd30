// SPDX-License-Identifier: Apache-2.0
/// What the source states beside its tensors, where it is still true of those that files show.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "view/view.h"
#include "view/weights.h"

namespace reshardfs {

/// The tensors of files, which are to have words in their headers.
struct DescribedFiles {
  const TargetTable& table;
  TakesParameter takes{};
  /// Whether all files together are to be read as whole tensors, even if each has parts of them.
  bool are_one_model = false;
};

struct ShownWords {
  safetensors::Metadata header{};
  /// Members of an index's metadata, as JSON.
  std::vector<std::pair<std::string, std::string>> index{};
};

/// A word about a tensor is true if the tensor has its name, its type and all its elements; one
/// about another name of a tensor, if that tensor has its name. A word that is not true is left
/// out, and named in a warning. What is not about tensors is always true.
ShownWords shown_words(const ViewContext& context, const DescribedFiles& files);

/// Types that safetensors has none for, by the name of the tensor, as MindSpore's own files state
/// them: "Int4" where an Int8 holds one. shown_words() has them, too.
safetensors::Metadata words_of_types(const DescribedFiles& files);

/// @param common as safetensors_common() makes it; its own words win.
std::shared_ptr<const SafetensorsFile::Common> with_words(
    std::shared_ptr<const SafetensorsFile::Common> common, const safetensors::Metadata& words);

/// Whether files of ranks have words of the source: those in MindSpore's form state the format
/// alone, as its own do.
bool rank_files_hold_words(const ViewContext& context);

/// Names, in a warning, the words that none of the views can hold.
/// @param shown the views that are shown.
void tell_lost_words(const ViewContext& context, const std::set<ViewKind>& shown);

}  // namespace reshardfs
