// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dcp/common_state.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reshardfs/error.h"

#include "base/byte_range.h"
#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/megatron/hybrid_layers.h"
#include "checkpoint/megatron/rank_file.h"
#include "checkpoint/megatron/tensor_cuts.h"
#include "checkpoint/megatron/tensor_names.h"
#include "checkpoint/series/series_names.h"
#include "checkpoint/series/step_directories.h"
#include "checkpoint/torch/archive_folder.h"
#include "storage/byte_source.h"
#include "storage/local/directory.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCommonFile = "common.pt";
constexpr std::uint64_t kMostObjectBytes = std::uint64_t{64} << 20U;
constexpr std::string_view kDecoderLayers = "decoder.layers.";

struct CommonState {
  std::string place{};  ///< for messages
  MegatronArgs args{};
  std::optional<std::int64_t> iteration{};
};

/// In common.pt a dictionary; the object is a list of one.
CommonState read_common(const TorchArchive& archive) {
  const PickleTree& tree = archive.tree();
  PickleValue root = tree.root();
  if (root.is(PickleKind::kList) && tree.count(root) == 1) {
    tree.for_each(root, [&](PickleValue only) {
      root = only;
      return false;
    });
  }
  return {
      {}, MegatronArgs(tree, tree.find(root, "args")), tree.integer(tree.find(root, "iteration"))};
}

/// The archive of an object, in memory.
class ObjectSource final : public ByteSource {
 public:
  ObjectSource(const ByteSource& file, const ByteRange& place)
      : name_(file.name()), mtime_ns_(file.mtime_ns()), bytes_(place.length()) {
    file.read_at(place.offset(), bytes_);
    file.check_unchanged();
  }

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return bytes_.size(); }
  std::int64_t mtime_ns() const override { return mtime_ns_; }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    require_in_source(*this, offset, out.size());
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), out.size(), out.begin());
  }
  void check_unchanged() const override {}

 private:
  std::string name_;
  std::int64_t mtime_ns_;
  std::vector<std::byte> bytes_;
};

/// Nothing if there is none.
std::optional<CommonState> find_common(const fs::path& directory, const DcpTable& table,
                                       const SourceTreePtr& tree) {
  CommonState common;
  const fs::path file = directory / kCommonFile;
  if (path_kind(file, tree) == PathKind::kOther) {
    common = read_archive(*open_file(file, tree), read_common);
    common.place = file.string();
    return common;
  }
  const auto item =
      std::find_if(table.byte_items.begin(), table.byte_items.end(),
                   [](const DcpByteItem& one) { return one.name.starts_with("common_state/"); });
  if (item == table.byte_items.end() || item->place.file >= table.files.size() ||
      item->place.item.length() > kMostObjectBytes) {
    return std::nullopt;
  }
  const fs::path holder = directory / table.files[item->place.file];
  const ByteSourcePtr source = open_file(holder, tree);
  if (item->place.item.end() > source->size()) return std::nullopt;  // others say so
  common = read_archive(ObjectSource(*source, item->place.item), read_common);
  common.place = holder.string();
  return common;
}

/// The same of one layer, if the layers of the decoder are in one tensor, along its first
/// dimension.
std::pair<std::string, Shape> of_one_layer(const DcpTensor& tensor) {
  const bool is_stacked = tensor.name.starts_with(kDecoderLayers) && !tensor.shape.empty() &&
                          !decoder_layer(tensor.name);
  if (!is_stacked) return {tensor.name, tensor.shape};
  return {std::string(kDecoderLayers) + "0." + tensor.name.substr(kDecoderLayers.size()),
          Shape(tensor.shape.begin() + 1, tensor.shape.end())};
}

/// Nothing where num_layers counts other things, too.
std::optional<std::int64_t> decoder_layers(const MegatronArgs& args) {
  constexpr std::array<std::string_view, 4> kCountedOtherwise{
      "noop_layers", "hybrid_layer_pattern", "hybrid_override_pattern", "decoder_num_layers"};
  const bool differs = std::any_of(kCountedOtherwise.begin(), kCountedOtherwise.end(),
                                   [&](std::string_view name) { return args.is_set(name); });
  return differs ? std::nullopt : args.number("num_layers");
}

class CommonCheck {
 public:
  CommonCheck(const fs::path& directory, const CommonState& common, Discovery& out)
      : directory_(directory), args_(common.args), out_(out) {}

  void compare(const std::vector<DcpTensor>& tensors) {
    std::set<std::int64_t> numbers;
    for (const DcpTensor& tensor : tensors) {
      if (const auto number = decoder_layer(tensor.name)) {
        numbers.insert(*number);
      } else if (tensor.name.starts_with(kDecoderLayers) && !tensor.shape.empty()) {
        stacked_ = std::max(stacked_, tensor.shape.front());
      }
      const auto [name, shape] = of_one_layer(tensor);
      // Of layers in one tensor, the words are about one.
      const std::string why = contradiction(args_, name, shape);
      if (why.empty()) continue;
      if (differ_++ == 0) first_ = error(why).for_parameter(tensor.name);
    }
    compare_layers(numbers);
    compare_pattern(tensors);
    if (!first_) return;
    if (differ_ > 1) first_->explain("; so do " + counted(differ_ - 1, "other tensor"));
    out_.completeness.missing.push_back(*std::move(first_));
  }

 private:
  Error error(const std::string& what) const {
    return Error(ErrorKind::kBadInput, what)
        .in_file(directory_.string())
        .hint("take all files of the directory from one save");
  }

  void compare_layers(const std::set<std::int64_t>& numbers) {
    const auto stated = decoder_layers(args_);
    const std::int64_t numbered = numbers.empty() ? 0 : *numbers.rbegin() + 1;
    const std::int64_t found = std::max(numbered, stacked_);
    if (!stated || found == 0 || found == *stated) return;
    out_.completeness.missing.push_back(
        error("has " + counted(static_cast<std::size_t>(found), "layer") +
              " of the decoder, but the arguments state num_layers " + std::to_string(*stated)));
  }

  /// Of a HybridModel, num_layers is the number of symbols.
  void compare_pattern(const std::vector<DcpTensor>& tensors) {
    const auto text = layer_pattern_text(args_);
    if (!text) return;
    out_.beside.values.push_back(
        {std::string("args.") + modelmap::kLayerPattern, "'" + printable(*text) + "'"});
    std::vector<modelmap::LayerTensor> names;
    for (const DcpTensor& tensor : tensors) {
      names.push_back({tensor.name, {}});
      if (!tensor.shape.empty()) names.back().rows = tensor.shape.front();
    }
    const std::string why = pattern_contradiction(args_, *text, names);
    if (!why.empty()) out_.completeness.missing.push_back(error(why));
  }

  const fs::path& directory_;
  const MegatronArgs& args_;
  Discovery& out_;
  std::int64_t stacked_ = 0;
  std::optional<Error> first_{};
  std::size_t differ_ = 0;
};

void require_common_iteration(const fs::path& directory, const CommonState& common) {
  const auto named = parse_iter_directory(directory_name(directory));
  if (!named || !common.iteration || parse_number(*named) == common.iteration) return;
  throw Error(ErrorKind::kBadInput, "is of iteration " + std::to_string(*common.iteration) +
                                        " by its content, but of iteration " + *named +
                                        " by the name of its directory")
      .in_file(common.place)
      .hint("give the directory the name that it was saved with");
}

}  // namespace

void compare_common_state(const fs::path& directory, const DcpTable& table,
                          const SourceTreePtr& tree, Discovery& out) {
  std::optional<CommonState> common;
  try {
    common = find_common(directory, table, tree);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kChanged) throw;
    out.notes.push_back(
        "the training's arguments cannot be read, so nothing is compared with them: " +
        std::string(error.what()));
    return;
  }
  if (!common) return;
  require_common_iteration(directory, *common);
  CommonCheck(directory, *common, out).compare(table.tensors);
}

}  // namespace reshardfs
