// SPDX-License-Identifier: Apache-2.0
#include "cli/words/check_arguments.h"

#include "reshardfs/error.h"

#include "storage/local/directory.h"
#include "storage/location.h"
#include "storage/near_path.h"

namespace reshardfs {
namespace {

constexpr std::size_t kMaxJobs = 1024;

}  // namespace

std::optional<std::filesystem::path> existing_path(const std::string& text,
                                                   const std::string& option,
                                                   const std::string& takes) {
  if (text.empty() || text == "none") return std::nullopt;
  std::filesystem::path path = absolute_location(text);
  // Whether it exists is found out when it is read: by then a daemon has left its parent.
  if (is_url(path)) return path;
  if (path_kind(path) != PathKind::kMissing) return path;
  throw Error(ErrorKind::kMissing, "no such file or directory")
      .in_file(path.string())
      .hint(did_you_mean_path(path))
      .hint(option + " takes " + takes);
}

CLI::Option* add_text(CLI::App& command, const std::string& name, std::string& value,
                      const std::string& text) {
  return command.add_option(name, value, text)->take_last();
}

CLI::Option* add_texts(CLI::App& command, const std::string& name, std::vector<std::string>& values,
                       const std::string& text) {
  return command.add_option(name, values, text)->take_all()->expected(1);
}

void add_decryption_mode(CLI::App& command, const std::string& name, std::string& mode) {
  add_text(command, name, mode, "Encryption mode of encrypted .ckpt files")
      ->type_name("AES-GCM|AES-CBC|SM4-CBC")
      ->check(CLI::IsMember({"AES-GCM", "AES-CBC", "SM4-CBC"}))
      ->capture_default_str();
}

void add_replicas_option(CLI::App& command, const std::string& name, Replicas& replicas,
                         const std::string& text) {
  add_word_option(command, name, replicas, kReplicasWords, text);
}

void add_weights_option(CLI::App& command, bool& weights_only) {
  command.add_flag("--weights-only", weights_only,
                   "Leave out the states of optimizers, schedulers and the training loop, which "
                   "are recognized by their names");
}

void add_unmatched_option(CLI::App& command, bool& allow_unmatched) {
  command.add_flag("--allow-unmatched", allow_unmatched,
                   "Accept options that select nothing of this checkpoint, with a warning, as in "
                   "scripts for many checkpoints");
}

void add_jobs_option(CLI::App& command, std::size_t& jobs) {
  command.add_option("-j,--jobs", jobs, "Number of threads; 0 to choose one for this machine")
      ->type_name("NUMBER")
      ->check(CLI::Range(std::size_t{0}, kMaxJobs).description(""))
      ->capture_default_str()
      ->take_last();
}

}  // namespace reshardfs
