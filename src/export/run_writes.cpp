// SPDX-License-Identifier: Apache-2.0
#include "export/run_writes.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "reshardfs/error.h"

#include "base/process/parallel.h"
#include "base/text/text.h"

namespace reshardfs {
namespace {

/// @param leave what can be gone on with.
/// @return whether there is any that has been left.
bool end(const std::vector<WriteJob*>& writes, std::size_t workers, bool leave,
         const std::function<void()>& at_failure) {
  std::atomic<bool> stays{false};
  parallel_for(
      writes.size(),
      [&](std::size_t i) {
        if (!leave) {
          writes[i]->abandon();
        } else if (writes[i]->leave()) {
          stays = true;
        }
      },
      workers);
  try {
    at_failure();
  } catch (...) {
    // What it lacks is written again, and the failure before this one is told.
  }
  return stays;
}

}  // namespace

void run_writes(const std::vector<std::unique_ptr<BlockJob>>& jobs,
                const std::vector<WriteJob*>& writes, const BlockEngineOptions& engine,
                const char* stays, const std::function<void()>& at_failure) {
  try {
    run_blocks(jobs, engine);
  } catch (const Interrupted&) {
    throw Interrupted(end(writes, engine.workers, /*leave=*/true, at_failure) ? stays : "");
  } catch (const Error& error) {
    const bool is_full = std::any_of(writes.begin(), writes.end(), [](const WriteJob* job) {
      return job->has_failed_to_write();
    });
    // What is no failure of a device, such as a source that has changed, does not pass.
    const bool leave = error.kind() == ErrorKind::kIo && !is_full;
    if (!end(writes, engine.workers, leave, at_failure)) throw;
    Error told = error;
    throw Error(told.explain(std::string("; ") + stays)
                    .hint("run the same command again to go on with them"));
  } catch (...) {
    end(writes, engine.workers, /*leave=*/false, at_failure);
    throw;
  }
}

void note_resumed(const WriteJob& job, const Target::Words& words, ExportResult& result) {
  result.resumed_bytes += job.resumed_bytes();
  if (job.damaged_blocks() == 0) return;
  result.warnings.push_back("'" + printable(job.name()) + "': " +
                            counted(static_cast<std::size_t>(job.damaged_blocks()), words.block) +
                            " that an interrupted export has left did not match, and had to be " +
                            words.written + " again");
}

}  // namespace reshardfs
