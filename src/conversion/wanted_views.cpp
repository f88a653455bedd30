// SPDX-License-Identifier: Apache-2.0
#include "conversion/wanted_views.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "conversion/option_words.h"
#include "conversion/stated_model/stated_model.h"

namespace reshardfs {
namespace {

template <typename Value>
bool contains(const std::vector<Value>& values, Value value) {
  return std::find(values.begin(), values.end(), value) != values.end();
}

/// A second copy of the rank files takes as long to make as the first: only if it is asked for.
bool is_optional(ViewKind kind) {
  return kind == ViewKind::kIteration || kind == ViewKind::kDcp ||
         kind == ViewKind::kDcpHuggingFace || kind == ViewKind::kMegatron ||
         kind == ViewKind::kHyper || kind == ViewKind::kVllm;
}

/// Whether `--views merged` includes this view.
bool is_of_merged(ViewKind kind, const std::vector<OutputFormat>& formats) {
  switch (kind) {
    case ViewKind::kMergedCkpt:
      return formats.empty() || contains(formats, OutputFormat::kCkpt);
    case ViewKind::kMergedSafetensors:
      return formats.empty() || contains(formats, OutputFormat::kSafetensors);
    case ViewKind::kMergedTorch:
      return contains(formats, OutputFormat::kTorch);
    case ViewKind::kHub:
      return formats.empty();
    default:
      return false;
  }
}

class IdleOptions {
 public:
  IdleOptions(const ConversionOptions& options, UnmatchedOptions& unmatched)
      : options_(options), unmatched_(unmatched) {}

  bool shows(std::initializer_list<ViewKind> kinds) const {
    return std::any_of(kinds.begin(), kinds.end(),
                       [&](ViewKind kind) { return is_wanted(kind, options_); });
  }

  /// @param is_given whether the option is not what it is by default.
  void check(bool is_given, bool is_used, const std::string& option, const std::string& is_for) {
    if (is_given && !is_used) unmatched_.add(option + " is for " + is_for + ", which " + shown());
  }

 private:
  std::string shown() const {
    std::string list;
    for (const ViewKind kind : options_.views) {
      list += (list.empty() ? "" : ",") + word_of(kViewWords, kind);
    }
    return list.empty() ? "is not shown by default: add it to --views"
                        : "--views " + list + " does not show";
  }

  const ConversionOptions& options_;
  UnmatchedOptions& unmatched_;
};

}  // namespace

bool has_one_value(ViewKind kind) {
  return kind != ViewKind::kRanks && kind != ViewKind::kStrategy;
}

bool shows_the_whole(ViewKind kind) {
  return kind == ViewKind::kHyper || (has_one_value(kind) && !is_optional(kind));
}

bool is_wanted(ViewKind kind, const ConversionOptions& options) {
  const std::vector<ViewKind>& wanted = options.views;
  if (wanted.empty() && kind == ViewKind::kMergedTorch) return is_of_merged(kind, options.formats);
  if (wanted.empty()) return !is_optional(kind);
  return contains(wanted, kind) ||
         (contains(wanted, ViewKind::kMerged) && is_of_merged(kind, options.formats));
}

bool is_named(ViewKind kind, const ConversionOptions& options) {
  return contains(options.views, kind);
}

bool wants_whole(const ConversionOptions& options) {
  return options.views.empty() || names_whole(options);
}

bool names_whole(const ConversionOptions& options) {
  return std::any_of(options.views.begin(), options.views.end(),
                     [](ViewKind kind) { return shows_the_whole(kind); });
}

void add_idle_view_options(const ConversionOptions& options,
                           const std::vector<OutputFormat>& formats, UnmatchedOptions& unmatched) {
  using enum ViewKind;
  const ConversionOptions usual;
  IdleOptions idle(options, unmatched);
  const bool ranks = idle.shows({kRanks});
  const bool ckpt = (ranks && contains(formats, OutputFormat::kCkpt)) || idle.shows({kMergedCkpt});
  const bool safetensors =
      (ranks && contains(formats, OutputFormat::kSafetensors)) || idle.shows({kMergedSafetensors});
  const bool torch =
      (ranks && contains(formats, OutputFormat::kTorch)) || idle.shows({kMergedTorch});
  const bool by_rank = ranks || idle.shows({kIteration, kVllm}) ||
                       (idle.shows({kDcp, kDcpHuggingFace, kMegatron}) && options.dcp_shards == 0);
  idle.check(!options.ranks.empty(), by_rank, "--ranks", "the files of ranks");
  idle.check(options.rank_params, ranks, "--params", "the rank directories");
  idle.check(!options.formats.empty(),
             ranks || idle.shows({kMergedCkpt, kMergedSafetensors, kMergedTorch}), "--format",
             "files of ranks and of the whole model");
  idle.check(options.prefix != usual.prefix, ckpt || safetensors || torch, "--prefix",
             "files of ranks and of the whole model");
  idle.check(options.append_crc, ckpt || torch, "--crc", ".ckpt and .pt files");
  idle.check(options.safetensors_metadata != usual.safetensors_metadata, safetensors, "--metadata",
             "safetensors files of ranks and of the whole model");
  idle.check(options.align.has_value(),
             safetensors || idle.shows({kHub, kHuggingFace, kUnified, kIteration, kDcpHuggingFace,
                                        kHyper, kVllm}),
             "--align", "safetensors files");
  idle.check(options.shard_bytes != usual.shard_bytes, idle.shows({kHub, kHuggingFace, kHyper}),
             "--shard-size", "the views hub, hf and hyper");
  idle.check(options.dcp_shards > 0, idle.shows({kDcp, kDcpHuggingFace, kMegatron}), "--dcp-shards",
             "the views dcp, dcp-hf and megatron");
  idle.check(options.iteration_release != usual.iteration_release, idle.shows({kIteration}),
             "--iteration-release", "the view iteration");
  idle.check(options.dcp_release != usual.dcp_release, idle.shows({kDcp}), "--dcp-release",
             "the view dcp");
  for (const auto& [name, member] : kTrainerWords) {
    idle.check((options.trainer.*member).has_value(), idle.shows({kHyper}),
               "--map-var " + std::string(name), "the view hyper");
  }
  if (options.dst_sizes.empty() && !idle.shows({kHuggingFace, kVllm}) &&
      !has_use_for_config(options.source)) {
    unmatched.add(
        "--model-config states no size of a model to compare: name another config.json, give "
        "--map, or add hf to --views");
  }
}

}  // namespace reshardfs
