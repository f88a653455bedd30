// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/round_trip.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "reshardfs/error.h"

#include "cli/app.h"
#include "cli/demo_process.h"
#include "format/ckpt/ckpt.h"
#include "fuse/mounting/captured_stderr.h"
#include "fuse/mounting/unmount.h"

namespace reshardfs {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRoundTrip = "round-trip";
constexpr const char* kSampleMountpoint = "mnt";

/// Runs the program. @throws Error kIo with what it says.
void run_step(const std::string& what, const std::vector<std::string>& words) {
  CapturedStderr captured;
  const int code = run_self(words);
  std::string told = captured.finish();
  while (told.ends_with('\n')) told.pop_back();
  if (code != kExitDone) throw Error(ErrorKind::kIo, what + " a small checkpoint failed: " + told);
}

/// A directory with a small checkpoint and a mount point; takes both away.
class RoundTrip {
 public:
  explicit RoundTrip(const std::string& prefix) : directory_(make_temporary_directory(prefix)) {
    fs::create_directory(mountpoint());
    const std::string content = "sixteen bytes...";
    bytes_ = ckpt::record_header("w", DType::kFloat32, {2, 2}, content.size()) + content;
    std::ofstream out(source(), std::ios::binary);
    out << bytes_;
    if (!out.flush()) throw io_error("write", source(), errno);
  }
  RoundTrip(const RoundTrip&) = delete;
  RoundTrip& operator=(const RoundTrip&) = delete;
  ~RoundTrip() {
    if (mounted_) run_self({"umount", mountpoint()});
    std::error_code ignored;
    fs::remove_all(directory_, ignored);
  }

  fs::path source() const { return directory_ / "sample.ckpt"; }
  fs::path mountpoint() const { return directory_ / kSampleMountpoint; }

  void run() {
    run_step("mounting", {"mount", source(), mountpoint(), "--quiet"});
    mounted_ = true;
    const fs::path shown = mountpoint() / "merged" / "checkpoint_merged.ckpt";
    std::ifstream in(shown, std::ios::binary);
    const std::string found((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    in.close();  // a file that is open keeps the mount busy
    if (found != bytes_) throw Error(ErrorKind::kIo, "has unexpected bytes").in_file(shown);
    run_step("unmounting", {"umount", mountpoint()});
    mounted_ = false;
  }

 private:
  fs::path directory_;
  std::string bytes_;
  bool mounted_ = false;
};

/// Removes what an abandoned round trip has left.
Findings take_away(const std::string& prefix) {
  for (const auto& entry : fs::directory_iterator(fs::temp_directory_path())) {
    if (!entry.path().filename().string().starts_with(prefix)) continue;
    const fs::path mountpoint = entry.path() / kSampleMountpoint;
    detach_mount(mountpoint);
    std::error_code ignored;
    fs::remove_all(entry.path(), ignored);
  }
  return {};
}

}  // namespace

Finding check_round_trip(const BoundedChecks& bounded) {
  const std::string prefix = "reshardfs-doctor-" + std::to_string(::getpid()) + "-";
  bool is_over = false;
  Findings found = bounded.run(kRoundTrip, "mounting, reading and unmounting a sample", [&] {
    RoundTrip(prefix).run();
    return Findings{{.name = kRoundTrip, .message = "a sample was mounted and read byte for byte"}};
  });
  is_over = found.front().message.find("no answer within") != std::string::npos;
  if (is_over) bounded.run(kRoundTrip, "", [&] { return take_away(prefix); });
  return found.front();
}

}  // namespace reshardfs
