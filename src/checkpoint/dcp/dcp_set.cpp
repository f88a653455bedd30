// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dcp/dcp_set.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <variant>

#include "reshardfs/error.h"

#include "base/json/json_value.h"
#include "base/text/numbers.h"
#include "base/text/text.h"
#include "checkpoint/dcp/common_state.h"
#include "checkpoint/dcp/dcp_contents.h"
#include "checkpoint/ranks/rank_parts.h"
#include "checkpoint/series/series_names.h"
#include "checkpoint/series/step_directories.h"
#include "checkpoint/series/unfinished_names.h"
#include "checkpoint/set_format.h"
#include "checkpoint/source_links.h"
#include "checkpoint/torch/state_key.h"
#include "format/foreign_content.h"
#include "format/torch/dcp_join.h"
#include "format/torch/dcp_table.h"
#include "storage/inputs.h"
#include "storage/local/directory.h"
#include "storage/location.h"
#include "storage/small_file.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTable = ".metadata";
constexpr std::string_view kDcpExtension = ".distcp";
/// Beside the table, written after it.
constexpr const char* kMegatronConfig = "metadata.json";
constexpr const char* kBackend = "sharded_backend";
constexpr const char* kReadBackend = "torch_dist";
constexpr std::uint64_t kMostTableBytes = 4ULL << 30U;
constexpr std::uint64_t kMostDcpConfigBytes = 64ULL << 10U;

/// The number between two words, if the text is that and nothing else.
std::optional<std::int64_t> number_between(std::string_view before, std::string_view text,
                                           std::string_view after) {
  if (!text.starts_with(before) || !text.ends_with(after)) return std::nullopt;
  if (text.size() <= before.size() + after.size()) return std::nullopt;
  return parse_number(text.substr(before.size(), text.size() - before.size() - after.size()));
}

/// Of which rank a table is: "__3.metadata", and "3.metadata" and ".rank3_metadata" of
/// hyper-parallel.
std::optional<std::int64_t> rank_of_table(std::string_view name) {
  for (const std::string_view before : {"__", ""}) {
    if (const auto rank = number_between(before, name, kTable)) return rank;
  }
  return number_between(".rank", name, "_metadata");
}

/// What Megatron-Core states about a checkpoint. @return empty: another program saved it.
std::string megatron_backend(const fs::path& directory, const SourceTreePtr& tree) {
  const fs::path path = directory / kMegatronConfig;
  if (path_kind(path, tree) != PathKind::kOther) return {};
  std::string config;
  try {
    config = read_small_file(path, kMostDcpConfigBytes, unrecorded(tree));
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kBadInput) throw;
    return {};  // larger: of MindSpore Transformers
  }
  const auto document = JsonDocument::parse(config);
  if (!document) return {};
  const auto backend = document->value().find(kBackend);
  if (!backend) return {};
  return std::string(backend->text().value_or(name_of(backend->kind())));
}

/// The tables of a directory.
struct Tables {
  bool is_one = false;                        ///< .metadata
  std::map<std::int64_t, std::string> files;  ///< else by rank

  explicit operator bool() const { return is_one || !files.empty(); }
};

/// Other programs, too, write a file of this name: theirs is a text, with no data beside it.
bool is_table(const fs::path& directory, const SourceTreePtr& tree) {
  if (is_url(directory) || !is_text_content(*open_file(directory / kTable, tree))) return true;
  const std::vector<DirectoryEntry> entries = list_directory(directory, tree);
  return std::any_of(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return entry.name.ends_with(kDcpExtension) || is_hyper_rank_name(entry.name);
  });
}

/// @throws Error if the files are there, but no table, or cannot be read anyway.
Tables find_tables(const fs::path& directory, const SourceTreePtr& tree) {
  Tables tables;
  const std::string backend = megatron_backend(directory, tree);
  if (!backend.empty() && backend != kReadBackend) {
    throw Error(ErrorKind::kUnsupported, "is a checkpoint of Megatron-Core in the format '" +
                                             printable(backend) + "', which cannot be read")
        .in_file(directory.string())
        .hint("save it as torch_dist (--ckpt-format torch_dist)");
  }
  tables.is_one = path_kind(directory / kTable, tree) == PathKind::kOther &&
                  (!backend.empty() || is_table(directory, tree));
  if (tables.is_one) return tables;
  std::string data = backend.empty() ? std::string() : kMegatronConfig;
  std::string_view writer = "torch.distributed.checkpoint";
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    if (!entry.is_regular) continue;
    if (const auto rank = rank_of_table(entry.name)) {
      const auto [known, is_new] = tables.files.emplace(*rank, entry.name);
      if (is_new) continue;
      throw Error(ErrorKind::kBadInput, "has two tables of rank " + std::to_string(*rank) + ": '" +
                                            printable(known->second) + "' and '" +
                                            printable(entry.name) + "'")
          .in_file(directory.string());
    }
    if (data.empty() && entry.name.ends_with(kDcpExtension)) data = entry.name;
    if (is_hyper_rank_name(entry.name)) {
      data = entry.name;
      writer = "hyper-parallel";
    }
  }
  if (tables || data.empty()) return tables;
  throw Error(ErrorKind::kMissing, "has " + printable(data) + ", but no .metadata, which " +
                                       std::string(writer) +
                                       " writes last: the save was interrupted or is still running")
      .in_file(directory.string())
      .hint("choose another checkpoint, or wait until this one is saved");
}

/// @param newest is set to the table's time if that is later.
DcpTable read_table(const fs::path& path, const SourceTreePtr& tree, DcpTableKind kind,
                    WrittenLast& newest) {
  SmallFile file = open_small_file(path, kMostTableBytes, tree);
  if (file.mtime_ns > newest.mtime_ns) newest = {path, file.mtime_ns};
  try {
    return read_dcp_table(std::move(file.content), kind);
  } catch (Error& error) {
    throw error.in_file(path.string());
  }
}

/// As hyper-parallel leaves them from a save without collectives; it reads .metadata, too.
bool has_tables_of_ranks(const fs::path& directory, const SourceTreePtr& tree) {
  if (is_url(directory)) return false;
  const std::vector<DirectoryEntry> entries = list_directory(directory, tree);
  return std::any_of(entries.begin(), entries.end(), [](const DirectoryEntry& entry) {
    return rank_of_table(entry.name).has_value();
  });
}

/// The ranks must be 0 to n: what only one of them had would be missing without a trace.
void require_all_ranks(const fs::path& directory, const Tables& tables) {
  std::int64_t expected = 0;
  for (const auto& [rank, name] : tables.files) {
    if (rank == expected++) continue;
    throw Error(ErrorKind::kMissing, "was saved without collectives, and has a table of rank " +
                                         std::to_string(rank) + ", but none of rank " +
                                         std::to_string(expected - 1))
        .in_file(directory.string())
        .hint("bring the files of all ranks into this directory");
  }
}

/// The keys below `key`; nullopt if the path does not begin with it.
std::optional<DcpPath> path_below(const DcpPath& path, const std::string& key) {
  std::string begun;
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (!begun.empty()) begun += '.';
    const auto* const text = std::get_if<std::string>(&path[i]);
    begun += text != nullptr ? *text : std::to_string(std::get<std::int64_t>(path[i]));
    if (begun != key) continue;
    return DcpPath(path.begin() + static_cast<std::ptrdiff_t>(i) + 1, path.end());
  }
  return std::nullopt;
}

/// --state-key
void keep_table_state(const fs::path& directory, const std::string& key, DcpTable& table) {
  if (key.empty()) return;
  keep_state(key, table.tensors);
  keep_state(key, table.refused);
  keep_state(key, table.byte_items);
  std::unordered_map<std::string, DcpPath> paths;
  for (auto& [name, path] : table.paths) {
    std::string below = name;
    if (!take_state(key, below)) continue;
    if (auto rest = path_below(path, key)) paths.emplace(std::move(below), std::move(*rest));
  }
  table.paths = std::move(paths);
  if (!table.tensors.empty() || !table.refused.empty()) return;
  throw Error(ErrorKind::kUsage, "has no tensor below the key '" + printable(key) + "'")
      .in_file(directory.string());
}

/// Files with data that the table does not name are left from a save of more ranks.
void name_leftover(const fs::path& directory, const std::vector<std::string>& named,
                   Discovery& out) {
  const std::set<std::string> known(named.begin(), named.end());
  std::vector<std::string> others;
  for (const DirectoryEntry& entry : list_directory(directory)) {
    if (!entry.is_regular || !entry.name.ends_with(kDcpExtension) || known.contains(entry.name)) {
      continue;
    }
    std::error_code failed;
    if (fs::file_size(directory / entry.name, failed) > 0 && !failed) others.push_back(entry.name);
  }
  if (others.empty()) return;
  out.completeness.doubts.push_back("not read, because " + std::string(kTable) +
                                    " does not name them: " + name_list(others));
}

/// What comparing the table with other files has found.
void take_findings(Discovery found, Discovery& out) {
  const auto append = [](auto& from, auto& to) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(found.notes, out.notes);
  append(found.completeness.missing, out.completeness.missing);
  append(found.completeness.doubts, out.completeness.doubts);
}

Discovery read_tables(const fs::path& directory, const Tables& tables, const SourceTreePtr& tree,
                      const std::string& state_key) {
  // The table names all files. A store's objects are whole or not there, and may not be listed.
  if (scheme_of(directory).empty()) {
    unfinished_files(directory, list_directory(directory, tree), kDcpExtension);
  }
  WrittenLast newest;
  if (tables.is_one) {
    DcpTable table = read_table(directory / kTable, tree, DcpTableKind::kWhole, newest);
    const bool has_others = table.by_name && has_tables_of_ranks(directory, tree);
    keep_table_state(directory, state_key, table);
    Discovery common;
    if (scheme_of(directory).empty()) name_leftover(directory, table.files, common);
    if (state_key.empty() && path_kind(directory / kMegatronConfig, tree) == PathKind::kOther) {
      compare_common_state(directory, table, tree, common);
    }
    Discovery out = dcp_contents(directory, std::move(table), tree);
    take_findings(std::move(common), out);
    out.written_last.push_back(std::move(newest));
    out.completeness.grounds.push_back("the table " + std::string(kTable));
    if (has_others) {
      out.notes.push_back("the tables of single ranks beside .metadata are not read");
    }
    return out;
  }
  require_all_ranks(directory, tables);
  DcpJoin join;
  for (const auto& [rank, name] : tables.files) {
    join.add(read_table(directory / name, tree, DcpTableKind::kOfOneRank, newest));
  }
  DcpTable joined = join.finish();
  keep_table_state(directory, state_key, joined);
  Discovery out = dcp_contents(directory, std::move(joined), tree);
  out.written_last.push_back(std::move(newest));
  out.notes.push_back("saved without collectives: the tables of " +
                      counted(tables.files.size(), "rank") + " are joined");
  // Each table has the shapes of its rank's tensors, but not those that other ranks alone have.
  out.completeness.unstated =
      "whether " + counted(tables.files.size(), "rank") + " saved all tensors";
  out.completeness.doubts.push_back("saved without collectives, by at least " +
                                    counted(tables.files.size(), "rank") +
                                    ": if there were more, their tensors are missing");
  return out;
}

}  // namespace

std::optional<Discovery> discover_dcp(const fs::path& directory, const CheckpointOptions& options,
                                      const SourceTreePtr& tree) {
  const Tables tables = find_tables(directory, tree);
  if (!tables) return std::nullopt;
  const auto step = parse_iter_directory(directory_name(directory));
  if (step) {
    require_step(directory, *step, options.step);
  } else if (options.step != kLatestStep) {
    throw no_steps(directory);
  }
  Discovery out = read_tables(directory, tables, tree, options.state_key);
  if (step) {
    out.step = *step;
    out.steps = {*step};
  }
  return out;
}

namespace {

/// Directories in which programs keep a distributed checkpoint beside files of their own:
/// accelerate, NeMo 2 and NeMo RL, verl with Megatron, OLMo-core, and NeMo Automodel.
constexpr std::array<std::string_view, 5> kInner{"pytorch_model_fsdp_0", "weights", "dist_ckpt",
                                                 "model_and_optim", "model"};

/// "iter_0000000" in a directory, if it is the only one: NeMo RL saves one, without a tracker.
std::optional<fs::path> only_iter_in(const fs::path& directory, const SourceTreePtr& tree) {
  if (path_kind(directory, tree) != PathKind::kDirectory) return std::nullopt;
  if (path_kind(directory / kIterationTracker, tree) != PathKind::kMissing) return std::nullopt;
  std::optional<fs::path> only;
  for (const DirectoryEntry& entry : list_directory(directory, tree)) {
    if (!entry.is_directory || !parse_iter_directory(entry.name)) continue;
    if (only) return std::nullopt;
    only = directory / entry.name;
  }
  return only;
}

std::optional<fs::path> inner_of(const fs::path& directory, const SourceTreePtr& tree) {
  for (const std::string_view name : kInner) {
    const fs::path inner = directory / name;
    if (path_kind(inner / kTable, tree) == PathKind::kOther) return inner;
    const auto iter = only_iter_in(inner, tree);
    if (iter && path_kind(*iter / kTable, tree) == PathKind::kOther) return iter;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Discovery> discover_inner_dcp(const fs::path& directory,
                                            const CheckpointOptions& options,
                                            const SourceTreePtr& tree) {
  const auto inner = inner_of(directory, tree);
  if (!inner) return std::nullopt;
  if (options.step != kLatestStep) throw no_steps(directory);
  Discovery out = read_tables(*inner, find_tables(*inner, tree), tree, options.state_key);
  out.notes.push_back("using " + printable(inner->lexically_relative(directory).string()) +
                      " in it");
  return out;
}

std::optional<std::vector<StepInfo>> find_inner_dcp_steps(const fs::path& directory,
                                                          const SourceTreePtr& tree) {
  if (!inner_of(directory, tree)) return std::nullopt;
  return std::vector<StepInfo>();
}

std::optional<std::vector<StepInfo>> find_dcp_steps(const fs::path& directory,
                                                    const SourceTreePtr& tree) {
  if (!find_tables(directory, tree)) return std::nullopt;
  const auto step = parse_iter_directory(directory_name(directory));
  if (!step) return std::vector<StepInfo>();
  return std::vector<StepInfo>{{*step, {Rank()}, true, {directory}}};
}

std::optional<Discovery> discover_megatron(const fs::path& directory,
                                           const CheckpointOptions& options,
                                           const SourceTreePtr& tree) {
  const auto found = find_iters(directory, tree, options.step == kLatestStep);
  if (!found) return std::nullopt;
  const ChosenStep chosen = choose_step(*found, options.step);
  const Tables tables = find_tables(chosen.directory, tree);
  if (!tables) {
    throw Error(ErrorKind::kUnsupported,
                "has no .metadata: it is no distributed checkpoint (torch_dist) of Megatron-Core")
        .in_file(chosen.directory.string())
        .hint("save it as torch_dist (--ckpt-format torch_dist)");
  }
  Discovery out = read_tables(chosen.directory, tables, tree, options.state_key);
  out.step = chosen.step;
  if (auto note = links_outside(directory, found->links)) out.notes.push_back(std::move(*note));
  note_tracker(*found, out);
  note_other_steps(*found, options.step, out);
  return out;
}

std::optional<std::vector<StepInfo>> find_megatron_steps(const fs::path& directory,
                                                         const SourceTreePtr& tree) {
  const auto found = find_iters(directory, tree, /*needs_tracker=*/true);
  if (!found) return std::nullopt;
  std::vector<StepInfo> steps;
  for (const auto& [step, path] : found->directories) {
    const bool complete = found->tracked && found->is_finished(step) &&
                          path_kind(path / kTable, tree) == PathKind::kOther;
    steps.push_back({step, {Rank()}, complete, {path}});
  }
  return steps;
}

}  // namespace reshardfs
