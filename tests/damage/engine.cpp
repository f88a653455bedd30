// SPDX-License-Identifier: Apache-2.0
#include "engine.h"

#include <span>
#include <stdexcept>
#include <utility>

#include "conversion/completeness.h"
#include "format/input_format.h"
#include "plan/target/target_table.h"
#include "plan/traffic/traffic.h"

namespace reshardfs::damage {
namespace {

Parameter read_parameter(const TargetTable& target, const TargetParameter& parameter, Rank rank) {
  const ShownTensor view = target.view(parameter, rank);
  Parameter out{parameter.dtype, target.slice_shape(parameter, rank), {}};
  const std::int64_t elements = element_count(out.shape);
  if (view.size() != static_cast<std::uint64_t>(elements * element_size(out.dtype))) {
    throw std::logic_error(parameter.name + ": its view has another size than its shape");
  }
  out.bytes.resize(view.size());
  const auto bytes = std::as_writable_bytes(std::span(out.bytes));
  // In two parts, the last one first.
  ReadBatch batch;
  view.read(bytes.size() / 2, bytes.subspan(bytes.size() / 2), batch);
  view.read(0, bytes.first(bytes.size() / 2), batch);
  batch.check();
  return out;
}

}  // namespace

RankFile rank_file(Rank rank, ByteSourcePtr source, const std::string& extension) {
  RankFile file;
  file.rank = rank;
  file.path = "set/rank_" + to_string(rank) + "/a" + extension;
  file.index =
      std::make_shared<const FileIndex>(input_format_of(file.path).read_index(*source, nullptr));
  file.source = std::move(source);
  return file;
}

std::shared_ptr<const CheckpointSet> set_of(std::vector<RankFile> files) {
  return std::make_shared<const CheckpointSet>(std::move(files));
}

std::vector<Parameters> read_target(std::shared_ptr<const CheckpointSet> set,
                                    std::optional<Strategy> source,
                                    std::optional<Strategy> target_strategy) {
  const TargetTable target(std::make_shared<const SourceTable>(std::move(set), std::move(source)),
                           std::move(target_strategy), {});
  const RankRange ranks(Rank(), target.rank_count());
  require_complete(target, {ranks.begin(), ranks.end()});
  std::vector<Parameters> out;
  for (const Rank rank : ranks) {
    Parameters& parameters = out.emplace_back();
    for (const TargetParameter* parameter : in_file_order(target, rank)) {
      const bool is_new =
          parameters.emplace(parameter->name, read_parameter(target, *parameter, rank)).second;
      if (!is_new) throw std::logic_error(parameter->name + " stands twice in one file");
    }
  }
  return out;
}

Parameters read_whole(std::shared_ptr<const CheckpointSet> set, std::optional<Strategy> source) {
  return read_target(std::move(set), std::move(source), std::nullopt).front();
}

}  // namespace reshardfs::damage
