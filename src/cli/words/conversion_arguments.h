// SPDX-License-Identifier: Apache-2.0
/// The options that all commands share which look at a source under a target strategy.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "reshardfs/conversion.h"

#include "cli/words/log_arguments.h"
#include "cli/words/map_arguments.h"
#include "cli/words/storage_arguments.h"

namespace reshardfs {

/// To be added after CLI::AsSizeValue, before which it runs: that would take -1 for a very large
/// number.
CLI::Validator not_negative();

struct ConversionArguments {
  std::string source;
  std::string src_strategy;
  std::string dst_strategy = "none";
  std::vector<std::string> src_join;
  MapArguments map;
  std::string name_map;
  std::vector<std::string> state_prefixes;
  std::string prefix = "checkpoint_";
  std::string src_pattern;
  std::string src_prefix;
  std::string step = "latest";
  Unmatched unmatched = Unmatched::kDrop;
  Replicas replicas = Replicas::kSame;
  std::string ranks;
  std::vector<std::string> include;
  std::vector<std::string> exclude;
  bool weights_only = false;
  bool allow_unmatched = false;
  bool check_crc = false;
  bool no_symlinks = false;
  std::string dec_key_file;
  std::string dec_mode = "AES-GCM";
  std::vector<std::string> formats;
  std::vector<std::string> views;
  std::string safetensors_metadata = "ms";
  std::uint64_t align = 8;
  std::uint64_t shard_bytes = 5'000'000'000;
  std::int64_t dcp_shards = 0;
  TorchRelease dcp_release = TorchRelease::k2;
  bool rank_params = false;
  std::vector<std::string> casts;
  bool append_crc = false;
  LogArguments log;
  StorageArguments storage;

  void add_to(CLI::App& command);
  /// Paths made absolute, so that they hold after a daemon has left the working directory.
  /// @throws Error kUsage.
  ConversionOptions options() const;

 private:
  void add_strategy_options(CLI::App& command);
  void add_source_options(CLI::App& command);
  void add_choice_options(CLI::App& command);
  void add_output_options(CLI::App& command);
};

}  // namespace reshardfs
