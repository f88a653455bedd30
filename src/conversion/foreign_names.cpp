// SPDX-License-Identifier: Apache-2.0
#include "conversion/foreign_names.h"

#include "base/text/state_names.h"
#include "base/text/wrapper_names.h"
#include "checkpoint/whole/lora_adapter.h"

namespace reshardfs {

std::string foreign_names(const CheckpointSet& set) {
  if (std::string words = adapter_words(set); !words.empty()) return words;
  CommonWrapper wrapper;
  const FileIndex* before = nullptr;
  for (const RankFile& file : set.files()) {
    // The files of a stage share an index.
    if (file.index.get() == before) continue;
    before = file.index.get();
    for (const TensorEntry& entry : file.index->entries()) {
      if (!is_training_state(entry.name)) wrapper.add(entry.name);
    }
  }
  return wrapper_words(wrapper, set.takes_state_key());
}

}  // namespace reshardfs
