// SPDX-License-Identifier: Apache-2.0
#include "reshardfs/conversion.h"

#include <algorithm>
#include <map>

#include "reshardfs/error.h"
#include "reshardfs/strategy.h"

#include "base/rank_list.h"
#include "checkpoint/checkpoint_set.h"
#include "plan/record_order.h"
#include "plan/target_table.h"
#include "view/strategy_input.h"
#include "view/view.h"

namespace reshardfs {
namespace {

void require_plain_prefix(const std::string& prefix) {
  const bool hostile = std::any_of(prefix.begin(), prefix.end(), [](char c) {
    return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  });
  // 255 bytes for a name, less ".ckpt" and the rank or "merged".
  if (hostile || prefix.size() > 230) {
    throw Error(ErrorKind::kUsage, "the prefix '" + printable(prefix) + "' is no file name")
        .hint("use at most 230 bytes without '/' and control characters");
  }
}

std::vector<std::int64_t> ranks_to_show(const std::vector<std::int64_t>& chosen,
                                        std::int64_t count) {
  std::vector<std::int64_t> ranks = chosen;
  if (ranks.empty()) {
    for (std::int64_t rank = 0; rank < count; ++rank) ranks.push_back(rank);
    return ranks;
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.front() < 0 || ranks.back() >= count) {
    throw Error(ErrorKind::kUsage, "there is no destination rank " +
                                       format_rank_list({ranks.back()}) + ": the target has " +
                                       std::to_string(count) + " (0 to " +
                                       std::to_string(count - 1) + ")");
  }
  return ranks;
}

/// The whole model, or nothing and a warning: what has no whole form (a parameter that the target
/// leaves out may differ between the ranks) must not keep the rank files from being shown.
std::shared_ptr<const TargetTable> whole_table(const std::shared_ptr<const SourceTable>& source,
                                               const TargetOptions& options,
                                               std::vector<std::string>& warnings) {
  try {
    return std::make_shared<const TargetTable>(source, std::nullopt, options);
  } catch (const Error& error) {
    warnings.push_back(std::string("no merged file: ") + error.what());
    return nullptr;
  }
}

}  // namespace

struct Conversion::State {
  std::shared_ptr<const CheckpointSet> checkpoint;
  std::shared_ptr<const TargetTable> target;
  std::vector<OutputFile> files;
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
};

Conversion::Conversion(std::unique_ptr<State> state) : state_(std::move(state)) {}
Conversion::Conversion(Conversion&&) noexcept = default;
Conversion& Conversion::operator=(Conversion&&) noexcept = default;
Conversion::~Conversion() = default;

Conversion Conversion::open(const ConversionOptions& options) {
  require_plain_prefix(options.prefix);
  auto state = std::make_unique<State>();
  // Strategy files first: they are small, and a wrong one is the most likely mistake.
  StrategyInput source_input(options.src_strategy);
  StrategyInput target_input(options.dst_strategy, options.dst_sizes);
  const NameMap name_map = options.name_map.empty() ? NameMap() : NameMap::load(options.name_map);
  state->checkpoint = std::make_shared<const CheckpointSet>(
      CheckpointSet::open(options.source, {options.src_pattern, options.step, options.check_crc}));
  state->notes = state->checkpoint->notes();

  const auto source = std::make_shared<const SourceTable>(
      state->checkpoint, source_input.for_source(*state->checkpoint), options.src_join);
  const TargetOptions target_options{
      options.unmatched, {options.include, options.exclude}, name_map, options.state_prefixes};
  std::optional<Strategy> target_strategy = target_input.for_target(*source, name_map);
  const bool is_whole = !target_strategy;
  state->target =
      std::make_shared<const TargetTable>(source, std::move(target_strategy), target_options);
  state->warnings = state->target->warnings();
  const auto whole =
      is_whole ? state->target : whole_table(source, target_options, state->warnings);
  state->notes.insert(state->notes.end(), state->target->notes().begin(),
                      state->target->notes().end());

  const std::vector<std::int64_t> ranks = ranks_to_show(options.ranks, state->target->rank_count());
  const ViewContext context{options, ranks, state->target, whole, state->warnings};
  for (const ViewBuilder build : view_registry()) {
    for (OutputFile& file : build(context)) state->files.push_back(std::move(file));
  }
  return Conversion(std::move(state));
}

std::int64_t Conversion::rank_count() const {
  return state_->target->rank_count();
}

const std::vector<OutputFile>& Conversion::files() const {
  return state_->files;
}

std::vector<SourceTraffic> Conversion::traffic(std::int64_t rank) const {
  if (rank < 0 || rank >= rank_count()) {
    throw Error(ErrorKind::kUsage, "there is no destination rank " + std::to_string(rank) +
                                       ": the target has " + std::to_string(rank_count()));
  }
  // Files in the order of their ranks, and of their parts within a rank.
  std::map<std::pair<std::int64_t, std::int64_t>, SourceTraffic> by_file;
  for (const TargetTensor& tensor : state_->target->tensors(rank)) {
    tensor.view.for_each_cell([&](const Holding& holding, std::uint64_t bytes) {
      if (!holding || bytes == 0) return;
      SourceTraffic& traffic = by_file[{holding.file->rank, holding.file->part}];
      traffic.rank = holding.file->rank;
      traffic.file = holding.file->path.string();
      traffic.bytes += bytes;
    });
  }
  std::vector<SourceTraffic> list;
  list.reserve(by_file.size());
  for (auto& [file, traffic] : by_file) list.push_back(std::move(traffic));
  return list;
}

std::int64_t Conversion::mtime_ns() const {
  return state_->checkpoint->mtime_ns();
}
const std::string& Conversion::step() const {
  return state_->checkpoint->step();
}
const std::vector<std::string>& Conversion::warnings() const {
  return state_->warnings;
}
const std::vector<std::string>& Conversion::rules() const {
  return state_->target->notes();
}
const std::vector<std::string>& Conversion::notes() const {
  return state_->notes;
}

}  // namespace reshardfs
