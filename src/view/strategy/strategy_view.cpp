// SPDX-License-Identifier: Apache-2.0
/// strategy/source and strategy/destination, each as .ckpt (MindSpore's protobuf), .json and .txt:
/// what the conversion was made with, also where it was derived or came from rules.
#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "base/text/text.h"
#include "plan/source/recorded_strategy.h"
#include "strategy/files/strategy_file.h"
#include "view/files/text_file.h"
#include "view/view.h"

namespace reshardfs {
namespace {

/// Calls take() with the text, piece by piece.
template <typename Take>
void write_text(const Strategy& strategy, Take&& take) {
  take(counted(static_cast<std::size_t>(strategy.rank_count()), "rank") + ": " +
       counted(static_cast<std::size_t>(strategy.stage_count()), "stage") + " of " +
       counted(static_cast<std::size_t>(strategy.devices_per_stage()), "device") + "\n");
  std::unordered_map<const Layout*, std::string> layouts;  // parameters share them
  for (std::int64_t stage = 0; stage < strategy.stage_count(); ++stage) {
    take("\nstage " + std::to_string(strategy.first_stage() + stage) + "\n");
    for (const auto& [name, layout] : strategy.stage(stage)) {
      std::string& words = layouts[&layout];
      if (words.empty()) words = to_string(layout);
      take("  ");
      take(printable(name));
      take(": ");
      take(words);
      take("\n");
    }
  }
}

std::string as_text(const Strategy& strategy) {
  std::string text;
  write_text(strategy, [&](std::string_view piece) { text += piece; });
  return text;
}

std::uint64_t text_bytes(const Strategy& strategy) {
  std::uint64_t bytes = 0;
  write_text(strategy, [&](std::string_view piece) { bytes += piece.size(); });
  return bytes;
}

std::string layout_text(const SourceParameter& parameter) {
  if (parameter.layout != nullptr) return to_string(*parameter.layout);
  if (parameter.grid == nullptr) return "no layout";
  return to_string(parameter.grid->full_shape()) + " in " + boxes_text(*parameter.grid);
}

/// The layouts that a checkpoint records itself.
std::string recorded_text(const SourceTable& source) {
  std::string text = "recorded by the checkpoint itself\n\n";
  for (const SourceParameter& parameter : source.parameters()) {
    text += "  " + printable(parameter.name) + ": " + layout_text(parameter) + "\n";
  }
  return text;
}

/// @param strategy that of a table of `context.target`, which the files keep; may be nullptr.
void add(const std::string& stem, const Strategy* strategy, const char* without,
         const ViewContext& context, std::vector<OutputFile>& files) {
  if (strategy == nullptr) {
    files.push_back({stem + ".txt", std::make_shared<TextFile>(std::string(without))});
    return;
  }
  const auto made = [&](std::string (*make)(const Strategy&), std::uint64_t bytes) {
    return std::make_shared<MadeFile>(
        [table = context.target, strategy, make] { return make(*strategy); }, bytes);
  };
  files.push_back({stem + ".txt", made(as_text, text_bytes(*strategy))});
  const auto add_form = [&](const std::string& extension, std::string (*make)(const Strategy&),
                            std::uint64_t (*bytes)(const Strategy&)) {
    try {
      files.push_back({stem + extension, made(make, bytes(*strategy))});
    } catch (const Error& error) {
      context.warnings.push_back("no " + stem + extension + ": " + error.what());
    }
  };
  add_form(".json", to_json, json_bytes);
  add_form(".ckpt", to_protobuf, protobuf_bytes);
}

/// The same as a strategy, if one can state it.
void add_recorded(const ViewContext& context, std::vector<OutputFile>& files) {
  files.push_back({"strategy/source.txt", std::make_shared<MadeFile>([table = context.target] {
                     return recorded_text(table->source().unmapped());
                   })});
  const auto made = [table = context.target] {
    return to_json(recorded_strategy(table->source().unmapped(), OptimizerCut::kAsRecorded));
  };
  try {
    files.push_back({"strategy/source.json", std::make_shared<MadeFile>(made)});
  } catch (const Error&) {
    // The text says all that there is.
  }
}

}  // namespace

std::vector<OutputFile> strategy_view(const ViewContext& context) {
  std::vector<OutputFile> files;
  const SourceTable& source = context.target->source().unmapped();
  if (source.states_layouts() && source.strategy() == nullptr) {
    add_recorded(context, files);
  } else {
    add("strategy/source", source.strategy(), "none: every rank holds whole parameters\n", context,
        files);
  }
  const auto& destination = context.target->strategy();
  add("strategy/destination", destination ? &*destination : nullptr,
      "none: one rank that has every parameter whole\n", context, files);
  return files;
}

}  // namespace reshardfs
