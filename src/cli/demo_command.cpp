// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/posix/descriptor.h"
#include "base/rank_format.h"
#include "base/sha256.h"
#include "cli/app.h"
#include "cli/command.h"
#include "cli/demo_model.h"
#include "cli/demo_process.h"
#include "report/text/text.h"

namespace reshardfs {
namespace {

std::atomic<bool> interrupted{false};

void note_interrupt(int) {
  interrupted = true;
}

void stop_if_interrupted() {
  if (interrupted) throw Error(ErrorKind::kUsage, "interrupted");
}

/// Says what is run, so that a newcomer can type it.
void show_command(const std::vector<std::string>& arguments) {
  std::cout << fmt::format("\n$ reshardfs {}\n", fmt::join(arguments, " ")) << std::flush;
}

[[noreturn]] void stop_after(const std::vector<std::string>& arguments, int code) {
  throw Error(code == kExitIo ? ErrorKind::kIo : ErrorKind::kUsage,
              fmt::format("the demo stopped, because 'reshardfs {}' failed", arguments.front()));
}

/// @return its exit code.
int try_step(const std::vector<std::string>& arguments) {
  stop_if_interrupted();
  show_command(arguments);
  return run_self(arguments);
}

void run_step(const std::vector<std::string>& arguments) {
  if (const int code = try_step(arguments); code != kExitDone) stop_after(arguments, code);
}

/// @return whether the machine lets it mount.
bool can_mount(const std::vector<std::string>& arguments) {
  const int code = try_step(arguments);
  if (code != kExitDone && code != kExitIo) stop_after(arguments, code);
  return code == kExitDone;
}

/// The sample's directory: the user's, or a temporary one that goes when the demo ends.
class DemoDirectory {
 public:
  explicit DemoDirectory(const std::string& chosen) : temporary_(chosen.empty()) {
    if (temporary_) {
      path_ = make_temporary_directory("reshardfs-demo-");
      return;
    }
    std::filesystem::create_directories(chosen);
    if (!std::filesystem::is_empty(chosen)) {
      throw Error(ErrorKind::kUsage, "is not empty").in_file(chosen).hint("name a new directory");
    }
    path_ = std::filesystem::canonical(chosen);
  }
  DemoDirectory(const DemoDirectory&) = delete;
  DemoDirectory& operator=(const DemoDirectory&) = delete;
  ~DemoDirectory() {
    std::error_code ignored;
    if (temporary_) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }
  bool temporary() const { return temporary_; }

 private:
  bool temporary_;
  std::filesystem::path path_;
};

/// Unmounts whatever way the demo ends.
class DemoMount {
 public:
  explicit DemoMount(std::string mountpoint) : mountpoint_(std::move(mountpoint)) {}
  DemoMount(const DemoMount&) = delete;
  DemoMount& operator=(const DemoMount&) = delete;
  ~DemoMount() {
    if (!done_) run_self({"umount", mountpoint_});
  }
  void finish() {
    done_ = true;
    run_step({"umount", mountpoint_});
  }

 private:
  std::string mountpoint_;
  bool done_ = false;
};

std::string hash_file(const std::filesystem::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw io_error("open", path, errno);
  Sha256 hash;
  std::vector<std::byte> buffer(1 << 20);
  ssize_t count = 0;
  while ((count = ::read(file.get(), buffer.data(), buffer.size())) > 0 && !interrupted) {
    hash.update(std::span(buffer).first(static_cast<std::size_t>(count)));
  }
  if (count < 0) throw io_error("read", path, errno);
  stop_if_interrupted();
  return hash.finish();
}

std::string expected_hash(const DemoModel& model, const DemoModel::Slicer& slicer) {
  Sha256 hash;
  model.write(slicer, [&](std::span<const std::byte> bytes) {
    stop_if_interrupted();
    hash.update(bytes);
  });
  return hash.finish();
}

bool check_file(const DemoModel& model, const std::filesystem::path& mount, const std::string& name,
                const DemoModel::Slicer& slicer) {
  const std::string found = hash_file(mount / name);
  const bool right = found == expected_hash(model, slicer);
  std::cout << fmt::format("{}  {}  {}\n", found, name, right ? "as expected" : "WRONG")
            << std::flush;
  return right;
}

bool check_all(const DemoModel& model, const std::filesystem::path& mount) {
  std::cout << "\nSHA-256 of each file, compared with the computed bytes of a finished\n"
               "conversion:\n";
  bool right = true;
  for (const Rank rank : RankRange(Rank(), DemoModel::kModelParallel)) {
    right &=
        check_file(model, mount, fmt::format("rank_{0}/checkpoint_{0}.ckpt", rank),
                   [&](const DemoParameter& p) { return model.slice(p, rank.number(), 0, 1); });
  }
  right &= check_file(model, mount, "merged/checkpoint_merged.ckpt",
                      [&](const DemoParameter& p) { return model.whole(p); });
  return right;
}

void list_tree(const std::filesystem::path& mount) {
  std::cout << fmt::format("\nWhat {} shows:\n", mount.string());
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(mount)) {
    const bool is_hidden = entry.path().filename().string().starts_with('.');
    if (entry.is_regular_file() && !is_hidden) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  TextTable table({"FILE", "BYTES"}, {1});
  std::size_t arrays = 0;
  std::uint64_t array_bytes = 0;
  const auto add_arrays = [&] {
    if (arrays > 0)
      table.add_row(
          {fmt::format("merged/params/*.npy ({} files)", arrays), std::to_string(array_bytes)});
    arrays = 0;
  };
  for (const auto& path : paths) {
    if (path.extension() == ".npy") {
      ++arrays;
      array_bytes += std::filesystem::file_size(path);
      continue;
    }
    add_arrays();
    table.add_row({std::filesystem::relative(path, mount).string(),
                   std::to_string(std::filesystem::file_size(path))});
  }
  add_arrays();
  std::cout << table.str();
}

/// Makes all of it, or leaves nothing.
/// @return its bytes.
std::uint64_t make_sample(const DemoModel& model, const std::filesystem::path& source) {
  std::filesystem::create_directories(source);
  try {
    return model.write_source(source);
  } catch (Error& error) {
    std::error_code ignored;
    std::filesystem::remove_all(source, ignored);
    if (error.os_error() == ENOSPC || error.os_error() == EDQUOT)
      error.hint("the sample takes 200 MB: name a directory with more room, 'reshardfs demo DIR'");
    throw;
  }
}

int run_demo_in(const std::string& chosen) {
  static_cast<void>(std::signal(SIGINT, note_interrupt));
  static_cast<void>(std::signal(SIGTERM, note_interrupt));
  const DemoDirectory directory(chosen);
  const std::filesystem::path source = directory.path() / "source";
  const std::filesystem::path mount = directory.path() / "mnt";

  const DemoModel model;
  std::cout << "Making a sample: a small transformer with Adam moments, saved by 8 ranks\n"
               "(model parallel 4 x data parallel 2, optimizer parallel) ...\n"
            << std::flush;
  const std::uint64_t bytes = make_sample(model, source);
  std::filesystem::create_directories(mount);
  std::cout << fmt::format("{} in {}\n", human_bytes(bytes), source.string());

  const std::vector<std::string> strategies{"--src-strategy", source / "src_strategy.ckpt",
                                            "--dst-strategy", source / "dst_strategy.ckpt"};
  const auto step = [&](std::vector<std::string> words) {
    words.insert(words.end(), strategies.begin(), strategies.end());
    return words;
  };
  bool right = false;
  if (can_mount(step({"mount", source, mount}))) {
    DemoMount mounted(mount);
    std::cout << "Mounted for 4 ranks (model parallel 4), and as one merged file.\n";
    list_tree(mount);
    right = check_all(model, mount);
    run_step(step({"plan", source}));
    mounted.finish();
  } else {
    const std::filesystem::path target = directory.path() / "exported";
    std::cout << "\nThis machine cannot mount, for the reason above. The same files, exported:\n";
    std::vector<std::string> words = step({"export", source, target});
    words.insert(words.end(), {"--views", "ranks,merged-ckpt"});
    run_step(words);
    list_tree(target);
    right = check_all(model, target);
    run_step(step({"plan", source}));
  }
  if (!directory.temporary()) {
    std::cout << fmt::format("\nThe sample stays in {}: mount it as above.\n", source.string());
  }
  std::cout << (right ? "\nAll 5 files have exactly the expected bytes.\n"
                      : "\nFiles differ: please report this as a bug.\n");
  return right ? kExitDone : kExitDifference;
}

}  // namespace

int run_demo(const Given& given) {
  return run_demo_in(given.argument("DIR"));
}

}  // namespace reshardfs
