// SPDX-License-Identifier: Apache-2.0
/// What a machine needs so that mounting works, checked one by one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace reshardfs {

enum class Health : std::uint8_t {
  kGood,
  kLimited,  ///< works, but something is slower or not possible
  kBad,      ///< mounting or reading will fail
};

struct Finding {
  std::string what{};  ///< what was looked at: "FUSE device"
  Health health = Health::kGood;
  std::string found{};
  std::string advice{};  ///< what to do; empty if all is good
};

Finding check_device(const std::filesystem::path& device = "/dev/fuse");
/// Whether this user may mount: as root, or through fusermount3.
/// @param path where it is looked for, as $PATH has it.
Finding check_right_to_mount(bool is_root, const std::string& path);
/// @param release as uname -r prints it.
Finding check_kernel(const std::string& release);
Finding check_open_files(std::uint64_t soft, std::uint64_t hard);
/// Whether the daemon may raise the kernel's read-ahead for its mount.
Finding check_read_ahead(const std::filesystem::path& bdi = "/sys/class/bdi");
/// Whether a checkpoint file or set can be opened and its indexes read.
Finding check_source(const std::filesystem::path& source);
/// Mounts a small file of its own in a temporary directory, reads it, and unmounts.
Finding check_round_trip();

/// All of the above on this machine, in the order in which they depend on each other.
std::vector<Finding> examine(const std::vector<std::string>& sources);

}  // namespace reshardfs
