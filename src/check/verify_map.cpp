// SPDX-License-Identifier: Apache-2.0
#include "check/verify_map.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/parallel.h"
#include "check/verify_source.h"
#include "plan/mapped_source.h"
#include "plan/tensor_view.h"

namespace reshardfs {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 20U;

/// Two tensors that should be equal, as far as files hold them.
struct Pair {
  std::string name;
  ShardGridPtr grid;
  ShardGridPtr other;
  std::string what;  ///< how they differ, if they do
};

bool repeats(const modelmap::NormalForm& form) {
  return std::any_of(form.boxes.begin(), form.boxes.end(), [](const modelmap::Box& box) {
    return !box.is_literal() &&
           std::any_of(box.axes.begin(), box.axes.end(), [](const modelmap::BoxAxis& axis) {
             return axis.length() > 1 && axis.stride == 0;
           });
  });
}

/// The other direction makes repeated elements of the one that was read: they are to be what the
/// source has.
class MapVerification {
 public:
  MapVerification(const ModelMaps& maps, const VerifyOptions& options, CheckProgress& progress,
                  VerifyReport& report)
      : maps_(maps), options_(options), progress_(progress), report_(report) {}

  void run(std::shared_ptr<const SourceTable> source) {
    const MappedSourceOptions mapped{.compares_ranks = false,
                                     .state_prefixes = options_.state_prefixes};
    for (std::size_t i = 0; i < maps_.size(); ++i) {
      const auto tensors = full_tensors(*source, options_.state_prefixes);
      modelmap::MapOptions map = maps_.map_options(i, source, tensors);
      const modelmap::Mapping mapping = check_mapping(maps_.at(i), tensors, map);
      for (const modelmap::MapProblem& problem : mapping.problems) add(problem);
      add_aliases(*source, mapping);
      if (!mapping.problems.empty()) return;
      auto shown = mapped_source(source, mapping, mapped);
      if (mapping.direction == modelmap::Direction::kInverse) {
        map.direction = modelmap::Direction::kForward;
        add_repeats(*source, shown, maps_.at(i), map);
      }
      source = std::move(shown);
    }
  }

  void compare() {
    for (const Pair& pair : pairs_) progress_.total += 2 * TensorView(pair.grid).size();
    parallel_for(
        pairs_.size(), [&](std::size_t i) { compare(pairs_[i]); }, options_.jobs);
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

  void add_pair(const SourceParameter& parameter, const SourceParameter& other, std::string what) {
    if (!options_.names.takes(parameter.name)) return;
    const bool has_both = parameter.grid && other.grid && parameter.grid->complete() &&
                          other.grid->complete() && parameter.dtype == other.dtype &&
                          parameter.grid->full_shape() == other.grid->full_shape();
    if (has_both) {
      pairs_.push_back({parameter.name, parameter.grid, other.grid, std::move(what)});
    } else {
      report_.warnings.push_back("'" + printable(parameter.name) +
                                 "' was not compared with what the map takes it to equal");
    }
  }

  void add_aliases(const SourceTable& source, const modelmap::Mapping& mapping) {
    for (const modelmap::SourceAlias& alias : mapping.aliases) {
      const SourceParameter& original = source.parameters()[alias.of];
      add_pair(source.parameters()[alias.tensor], original,
               "differs from '" + printable(original.name) + "', of which it is an alias (line " +
                   std::to_string(alias.place.line) + " of " + printable(*alias.place.file) + ")");
    }
  }

  void add_repeats(const SourceTable& source, const std::shared_ptr<const SourceTable>& shown,
                   const modelmap::ModelMap& map, const modelmap::MapOptions& options) {
    const modelmap::Mapping back =
        check_mapping(map, full_tensors(*shown, options_.state_prefixes), options);
    const bool any = std::any_of(back.targets.begin(), back.targets.end(),
                                 [](const auto& target) { return repeats(*target.form); });
    if (!any) return;
    const auto again = mapped_source(shown, back, {.compares_ranks = false});
    for (const modelmap::TargetTensor& target : back.targets) {
      if (!repeats(*target.form)) continue;
      const SourceParameter* original = source.find(target.name);
      if (original == nullptr) continue;
      add_pair(*original, *again->find(target.name),
               "has elements that differ from those that they should repeat (line " +
                   std::to_string(target.place.line) + " of " + printable(*target.place.file) +
                   ")");
    }
    kept_.push_back(again);
  }

  void compare(const Pair& pair) {
    const TensorView one(pair.grid);
    const TensorView other(pair.other);
    std::vector<std::byte> left(static_cast<std::size_t>(std::min(kBlockBytes, one.size())));
    std::vector<std::byte> right(left.size());
    std::uint64_t different = 0;
    for (std::uint64_t done = 0; done < one.size(); done += left.size()) {
      const auto bytes =
          static_cast<std::size_t>(std::min<std::uint64_t>(left.size(), one.size() - done));
      const std::span<std::byte> a = std::span(left).first(bytes);
      const std::span<std::byte> b = std::span(right).first(bytes);
      try {
        ReadBatch batch;
        one.read(done, a, batch);
        other.read(done, b, batch);
        batch.check();
      } catch (const Error& error) {
        Problem problem = problem_from(error);
        problem.parameter = pair.name;
        return keep(pair, std::move(problem));
      }
      // What a map states is not what the source has to have.
      other.for_each_run({done, bytes}, [&](const StridedRun& run) {
        if (run.literal == nullptr) return;
        const std::uint64_t at = run.destination_offset - done;
        std::memcpy(b.data() + at, a.data() + at, static_cast<std::size_t>(run.length));
      });
      for (std::size_t i = 0; i < bytes; ++i) different += a[i] == b[i] ? 0U : 1U;
      progress_.done += 2 * bytes;
    }
    if (different == 0) return;
    Problem problem;
    problem.kind = ProblemKind::kMap;
    problem.parameter = pair.name;
    problem.differing_bytes = different;
    problem.message = pair.what;
    keep(pair, std::move(problem));
  }

  void keep(const Pair& pair, Problem problem) {
    const std::scoped_lock lock(mutex_);
    found_.emplace(&pair, std::move(problem));
  }

  const ModelMaps& maps_;
  const VerifyOptions& options_;
  CheckProgress& progress_;
  VerifyReport& report_;
  std::vector<Pair> pairs_;
  std::vector<std::shared_ptr<const SourceTable>> kept_;  ///< whose names the pairs' grids have
  std::mutex mutex_;
  std::map<const Pair*, Problem> found_;  ///< in the order of the pairs
};

}  // namespace

void verify_maps(const ModelMaps& maps, const VerifyOptions& options,
                 const std::shared_ptr<const CheckpointSet>& set, CheckProgress& progress,
                 VerifyReport& report) {
  if (maps.empty()) return;
  try {
    const std::filesystem::path linkless_root = options.no_symlinks ? options.source : "";
    StrategyInput strategy(options.strategy, {}, linkless_root);
    strategy.allow_unmatched();  // what is to be said of its rules has been
    MapVerification verification(maps, options, progress, report);
    verification.run(
        std::make_shared<const SourceTable>(set, strategy.for_source(*set), options.join));
    verification.compare();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kInternal || error.kind() == ErrorKind::kUsage) throw;
    // A damaged set has problems enough, which are listed.
    report.warnings.push_back(std::string("not compared through the map: ") + error.what());
  }
}

}  // namespace reshardfs
