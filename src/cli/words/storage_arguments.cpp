// SPDX-License-Identifier: Apache-2.0
#include "cli/words/storage_arguments.h"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "base/process/process_state.h"
#include "cli/words/check_arguments.h"
#include "cli/words/value_checks.h"
#include "storage/location.h"
#include "storage/pool/block_pool.h"
#include "storage/remote/cached_fetcher.h"
#include "transport/settings.h"

namespace reshardfs {

void StorageArguments::add_to(CLI::App& command) {
  add_text(command, "--s3-endpoint", s3_endpoint,
           "S3-compatible store of s3:// URLs; by default, $AWS_ENDPOINT_URL_S3, "
           "$AWS_ENDPOINT_URL or Amazon's")
      ->type_name("URL");
  add_text(command, "--s3-region", s3_region,
           "Region that requests are signed for; by default, $AWS_REGION or us-east-1")
      ->type_name("NAME");
  add_text(command, "--s3-profile", s3_profile,
           "Profile of ~/.aws/credentials and ~/.aws/config to take keys from; by default, "
           "$AWS_PROFILE")
      ->type_name("NAME");
  add_text(command, "--s3-addressing", s3_addressing,
           "Where the bucket's name stands in a request: in the path or in the host name; by "
           "default, in the path if there is an endpoint")
      ->type_name("path|host")
      ->check(CLI::IsMember({"path", "host"}).description(""));
  command.add_flag("--s3-anonymous", s3_anonymous,
                   "Send s3:// requests without a signature, for public buckets");
  add_text(command, "--ca-file", ca_file,
           "Certificates of the authorities to trust for https, in PEM; by default, the system's")
      ->type_name("FILE");
  command
      .add_option("--remote-timeout", remote_timeout,
                  "Time after which a request to a server that keeps failing is an error")
      ->type_name("SECONDS")
      ->check(CLI::Range(1U, 3600U).description(""))
      ->capture_default_str()
      ->take_last();
  command
      .add_option(
          "--prefetch-memory", prefetch_memory,
          "Memory for data that is fetched ahead of readers from servers and slow file systems, "
          "e.g. 64MiB or 1GiB")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->transform(size_with_unit("--prefetch-memory").description(""))
      ->default_str("256MiB")
      ->take_last();
  add_text(command, "--cache-dir", cache_dir,
           "Keep data fetched from servers and network file systems in this directory, for later "
           "reads and other mounts")
      ->type_name("DIR");
  command
      .add_option(
          "--cache-size", cache_size,
          "Disk space that the cache may take, e.g. 500GiB; when it is full, the blocks that "
          "were not used for the longest time are removed")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false))
      ->transform(size_with_unit("--cache-size").description(""))
      ->default_str("32GiB")
      ->take_last();
}

void StorageArguments::apply() const {
  std::optional<std::filesystem::path> certificates;
  if (!ca_file.empty()) {
    certificates = existing_path(ca_file, "--ca-file", "a file of certificates in PEM");
  }
  std::shared_ptr<BlockCache> cache;
  if (!cache_dir.empty()) {
    cache = BlockCache::open({std::filesystem::absolute(cache_dir), cache_size});
  }
  // Before the lock: the one before may be the last of its kind, and waits for its disk.
  std::shared_ptr<BlockCache> replaced;
  const ForkLock lock;
  S3Settings& s3 = s3_settings();
  s3.endpoint = s3_endpoint;
  s3.region = s3_region;
  s3.profile = s3_profile;
  s3.anonymous = s3_anonymous;
  s3.addressing = s3_addressing == "path"   ? S3Addressing::kPath
                  : s3_addressing == "host" ? S3Addressing::kHost
                                            : S3Addressing::kByEndpoint;
  TransportSettings& transport = transport_settings();
  transport.patience = std::chrono::seconds(remote_timeout);
  if (!ca_file.empty()) transport.ca_file = certificates.value_or("");
  BlockPool::process().set_capacity(prefetch_memory);
  if (cache != nullptr) replaced = std::exchange(source_cache(), std::move(cache));
}

std::string located(const std::string& source) {
  const bool is_list = std::filesystem::path(source).extension() == ".json";
  return is_url(source) || is_list ? absolute_source(source).string() : source;
}

}  // namespace reshardfs
