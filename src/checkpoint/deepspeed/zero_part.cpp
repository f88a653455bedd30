// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/zero_part.h"

#include <algorithm>
#include <map>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/process/parallel.h"
#include "base/text/text.h"
#include "base/text/url_path.h"
#include "checkpoint/deepspeed/zero_agreement.h"
#include "checkpoint/deepspeed/zero_layout.h"
#include "checkpoint/deepspeed/zero_places.h"
#include "checkpoint/deepspeed/zero_rest.h"
#include "checkpoint/torch/archive_folder.h"
#include "format/torch/torch_tensor.h"
#include "storage/inputs.h"

namespace reshardfs {

namespace fs = std::filesystem;

class ZeroPart::Reader {
 public:
  Reader(const fs::path& directory, const ZeroFiles& names, const SourceTreePtr& tree,
         JoinedTensors& joined)
      : directory_(directory), names_(names), tree_(tree), joined_(joined) {}

  /// The files' ranks must be all, and what they state must be of one save.
  void open() {
    require_each_rank();
    open_model();
    open_optimizer();
    require_equal_facts();
  }

  void take() {
    require_agreement();
    if (optimizer_.front().is_stage3) {
      take_stage3();
    } else {
      take_stage2();
      const ZeroModelFile& model = models_.front();
      try {
        for (const TorchTensor& copy : model.states.copies) joined_.add_copy(copy, model.number);
      } catch (Error& error) {
        throw error.in_file(path_of(model.name).string()).hint(kBringAll);
      }
    }
    try {
      take_aliases(models_.front(), joined_);
    } catch (const Error& error) {
      refuse(error.message());
    }
  }

  void cut(std::size_t rank) {
    try {
      joined_.cut(models_.front().states.cuts, rank);
    } catch (Error& error) {
      throw error.in_file(path_of(models_.front().name).string()).hint(kBringAll);
    }
  }

  const ZeroModelStates& model() const { return models_.front().states; }
  const std::vector<ZeroFile>& facts() const noexcept { return facts_; }
  const SavedNames& files() const noexcept { return files_; }
  std::size_t optimizer_files() const noexcept { return optimizer_.size(); }

  void state(Discovery& out) const {
    note_incomplete(out);
    note_refused(models_.front(), out);
  }

 private:
  [[noreturn]] void refuse(const std::string& what, ErrorKind kind = ErrorKind::kBadInput) const {
    throw Error(kind, what).in_file(directory_.string()).hint(kBringAll);
  }

  fs::path path_of(const std::string& name) const { return directory_ / name; }
  std::int64_t world() const { return static_cast<std::int64_t>(names_.optimizer.size()); }

  /// The files' ranks must be 0 to n. What they state of n comes later.
  void require_each_rank() const {
    if (names_.model.empty()) refuse("has no file of model states", ErrorKind::kMissing);
    if (names_.optimizer.empty()) {
      refuse("has no file of optimizer states, in which the parameters are in float32",
             ErrorKind::kMissing);
    }
    require_ranks(names_.optimizer, "optimizer");
    if (names_.model_of_each_rank) require_ranks(names_.model, "model");
    if (names_.model_of_each_rank && names_.model.size() != names_.optimizer.size()) {
      refuse("has " + counted(names_.model.size(), "file") + " of model states, but " +
                 std::to_string(names_.optimizer.size()) + " of optimizer states",
             ErrorKind::kMissing);
    }
  }

  void require_ranks(const std::map<std::int64_t, std::string>& files, const char* what) const {
    std::int64_t expected = 0;
    for (const auto& [rank, name] : files) {
      if (rank == expected++) continue;
      refuse(
          "has no file of " + std::string(what) + " states of rank " + std::to_string(expected - 1),
          ErrorKind::kMissing);
    }
  }

  void open_model() {
    std::vector<std::string> names;
    for (const auto& [rank, name] : names_.model) names.push_back(name);
    models_.resize(names.size());
    const auto read = [&](std::size_t i) {
      models_[i].name = names[i];
      models_[i].file = open_file(path_of(names[i]), tree_);
      record_open(path_of(names[i]), *models_[i].file, tree_);
      models_[i].states = read_archive(*models_[i].file, read_zero_model);
    };
    read(0);
    const ZeroModelStates& first = models_.front().states;
    parallel_for(
        models_.size() - 1,
        [&](std::size_t i) {
          read(i + 1);
          ZeroModelStates& states = models_[i + 1].states;
          if (states.groups != first.groups || states.frozen != first.frozen) {
            refuse("'" + printable(names[0]) + "' and '" + printable(names[i + 1]) +
                   "' list other parameters: they are not of one save");
          }
          states.groups.clear();
        },
        threads());
    for (std::size_t i = 0; i < names.size(); ++i) {
      facts_.push_back({names[i], std::move(models_[i].states.facts)});
      files_.emplace_back(path_of(names[i]), models_[i].states.folder);
    }
    // The files of other ranks have nothing more, but for their fragments.
    if (first.frozen.empty()) models_.resize(1);
    for (ZeroModelFile& model : models_) model.number = joined_.add_file(model.file);
  }

  void open_optimizer() {
    std::vector<std::string> names;
    for (const auto& [rank, name] : names_.optimizer) names.push_back(name);
    optimizer_.resize(names.size());
    std::vector<ByteSourcePtr> files(names.size());
    parallel_for(
        names.size(),
        [&](std::size_t i) {
          files[i] = open_file(path_of(names[i]), tree_);
          optimizer_[i] = read_archive(*files[i], read_zero_optimizer);
        },
        threads());
    for (std::size_t i = 0; i < files.size(); ++i) {
      numbers_.push_back(joined_.add_file(files[i]));
      facts_.push_back({names[i], std::move(optimizer_[i].facts)});
      files_.emplace_back(path_of(names[i]), optimizer_[i].folder);
    }
  }

  std::size_t threads() const { return is_url(directory_) ? kRequestsAtOnce : 0; }

  const std::string& optimizer_name(std::size_t rank) const {
    return names_.optimizer.at(static_cast<std::int64_t>(rank));
  }

  void require_agreement() const {
    std::vector<NamedOptimizer> optimizers;
    for (std::size_t rank = 0; rank < optimizer_.size(); ++rank) {
      optimizers.push_back({optimizer_name(rank), &optimizer_[rank]});
    }
    try {
      require_one_optimizer(names_.model.begin()->second, model(), optimizers);
    } catch (const Error& error) {
      refuse(error.message(), error.kind());
    }
    if (optimizer_.front().is_stage3 != names_.model_of_each_rank) {
      refuse("has files of model states that do not fit the stage of its optimizer states");
    }
  }

  /// Files of several saves may have tensors of the same lengths.
  void require_equal_facts() const {
    try {
      require_one_zero_save(facts_);
      require_steps(optimizer_.front().steps, optimizer_name(0), models_.front().states.steps);
    } catch (const Error& error) {
      refuse(error.message());
    }
  }

  /// A flat group of one kind: the weights, or one of the moments; nullptr: there is none.
  static const TorchTensor* group_of(const ZeroOptimizerStates& states, const std::string& moment,
                                     std::size_t group) {
    if (moment.empty()) return &states.weights[group];
    const auto& groups = states.moments.at(moment);
    const auto found = groups.find(group);
    return found == groups.end() ? nullptr : &found->second;
  }

  /// The names are those of all moments, and the empty one of the weights.
  std::vector<std::string> kinds() const {
    std::vector<std::string> all{""};
    for (const auto& [name, groups] : optimizer_.front().moments) all.push_back(name);
    return all;
  }

  void take_stage2() {
    const ZeroModelStates& model = models_.front().states;
    const std::size_t groups = optimizer_.front().weights.size();
    if (model.groups.size() != groups) {
      refuse("has " + counted(model.groups.size(), "group") +
             " of parameters in the file of model states, but " + std::to_string(groups) +
             " in those of optimizer states");
    }
    std::vector<ZeroPartition> partitions;
    for (std::size_t group = 0; group < groups; ++group) partitions.push_back(partition(group));
    for (const std::string& kind : kinds()) {
      for (std::size_t group = 0; group < groups; ++group) take_group(kind, group, partitions);
      if (kind.empty()) take_rest();
    }
  }

  ZeroPartition partition(std::size_t group) const {
    const std::vector<ZeroShape>& parameters = models_.front().states.groups[group];
    std::vector<std::int64_t> lengths;
    for (const ZeroOptimizerStates& states : optimizer_) {
      lengths.push_back(states.weights[group].shape.front());
    }
    try {
      ZeroPartition out = zero_partition(parameters, lengths, paddings(group));
      if (optimizer_.front().is_round_robin) return out;
      for (std::size_t rank = 0; rank < optimizer_.size(); ++rank) {
        require_fragments(out, group, rank);
      }
      return out;
    } catch (const Error& error) {
      refuse("group " + std::to_string(group) + " is not of one save: " + error.message());
    }
  }

  ZeroPaddings paddings(std::size_t group) const {
    ZeroPaddings out;
    const ZeroOptimizerStates& last = optimizer_.back();
    if (group < last.alignments.size()) out.alignments = last.alignments[group];
    if (!last.paddings) return out;
    out.end = 0;
    for (const ZeroOptimizerStates& states : optimizer_) {
      if (!states.paddings) continue;
      out.end = add_or_throw(*out.end, (*states.paddings)[group], "a group's length");
    }
    return out;
  }

  /// What a file states of its rank's parts shows files that were swapped.
  void require_fragments(const ZeroPartition& partition, std::size_t group,
                         std::size_t rank) const {
    const ZeroOptimizerStates& states = optimizer_[rank];
    if (group >= states.fragments.size()) return;
    const std::vector<ZeroShape>& parameters = models_.front().states.groups[group];
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const ZeroFragment expected =
          zero_fragment(partition, i, element_count(parameters[i].shape), rank);
      const auto stated = states.fragments[group].find(parameters[i].name);
      const bool has = stated != states.fragments[group].end() && stated->second.count > 0;
      if (has ? stated->second == expected : expected.count == 0) continue;
      throw Error(ErrorKind::kBadInput, "'" + printable(optimizer_name(rank)) +
                                            "' does not have the part of '" +
                                            printable(parameters[i].name) + "' that rank " +
                                            std::to_string(rank) + " should have");
    }
  }

  void take_group(const std::string& kind, std::size_t group,
                  const std::vector<ZeroPartition>& partitions) {
    const TorchTensor* const first = group_of(optimizer_.front(), kind, group);
    if (first == nullptr) return;
    auto vector = std::make_shared<RangeList>();
    for (std::size_t rank = 0; rank < optimizer_.size(); ++rank) {
      vector->add(numbers_[rank], contiguous_range(*group_of(optimizer_[rank], kind, group)));
    }
    const DType dtype = first->dtype;
    const std::uint64_t begin = joined_.add(std::move(vector));
    const std::vector<ZeroShape>& parameters = models_.front().states.groups[group];
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const auto start =
          static_cast<std::uint64_t>(partitions[group].starts[i] * element_size(dtype));
      joined_.add_tensor({parameters[i].name, kind}, dtype, parameters[i].shape, begin + start);
    }
  }

  void take_stage3() {
    const ZeroModelStates& model = models_.front().states;
    std::vector<ZeroShape> parameters;
    for (const auto& group : model.groups) {
      parameters.insert(parameters.end(), group.begin(), group.end());
    }
    const ZeroPieces pieces = zero_pieces(parameters, world());
    for (const std::string& kind : kinds()) {
      if (!has_all_groups(kind)) continue;
      const DType dtype = group_of(optimizer_.front(), kind, 0)->dtype;
      const auto width = static_cast<std::uint64_t>(element_size(dtype));
      const auto bytes = [&](std::int64_t elements) {
        return static_cast<std::uint64_t>(elements) * width;
      };
      auto list = std::make_shared<PieceList>(rank_vectors(kind, bytes(pieces.total)));
      std::vector<std::uint64_t> begins;
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        begins.push_back(list->add(bytes(element_count(parameters[i].shape)),
                                   bytes(pieces.starts[i]), bytes(pieces.lengths[i])));
      }
      const std::uint64_t begin = joined_.add(std::move(list));
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        joined_.add_tensor({parameters[i].name, kind}, dtype, parameters[i].shape,
                           begin + begins[i]);
      }
      if (kind.empty()) take_rest();
    }
  }

  /// Sub groups of stage 3 are no groups of parameters.
  bool has_all_groups(const std::string& kind) const {
    const ZeroOptimizerStates& first = optimizer_.front();
    return kind.empty() || first.moments.at(kind).size() == first.weights.size();
  }

  /// What each rank has of one kind: its sub groups, one behind the other.
  std::vector<std::shared_ptr<const RangeList>> rank_vectors(const std::string& kind,
                                                             std::uint64_t bytes) const {
    std::vector<std::shared_ptr<const RangeList>> all;
    for (std::size_t rank = 0; rank < optimizer_.size(); ++rank) {
      auto vector = std::make_shared<RangeList>();
      for (std::size_t group = 0; group < optimizer_[rank].weights.size(); ++group) {
        vector->add(numbers_[rank], contiguous_range(*group_of(optimizer_[rank], kind, group)));
      }
      if (vector->size() != bytes) {
        refuse("'" + printable(optimizer_name(rank)) + "' has flat groups of " +
               std::to_string(vector->size()) + " bytes, but the parameters' pieces have " +
               std::to_string(bytes) + ": the files are not of one save");
      }
      all.push_back(std::move(vector));
    }
    return all;
  }

  void take_rest() {
    try {
      take_untrained(models_, optimizer_.front().is_stage3, joined_);
    } catch (const Error& error) {
      refuse(error.message());
    }
  }

  void note_incomplete(Discovery& out) const {
    const auto any = [&](bool ZeroOptimizerStates::*member, bool value = true) {
      return std::any_of(
          optimizer_.begin(), optimizer_.end(),
          [&](const ZeroOptimizerStates& states) { return states.*member == value; });
    };
    if (any(&ZeroOptimizerStates::has_states, false)) {
      out.warnings.push_back("the files have no states of the optimizer");
    }
    if (any(&ZeroOptimizerStates::has_scaled_states)) {
      out.warnings.push_back(
          "left out: states of the optimizer in 8 bits, because the blocks of their scales do not "
          "end where parameters end");
    }
    if (any(&ZeroOptimizerStates::has_other_states)) {
      out.warnings.push_back(
          "left out: states of the optimizer in an unknown form, or of groups that do not exist");
    }
    if (!optimizer_.front().is_stage3) return;
    std::vector<std::string> names;
    for (const std::string& kind : kinds()) {
      if (!has_all_groups(kind)) names.push_back(kind);
    }
    if (names.empty()) return;
    out.warnings.push_back("left out, because only some of the groups have them: " +
                           name_list(names));
  }

  const fs::path& directory_;
  const ZeroFiles& names_;
  const SourceTreePtr& tree_;
  JoinedTensors& joined_;
  std::vector<ZeroModelFile>
      models_;  ///< the first one; those of all ranks only where they are needed
  std::vector<ZeroOptimizerStates> optimizer_;  ///< by rank
  std::vector<std::size_t> numbers_;            ///< of the optimizer's files, in joined_
  std::vector<ZeroFile> facts_;                 ///< of all files
  SavedNames files_;
};

ZeroPart::ZeroPart(const fs::path& directory, const ZeroFiles& files, const SourceTreePtr& tree,
                   JoinedTensors& joined)
    : reader_(std::make_unique<Reader>(directory, files, tree, joined)) {}

ZeroPart::~ZeroPart() = default;

void ZeroPart::open() {
  reader_->open();
}

void ZeroPart::take() {
  reader_->take();
}

void ZeroPart::cut(std::size_t rank) {
  reader_->cut(rank);
}

const ZeroModelStates& ZeroPart::model() const {
  return reader_->model();
}

const std::vector<ZeroFile>& ZeroPart::facts() const noexcept {
  return reader_->facts();
}

const SavedNames& ZeroPart::files() const noexcept {
  return reader_->files();
}

std::size_t ZeroPart::optimizer_files() const noexcept {
  return reader_->optimizer_files();
}

void ZeroPart::state(Discovery& out) const {
  reader_->state(out);
}

}  // namespace reshardfs
