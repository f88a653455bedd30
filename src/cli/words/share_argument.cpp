// SPDX-License-Identifier: Apache-2.0
#include "cli/words/share_argument.h"

#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "reshardfs/error.h"

#include "base/rank_list.h"
#include "base/text/numbers.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

constexpr const char* kManual = "use --share I/N, with I from 0 to N-1";

Share parse_share(const std::string& text) {
  const std::size_t slash = text.find('/');
  const auto index = parse_number<std::uint64_t>(std::string_view(text).substr(0, slash));
  const auto count = slash == std::string::npos
                         ? std::nullopt
                         : parse_number<std::uint64_t>(std::string_view(text).substr(slash + 1));
  if (!index || !count) {
    throw Error(ErrorKind::kUsage,
                fmt::format("--share: '{}' is neither I/N nor auto", printable(text)))
        .hint("for example, the 16 shares of an export are 0/16 to 15/16");
  }
  if (*count < 1 || *count > kMaxShares) {
    throw Error(ErrorKind::kUsage,
                fmt::format("--share: there can be 1 to {} shares, not {}", kMaxShares, *count));
  }
  if (*index >= *count) {
    throw Error(ErrorKind::kUsage, fmt::format("--share: there is no share {}", printable(text)))
        .hint(fmt::format("shares are counted from 0: the last one is {}/{}", *count - 1, *count));
  }
  return {*index, *count};
}

/// What one of several processes that were started together is told.
struct Task {
  std::uint64_t index = 0;
  std::uint64_t count = 1;
  std::string from{};
};

class Surroundings {
 public:
  explicit Surroundings(const Variables& variables) : variables_(variables) {}

  ChosenShare share() const {
    // MPI's first: its daemons may be tasks of Slurm, whose variables the ranks inherit.
    auto task = pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
    if (!task) task = pair("PMI_RANK", "PMI_SIZE");
    if (!task && is_slurm_task()) {
      // SLURM_NTASKS may be the whole job's, where MPI's starter has called srun.
      task = pair("SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
      if (!task) task = pair("SLURM_PROCID", "SLURM_NTASKS");
    }
    check_pmix(task);
    const auto elements = number("SLURM_ARRAY_TASK_COUNT");
    const bool in_array = number("SLURM_ARRAY_TASK_ID").has_value();
    if (in_array && elements && *elements > 1 && task && task->count > 1) throw_both(*task);
    // An array of one element with several tasks is no more than a job.
    if (in_array && (!task || task->count == 1)) task = array_element();
    if (!task) throw_nothing();
    if (task->count > kMaxShares) {
      throw Error(ErrorKind::kUsage, fmt::format("--share auto: there can be {} shares, not {}",
                                                 kMaxShares, task->count));
    }
    return {{task->index, task->count}, task->from};
  }

 private:
  bool has(const char* name) const {
    const char* const text = variables_(name);
    return text != nullptr && *text != '\0';
  }

  std::optional<std::uint64_t> number(const char* name) const {
    if (!has(name)) return std::nullopt;
    const auto number = parse_number<std::uint64_t>(variables_(name));
    if (number) return number;
    throw Error(ErrorKind::kUsage, fmt::format("--share auto: {} is '{}', which is no number", name,
                                               printable(variables_(name))))
        .hint(kManual);
  }

  std::optional<Task> pair(const char* index_name, const char* count_name) const {
    const auto index = number(index_name);
    const auto count = number(count_name);
    if (!index || !count) return std::nullopt;
    if (*index >= *count) {
      throw Error(ErrorKind::kUsage, fmt::format("--share auto: {} is {}, but {} is {}", index_name,
                                                 *index, count_name, *count))
          .hint(kManual);
    }
    return Task{*index, *count, index_name};
  }

  /// A batch script has the variables of a task, too; only this one tells it from those that srun
  /// starts. Its highest values are for what is no such task: the script, an interactive shell.
  bool is_slurm_task() const {
    constexpr std::uint64_t kFirstSpecial = 0xfffffff0;
    if (!has("SLURM_STEP_ID")) return false;
    const auto step = parse_number<std::uint64_t>(variables_("SLURM_STEP_ID"));
    return step && *step < kFirstSpecial;
  }

  void check_pmix(const std::optional<Task>& task) const {
    constexpr const char* kName = "PMIX_RANK";
    const auto rank = number(kName);
    if (!rank || (task && task->index == *rank)) return;
    if (task) {
      throw Error(ErrorKind::kUsage, fmt::format("--share auto: {} is {}, but {} is {}", kName,
                                                 *rank, task->from, task->index))
          .hint(kManual);
    }
    throw Error(ErrorKind::kUsage,
                fmt::format("--share auto: {} is {}, but no variable tells the number of tasks",
                            kName, *rank))
        .hint(fmt::format("use --share ${}/N", kName));
  }

  Task array_element() const {
    const std::uint64_t id = *number("SLURM_ARRAY_TASK_ID");
    const auto count = number("SLURM_ARRAY_TASK_COUNT");
    const auto first = number("SLURM_ARRAY_TASK_MIN");
    const auto last = number("SLURM_ARRAY_TASK_MAX");
    // A list of some elements is what is run again of a larger array.
    const bool whole = count && first && last && *first <= 1 && *first <= id && id <= *last &&
                       *last - *first + 1 == *count;
    if (!whole) {
      throw Error(ErrorKind::kUsage,
                  "--share auto: the job array does not count from 0 or 1 without gaps")
          .hint(
              "submit it with --array=0-15, for example; to run one of its tasks again, use "
              "'scontrol requeue' or --share I/N");
    }
    return {id - *first, *count, "SLURM_ARRAY_TASK_ID"};
  }

  [[noreturn]] static void throw_both(const Task& task) {
    throw Error(
        ErrorKind::kUsage,
        fmt::format("--share auto: this is one of several tasks ({} is {}) of an element of "
                    "a job array",
                    task.from, task.index))
        .hint(fmt::format("start one task for each element, or use --share ${}/{} if each element "
                          "exports another conversion",
                          task.from, task.count));
  }

  [[noreturn]] void throw_nothing() const {
    if (has("SLURM_JOB_ID") || has("SLURM_PROCID")) {
      throw Error(ErrorKind::kUsage,
                  "--share auto: this is a shell or batch script of Slurm, not one of its tasks")
          .hint("start the tasks with srun: 'srun reshardfs export ... --share auto'");
    }
    throw Error(ErrorKind::kUsage,
                "--share auto: no variable of Slurm, Open MPI, MPICH or PMIx tells the number of "
                "this task")
        .hint(kManual);
  }

  const Variables& variables_;
};

}  // namespace

ChosenShare choose_share(const std::string& text, const Variables& variables) {
  if (text == "auto") return Surroundings(variables).share();
  return {parse_share(text), ""};
}

std::string share_words(const std::vector<const OutputFile*>& files) {
  if (files.empty()) return "no files";
  std::set<Rank> ranks;
  std::size_t others = 0;
  std::uint64_t bytes = 0;
  for (const OutputFile* file : files) {
    bytes += file->file->size();
    if (const auto rank = rank_of_path(file->path)) {
      ranks.insert(*rank);
    } else {
      ++others;
    }
  }
  std::string text = ranks.empty() ? "" : rank_words({ranks.begin(), ranks.end()});
  if (others > 0) {
    text += ranks.empty() ? counted(others, "file") : " and " + counted(others, "other file");
  }
  return text + ", " + human_bytes(bytes);
}

}  // namespace reshardfs
