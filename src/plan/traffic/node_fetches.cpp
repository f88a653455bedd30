// SPDX-License-Identifier: Apache-2.0
#include "plan/traffic/node_fetches.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "plan/traffic/traffic_survey.h"

namespace reshardfs {
namespace {

/// A run of a cell's content, whichever parameter's.
struct CellRun {
  std::size_t cell = 0;
  StridedBytes bytes;

  auto key() const {
    return std::tuple(cell, bytes.offset, bytes.length, bytes.count, bytes.stride);
  }
  bool operator<(const CellRun& other) const { return key() < other.key(); }
};

std::uint64_t span_of(const StridedBytes& run) {
  return (run.count - 1) * run.stride + run.length;
}

/// The part of a run of content that stands in `part`, a range of the content.
/// @return pieces in the content; none if `count` is 0.
StridedBytes whole_pieces_in(const StridedBytes& run, const ByteRange& part) {
  // The first piece that begins in it, and the first that does not end in it.
  const std::uint64_t first =
      part.offset() <= run.offset ? 0 : (part.offset() - run.offset + run.stride - 1) / run.stride;
  const std::uint64_t end = part.end() < run.offset + run.length
                                ? 0
                                : (part.end() - run.offset - run.length) / run.stride + 1;
  StridedBytes inside = run;
  inside.offset = run.offset + first * run.stride;
  inside.count = std::min(end, run.count) - std::min({first, end, run.count});
  return inside;
}

/// What is read on a node.
class NodeReads {
 public:
  explicit NodeReads(const CacheGrain& grain) : grain_(grain) {}

  void add(const Holding& holding, StridedBytes run) {
    const TensorEntry& entry = *holding.entry;
    if (entry.encoding == ContentEncoding::kFloat32AsBFloat16) {
      for (std::uint64_t* number : {&run.offset, &run.length, &run.stride}) *number *= 2;
    }
    SectorSet& sectors = sectors_of(*holding.file);
    std::uint64_t content = 0;  // where the extent begins in it
    for (const ByteRange& extent : entry.extents) {
      add_part(sectors, run, ByteRange(content, extent.length()), extent.offset());
      content += extent.length();
      if (run.offset + span_of(run) <= content) return;
    }
  }

  std::uint64_t sector_bytes() const {
    return sum([](const SectorSet& sectors) { return sectors.bytes(); });
  }
  std::uint64_t block_bytes() const {
    return sum([](const SectorSet& sectors) { return sectors.block_bytes(); });
  }

 private:
  SectorSet& sectors_of(const RankFile& file) {
    if (&file == last_file_) return *last_;
    last_file_ = &file;
    last_ = &files_.try_emplace(&file, file.source->size(), grain_).first->second;
    return *last_;
  }

  /// @param part of the content, which stands at byte `place` of the file.
  static void add_part(SectorSet& sectors, const StridedBytes& run, const ByteRange& part,
                       std::uint64_t place) {
    StridedBytes whole = whole_pieces_in(run, part);
    if (whole.count > 0) {
      whole.offset = place + (whole.offset - part.offset());
      sectors.add(whole);
    }
    add_cut_piece(sectors, run, part, place, part.offset());
    if (!part.empty()) add_cut_piece(sectors, run, part, place, part.end() - 1);
  }

  /// The part in it of the piece that `byte` belongs to, if there is one.
  static void add_cut_piece(SectorSet& sectors, const StridedBytes& run, const ByteRange& part,
                            std::uint64_t place, std::uint64_t byte) {
    if (byte < run.offset) return;
    const std::uint64_t number = std::min((byte - run.offset) / run.stride, run.count - 1);
    const std::uint64_t begin = std::max(run.offset + number * run.stride, part.offset());
    const std::uint64_t end = std::min(run.offset + number * run.stride + run.length, part.end());
    if (begin < end) sectors.add(ByteRange(place + (begin - part.offset()), end - begin));
  }

  template <typename Count>
  std::uint64_t sum(Count&& count) const {
    std::uint64_t total = 0;
    for (const auto& [file, sectors] : files_) total += count(sectors);
    return total;
  }

  CacheGrain grain_;
  std::unordered_map<const RankFile*, SectorSet> files_;
  const RankFile* last_file_ = nullptr;
  SectorSet* last_ = nullptr;
};

StridedBytes bytes_of(const StridedRun& run) {
  return {run.source_offset, run.length, run.count, std::max(run.source_stride, run.length)};
}

/// What reading the run takes from a file that gives it in ranges.
std::uint64_t fetched_bytes(const TensorEntry& entry, const StridedBytes& run,
                            std::uint64_t joined_stride) {
  const std::uint64_t content = run.stride < joined_stride ? span_of(run) : run.length * run.count;
  return entry.encoding == ContentEncoding::kFloat32AsBFloat16 ? 2 * content : content;
}

class Survey {
 public:
  Survey(const TargetTable& target, const std::vector<Rank>& ranks, const FetchGrain& grain)
      : target_(target), grain_(grain), kinds_(survey_traffic(target, ranks, 1)) {
    members_.resize(kinds_.kinds.size());
    for (std::size_t i = 0; i < kinds_.kind_of.size(); ++i) {
      members_[kinds_.kind_of[i]].push_back(i);
    }
  }

  NodeFetches node(const std::vector<Rank>& ranks) const {
    NodeFetches fetches;
    fetches.ranks = ranks;
    NodeReads reads(grain_.cache);
    for (const std::vector<std::size_t>& members : members_) {
      add_kind(members, ranks, fetches, reads);
    }
    fetches.fetched_cached = reads.sector_bytes();
    fetches.cache = reads.block_bytes();
    return fetches;
  }

 private:
  const TargetParameter& parameter(std::size_t number) const {
    return target_.parameters()[number];
  }

  /// Parameters that every rank reads in the same way.
  void add_kind(const std::vector<std::size_t>& members, const std::vector<Rank>& ranks,
                NodeFetches& fetches, NodeReads& reads) const {
    const TargetParameter& first = parameter(members.front());
    std::set<std::vector<CellRun>> seen;
    for (const Rank rank : ranks) {
      if (!target_.has(first, rank)) continue;
      const ShownTensor view = target_.view(first, rank);
      // Of a map, alike parameters may be made of different tensors; and a rank's own replica is
      // nobody else's.
      if (&view.grid() != first.grid.get() || view.grid().mapped() != nullptr) {
        for (const std::size_t number : members) {
          const ShownTensor own = target_.view(parameter(number), rank);
          add_view(parameter(number), own, fetches, reads);
        }
        continue;
      }
      std::vector<CellRun> runs;
      view.for_each_run(ByteRange::whole(view.size()), [&](const StridedRun& run) {
        if (run.holding) runs.push_back({run.cell, bytes_of(run)});
      });
      const bool is_new = seen.insert(runs).second;
      for (const std::size_t number : members) {
        add_runs(parameter(number), view, runs, is_new, fetches, reads);
      }
    }
  }

  static std::uint64_t needed_bytes(const TargetParameter& parameter, const ShownTensor& view) {
    const auto from = static_cast<std::uint64_t>(element_size(view.grid().dtype()));
    return view.size() / from * static_cast<std::uint64_t>(element_size(parameter.dtype));
  }

  /// @param is_new whether no other rank of the node reads the same.
  void add_runs(const TargetParameter& parameter, const ShownTensor& like,
                const std::vector<CellRun>& runs, bool is_new, NodeFetches& fetches,
                NodeReads& reads) const {
    fetches.needed += needed_bytes(parameter, like);
    for (const CellRun& run : runs) {
      const Holding holding = parameter.grid->cell(run.cell);
      if (!holding) continue;
      fetches.fetched += fetched_bytes(*holding.entry, run.bytes, grain_.joined_stride);
      if (is_new) reads.add(holding, run.bytes);
    }
  }

  void add_view(const TargetParameter& parameter, const ShownTensor& view, NodeFetches& fetches,
                NodeReads& reads) const {
    fetches.needed += needed_bytes(parameter, view);
    view.for_each_run(ByteRange::whole(view.size()), [&](const StridedRun& run) {
      if (!run.holding) return;
      const StridedBytes bytes = bytes_of(run);
      fetches.fetched += fetched_bytes(*run.holding.entry, bytes, grain_.joined_stride);
      reads.add(run.holding, bytes);
    });
  }

  const TargetTable& target_;
  FetchGrain grain_;
  TrafficSurvey kinds_;
  std::vector<std::vector<std::size_t>> members_;  ///< numbers of parameters, of each kind
};

}  // namespace

std::vector<std::vector<Rank>> ranks_of_nodes(const std::vector<Rank>& ranks, std::size_t nodes) {
  std::vector<std::vector<Rank>> out;
  auto next = ranks.begin();
  for (std::size_t node = 0; node < nodes; ++node) {
    const std::size_t count = ranks.size() / nodes + (node < ranks.size() % nodes ? 1 : 0);
    const auto end = next + static_cast<std::ptrdiff_t>(count);
    out.emplace_back(next, end);
    next = end;
  }
  return out;
}

std::vector<NodeFetches> node_fetches(const TargetTable& target,
                                      const std::vector<std::vector<Rank>>& nodes,
                                      const FetchGrain& grain) {
  std::vector<Rank> ranks;
  for (const std::vector<Rank>& node : nodes) ranks.insert(ranks.end(), node.begin(), node.end());
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const Survey survey(target, ranks, grain);
  std::vector<NodeFetches> out;
  out.reserve(nodes.size());
  for (const std::vector<Rank>& node : nodes) out.push_back(survey.node(node));
  return out;
}

std::optional<double> FetchTimes::least() const {
  if (!node) return store;
  if (!store) return node;
  return std::max(*node, *store);
}

FetchTimes fetch_times(const std::vector<std::uint64_t>& bytes, const Bandwidths& bandwidths) {
  FetchTimes times;
  if (bytes.empty()) return times;
  const auto most = static_cast<double>(*std::max_element(bytes.begin(), bytes.end()));
  const auto all =
      static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0}));
  if (bandwidths.node) times.node = most / *bandwidths.node;
  if (bandwidths.store) times.store = all / *bandwidths.store;
  return times;
}

}  // namespace reshardfs
