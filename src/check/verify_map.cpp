// SPDX-License-Identifier: Apache-2.0
#include "check/verify_map.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "check/problem.h"
#include "conversion/map_copies.h"
#include "plan/mapped/equal_tensors.h"
#include "plan/mapped/mapped_source.h"
#include "plan/target/shown_tensor.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kMapBlockBytes = std::uint64_t{1} << 20U;

class MapVerification {
 public:
  MapVerification(const ModelMaps& maps, const VerifyOptions& options, Progress& progress,
                  VerifyReport& report)
      : maps_(maps), options_(options), progress_(progress), report_(report) {}

  void run(std::shared_ptr<const SourceTable> source) {
    const MappedSourceOptions mapped{.compares_ranks = false,
                                     .state_prefixes = options_.names.state_prefixes};
    for (std::size_t i = 0; i < maps_.size(); ++i) {
      const auto tensors = full_tensors(*source, options_.names.state_prefixes);
      modelmap::MapOptions map = maps_.map_options(i, source, tensors);
      if (!options_.names.include.empty() || !options_.names.exclude.empty()) {
        const bool is_last = i + 1 == maps_.size();
        map.wants = [this, is_last](const std::string& name) {
          return is_last && options_.names.takes(name);
        };
      }
      const modelmap::Mapping mapping = check_mapping(maps_.at(i), tensors, map);
      for (const modelmap::MapProblem& problem : mapping.problems) add(problem);
      const bool is_sound = mapping.problems.empty();
      auto shown = is_sound ? mapped_source(source, mapping, mapped) : nullptr;
      add(map_copies(maps_.at(i), map, mapping, source, shown, options_.names.state_prefixes));
      if (!is_sound) return;
      source = std::move(shown);
    }
  }

  void compare() {
    for (const MapCopy& copy : copies_)
      progress_.expect_bytes(2 * ShownTensor(copy.pair.grid).size());
    parallel_for(
        copies_.size(), [&](std::size_t i) { compare(copies_[i]); }, options_.jobs);
    for (auto& [number, problem] : found_) report_.problems.push_back(std::move(problem));
  }

 private:
  void add(const modelmap::MapProblem& problem) {
    Problem& added = report_.problems.emplace_back();
    added.kind = ProblemKind::kMap;
    added.file = problem.file;
    added.message =
        (problem.line == 0 ? "" : "line " + std::to_string(problem.line) + ": ") + problem.message;
  }

  void add(MapCopies found) {
    for (MapCopy& copy : found.copies) {
      if (options_.names.takes(copy.pair.name)) copies_.push_back(std::move(copy));
    }
    for (const std::string& name : found.uncompared) {
      if (!options_.names.takes(name)) continue;
      report_.warnings.push_back("'" + printable(name) +
                                 "' was not compared with the tensor that it equals by the map");
    }
    std::move(found.kept.begin(), found.kept.end(), std::back_inserter(kept_));
  }

  void compare(const MapCopy& copy) {
    const ShownTensor one(copy.pair.grid);
    const ShownTensor other(copy.pair.other);
    std::uint64_t different = 0;
    for (std::uint64_t done = 0; done < one.size(); done += kMapBlockBytes) {
      const std::uint64_t bytes = std::min<std::uint64_t>(kMapBlockBytes, one.size() - done);
      try {
        different += differing_bytes(one, other, {done, bytes}, copy.pair.has_fill);
      } catch (const Error& error) {
        Problem problem = problem_from(error);
        problem.parameter = copy.pair.name;
        return keep(copy, std::move(problem));
      }
      progress_.add_bytes(2 * bytes);
    }
    if (different == 0) return;
    Problem problem;
    problem.kind = ProblemKind::kMap;
    problem.parameter = copy.pair.name;
    problem.differing_bytes = different;
    problem.message = copy.what;
    keep(copy, std::move(problem));
  }

  void keep(const MapCopy& copy, Problem problem) {
    const std::scoped_lock lock(mutex_);
    found_.emplace(&copy, std::move(problem));
  }

  const ModelMaps& maps_;
  const VerifyOptions& options_;
  Progress& progress_;
  VerifyReport& report_;
  std::vector<MapCopy> copies_;
  std::vector<std::shared_ptr<const SourceTable>> kept_;  ///< whose names the pairs' grids have
  std::mutex mutex_;
  std::map<const MapCopy*, Problem> found_;  ///< in their order
};

}  // namespace

void verify_maps(const ModelMaps& maps, const PreviewOfSet& preview, const VerifyOptions& options,
                 Progress& progress, VerifyReport& report) {
  if (maps.empty()) return;
  try {
    if (preview.failure) throw Error(*preview.failure);
    MapVerification verification(maps, options, progress, report);
    verification.run(preview.table);
    verification.compare();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal || error.kind() == ErrorKind::kUsage) throw;
    // A damaged set has problems enough, which are listed.
    report.warnings.push_back(std::string("not compared through the map: ") + error.what());
  }
}

}  // namespace reshardfs
