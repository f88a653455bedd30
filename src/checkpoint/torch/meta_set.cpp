// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch/meta_set.h"

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/file_name.h"
#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/set_format.h"
#include "checkpoint/torch/archive_folder.h"
#include "checkpoint/torch/meta_layout.h"
#include "checkpoint/torch/torch_ranks.h"
#include "modelmap/variables.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/local/linkless_tree.h"
#include "storage/location.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kParams = "params.json";
constexpr std::string_view kBegin = "consolidated.";
constexpr std::string_view kEnd = ".pth";

/// 7 for "consolidated.07.pth".
std::optional<std::int64_t> file_number(std::string_view name) {
  constexpr std::size_t kDigits = 2;
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  name.remove_prefix(kBegin.size());
  if (name.size() != kDigits + kEnd.size()) return std::nullopt;
  return parse_number(name.substr(0, kDigits));
}

std::string file_name(std::int64_t number) {
  return std::string(kBegin) + (number < 10 ? "0" : "") + std::to_string(number) +
         std::string(kEnd);
}

struct MetaFiles {
  std::map<std::int64_t, std::string> names{};  ///< by their numbers
  bool has_params = false;
  std::string link{};  ///< one of the files that is a symbolic link; empty: none is
};

/// No names: the directory is no release of Meta, or has the model in another form, too.
MetaFiles find_files(const fs::path& directory, const SourceTreePtr& tree) {
  MetaFiles files;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    if (entry.name.ends_with(".safetensors") || is_index_name(entry.name)) return {};
    if (!entry.is_regular) continue;
    const auto number = file_number(entry.name);
    if (number) files.names.emplace(*number, entry.name);
    if (entry.name == kParams) files.has_params = true;
    if (entry.is_link && (number || entry.name == kParams)) files.link = entry.name;
  }
  return files;
}

MetaSizes read_sizes(const fs::path& directory, const MetaFiles& files, const SourceTreePtr& tree) {
  const fs::path params = directory / kParams;
  if (!files.has_params) {
    throw Error(
        ErrorKind::kMissing,
        "has " + counted(files.names.size(), "file") +
            " of a release of Meta, but no params.json, which proves how many there are and "
            "how they are cut")
        .in_file(directory.string())
        .hint(
            "bring the params.json that was released with the model, or name a file as the source "
            "to read it alone");
  }
  try {
    const std::string text = read_small_file(params, modelmap::kMaxConfigBytes, tree);
    return MetaSizes::of(modelmap::ModelConfig::parse(text, std::string(kParams)));
  } catch (Error& error) {
    throw error.in_file(params.string());
  }
}

/// The number of files that the first one proves; nullopt: its names prove none.
std::optional<std::int64_t> proven_by(const TorchSave& saved, const FoundFile& file,
                                      const MetaSizes& sizes) {
  for (const TorchTensor& tensor : saved.tensors) {
    try {
      if (const auto files = proven_files(tensor.name, tensor.shape, sizes)) return files;
    } catch (Error& error) {
      throw error.in_file(file.path.string());
    }
  }
  return std::nullopt;
}

void require_files(const fs::path& directory, const std::map<std::int64_t, std::string>& names,
                   std::int64_t wanted, const std::string& proof) {
  constexpr std::int64_t kMostFiles = 100;  // two digits
  std::vector<Rank> missing;
  for (std::int64_t rank = 0; rank < std::min(wanted, kMostFiles); ++rank) {
    if (!names.contains(rank)) missing.emplace_back(rank);
  }
  if (!missing.empty()) {
    throw Error(ErrorKind::kMissing, "lacks files: " + proof + ", and there is none of number " +
                                         format_rank_list(missing))
        .in_file(directory.string())
        .hint("bring the missing files, such as " + file_name(missing.front().number()));
  }
  if (static_cast<std::int64_t>(names.size()) == wanted) return;
  throw Error(ErrorKind::kBadInput, "has " + counted(names.size(), "file") + " such as '" +
                                        names.rbegin()->second + "', but " + proof)
      .in_file(directory.string())
      .hint("keep the files of one release in a directory");
}

/// Gives each tensor its place, and refuses those of which it is not proven.
void place_tensors(TorchRanks& ranks, const MetaSizes& sizes) {
  const auto files = static_cast<std::int64_t>(ranks.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    TorchSave& saved = ranks.saved(rank);
    for (std::size_t i = 0; i < saved.tensors.size(); ++i) {
      const TorchTensor& tensor = saved.tensors[i];
      try {
        MetaPart part = meta_part(tensor.name, tensor.shape, files, sizes);
        DTensorPlace place{std::move(part.full_shape), Shape(tensor.shape.size(), 0), tensor.shape,
                           static_cast<std::int64_t>(rank)};
        if (part.cut) {
          place.offsets[*part.cut] = static_cast<std::int64_t>(rank) * tensor.shape[*part.cut];
        }
        saved.places.emplace(i, std::move(place));
      } catch (const Error& error) {
        ranks.refuse(tensor.name, error.message());
      }
    }
  }
}

}  // namespace

std::optional<Discovery> discover_meta(const fs::path& directory, const CheckpointOptions& options,
                                       const SourceTreePtr& tree) {
  const MetaFiles files = find_files(directory, tree);
  if (files.names.empty()) return std::nullopt;
  if (options.step != kLatestStep) throw no_steps(directory);
  if (refuses_links(tree) && !files.link.empty()) throw link_refused(directory / files.link);
  const MetaSizes sizes = read_sizes(directory, files, tree);
  TorchRanks ranks(directory, options, tree);
  ranks.open(files.names, DTensors::kRefused);
  const auto proven = proven_by(ranks.saved(0), ranks.file(0), sizes);
  if (!proven && files.names.size() > 1) {
    throw Error(ErrorKind::kUnsupported,
                "has " + counted(files.names.size(), "file") +
                    " of a release of Meta, but no tensor layers.N.attention.wq.weight, which "
                    "proves how they are cut")
        .in_file(directory.string());
  }
  const std::string proof = "layers.*.attention.wq.weight and params.json";
  if (proven) {
    require_files(directory, files.names, *proven,
                  proof + " prove that the model is in " +
                      counted(static_cast<std::size_t>(*proven), "file"));
  } else {
    require_files(directory, files.names, 1, "the only file should be number 0");
  }
  place_tensors(ranks, sizes);
  Discovery out = ranks.discovery();
  out.completeness.counted = proven.has_value();
  if (proven) {
    out.completeness.grounds.push_back(proof);
  } else {
    out.completeness.unstated = "whether this is the only file";
  }
  out.completeness.config = directory / kParams;
  return out;
}

fs::path meta_params(const fs::path& directory) {
  try {
    const MetaFiles files = find_files(directory, nullptr);
    if (files.has_params && !files.names.empty()) return directory / kParams;
  } catch (const Error&) {
    // It is no directory, or cannot be listed.
  }
  return {};
}

std::string meta_part_words(const fs::path& file) {
  const std::string name = file.filename().string();
  const auto number = file_number(name);
  if (!number) return {};
  try {
    const fs::path directory = file.parent_path().empty() ? "." : file.parent_path();
    const bool has_params =
        !is_url(file) && path_kind(directory / kParams, nullptr) == PathKind::kOther;
    const MetaFiles one{{{*number, name}}, has_params};
    const MetaSizes sizes = read_sizes(directory, one, nullptr);
    const TorchSave saved = read_archive(
        *open_file(file), [](const auto& archive) { return read_torch_save(archive); });
    if (proven_by(saved, {Rank(), {}, file}, sizes) == std::optional<std::int64_t>(1)) return {};
  } catch (const Error&) {
    // Then it is not proven.
  }
  return "'" + printable(name) +
         "' is a file of a release of Meta, and is read alone, as it was named: its tensors may be "
         "slices; name its directory, with params.json, to read the model";
}

std::optional<std::vector<StepInfo>> find_meta_steps(const fs::path& directory,
                                                     const SourceTreePtr& tree) {
  if (find_files(directory, tree).names.empty()) return std::nullopt;
  return std::vector<StepInfo>();
}

}  // namespace reshardfs
