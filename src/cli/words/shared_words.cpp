// SPDX-License-Identifier: Apache-2.0
#include "cli/words/shared_words.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <utility>

#include "reshardfs/error.h"
#include "reshardfs/sizes.h"

#include "base/process/process_state.h"
#include "cli/options/table.h"
#include "cli/options/value_checks.h"
#include "conversion/installed_maps.h"
#include "fuse/event_log.h"
#include "storage/local/directory.h"
#include "storage/local/hub_cache.h"
#include "storage/local/measured_file.h"
#include "storage/location.h"
#include "storage/near_path.h"
#include "storage/pool/block_pool.h"
#include "storage/remote/cached_fetcher.h"
#include "transport/s3_store.h"
#include "transport/settings.h"

namespace reshardfs {

LogFormat log_format(const Given& given) {
  return given.text("log-format") == "json" ? LogFormat::kJson : LogFormat::kText;
}

LogSettings log_settings(const Given& given) {
  LogSettings log;
  log.verbose = given.flag("verbose");
  log.quiet = given.flag("quiet");
  if (given.has("log-level")) log.level = given.text("log-level");
  log.file = given.text("log-file");
  log.format = log_format(given);
  return log;
}

namespace {

S3Settings stores(const Given& given) {
  S3Settings s3;
  s3.endpoint = given.text("s3-endpoint");
  s3.region = given.text("s3-region");
  s3.profile = given.text("s3-profile");
  s3.anonymous = given.flag("s3-anonymous");
  const std::string addressing = given.text("s3-addressing");
  s3.addressing = addressing == "path"   ? S3Addressing::kPath
                  : addressing == "host" ? S3Addressing::kHost
                                         : S3Addressing::kByEndpoint;
  return s3;
}

/// Whether it matters which store is meant.
bool names_store(const Given& given) {
  const bool by_option = given.has("s3-endpoint") || given.has("s3-region") ||
                         given.has("s3-profile") || given.has("s3-addressing") ||
                         given.has("s3-anonymous");
  return by_option ||
         std::any_of(given.arguments.begin(), given.arguments.end(),
                     [](const std::string& word) { return word.starts_with("s3://"); });
}

/// Whether an error is about the user's own directory of a cache, and that is somebody else's.
bool is_taken(const Error& error, const std::filesystem::path& place) {
  struct stat status {};
  return error.kind() == ErrorKind::kUsage && error.file() != place &&
         ::lstat(error.file().c_str(), &status) == 0 && status.st_uid != ::geteuid();
}

/// nullptr, with a warning, where somebody else has taken the directory's name first, as anybody
/// can in a place like /tmp.
std::shared_ptr<BlockCache> cache_in(const std::string& directory, std::uint64_t max_bytes) {
  static std::atomic<bool> is_told{false};
  const std::filesystem::path place = std::filesystem::absolute(directory);
  try {
    return BlockCache::open({place, max_bytes});
  } catch (const Error& error) {
    if (!is_taken(error, place)) throw;
    if (!is_told.exchange(true)) {
      log_warning(LogEvent::kCacheFailed, "no cache is used: {}", error.what());
    }
    return nullptr;
  }
}

}  // namespace

void apply_storage(const Given& given) {
  const auto certificates = existing_path(given, "ca-file", "a file of certificates in PEM");
  std::shared_ptr<BlockCache> cache;
  const std::string cache_dir = given.text("cache-dir");
  if (!cache_dir.empty()) cache = cache_in(cache_dir, given.size("cache-size"));
  S3Settings s3 = stores(given);
  if (names_store(given)) S3Store::require_same(s3);
  // Before the lock: the one before may be the last of its kind, and waits for its disk.
  std::shared_ptr<BlockCache> replaced;
  const ForkLock lock;
  s3_settings() = std::move(s3);
  TransportSettings& transport = transport_settings();
  transport.patience = std::chrono::seconds(given.number("remote-timeout").value());
  if (given.has("ca-file")) transport.ca_file = certificates.value_or("");
  const std::uint64_t prefetch_bytes = given.size("prefetch-memory");
  BlockPool::process().set_capacity(prefetch_bytes);
  slow_files() = prefetch_bytes == 0 ? SlowFiles::kNone : SlowFiles::kMeasured;
  // What was opened before keeps its own cache; without the option there is none.
  replaced = std::exchange(source_cache(), std::move(cache));
}

std::string located(const std::string& source) {
  const bool is_list = std::filesystem::path(source).extension() == ".json";
  return is_url(source) || is_list ? absolute_source(source).string()
                                   : snapshot_or(source).string();
}

std::optional<std::filesystem::path> existing_path(const Given& given, const std::string& option,
                                                   const std::string& takes) {
  const std::string text = given.text(option);
  if (text.empty() || text == "none") return std::nullopt;
  std::filesystem::path path = absolute_location(text);
  // Whether it exists is found out when it is read: by then a daemon has left its parent.
  if (is_url(path)) return path;
  if (path_kind(path) != PathKind::kMissing) return path;
  throw Error(ErrorKind::kMissing, "no such file or directory")
      .in_file(path.string())
      .hint(did_you_mean_path(path))
      .hint("--" + option + " takes " + takes);
}

NamedStrategy named_strategy(const Given& given, const std::string& option,
                             const std::string& takes) {
  const std::string text = given.text(option);
  if (!is_url(text) && !std::filesystem::exists(text)) {
    if (is_derivation(text)) return {std::nullopt, parse_derivation(text)};
    refuse_sizes_without_equals(option, text);
  }
  return {existing_path(given, option, takes), {}};
}

ModelMapOptions model_maps(const Given& given, const std::string& side) {
  ModelMapOptions options;
  if (find_option(given.command(), side + "map") != nullptr) {
    for (const std::string& map : given.texts(side + "map")) {
      options.maps.push_back(is_map_path(map) ? absolute_location(map).string() : map);
    }
  }
  options.directions = given.words(side + "map-direction", kMapDirectionWords);
  options.model_config =
      existing_path(given, side + "model-config", "a config.json or a directory with one")
          .value_or(std::filesystem::path());
  options.training_config =
      existing_path(given, side + "training-config", "the YAML file of a training job")
          .value_or(std::filesystem::path());
  options.variables = given.texts(side + "map-var");
  return options;
}

}  // namespace reshardfs
