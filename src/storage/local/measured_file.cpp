// SPDX-License-Identifier: Apache-2.0
#include "storage/local/measured_file.h"

#include <sys/vfs.h>

#include <chrono>
#include <exception>
#include <utility>

#include "storage/descriptor_pool.h"
#include "storage/local/file_system_type.h"
#include "storage/remote/cached_fetcher.h"

namespace reshardfs {
namespace {

/// Reads, and tells the file system's speed how long that took.
template <typename Read>
void timed(FileSystemSpeed& file_system, std::uint64_t bytes, Read&& read) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began = Clock::now();
  read();
  file_system.note(bytes, Clock::now() - began);
}

}  // namespace

std::atomic<SlowFiles>& slow_files() noexcept {
  static std::atomic<SlowFiles> which = SlowFiles::kMeasured;
  return which;
}

ByteSourcePtr measured(ByteSourcePtr file) {
  const DescriptorPtr descriptor = file->descriptor();
  const SlowFiles slow = slow_files();
  if (slow == SlowFiles::kNone && source_cache() == nullptr) return file;
  const bool all = slow == SlowFiles::kAll;
  struct statfs system {};
  if (::fstatfs(descriptor->get(), &system) != 0) return file;
  if (!all && !is_remote_type(type_of(system))) return file;
  std::string identity = file->identity();
  auto file_system = FileSystemSpeed::of(file->stamp().device);
  const bool is_kept = source_cache() != nullptr && !identity.empty();
  return std::make_shared<MeasuredFile>(std::move(file), std::move(identity),
                                        std::move(file_system),
                                        MeasuredFile::Way{.always_far = all || is_kept});
}

MeasuredFile::MeasuredFile(ByteSourcePtr file, std::string identity,
                           std::shared_ptr<FileSystemSpeed> file_system, Way way)
    : file_(std::move(file)),
      identity_(std::move(identity)),
      file_system_(std::move(file_system)),
      way_(std::move(way)) {}

const MeasuredFile::Far& MeasuredFile::far() const {
  was_far_.call([this] {
    auto fetcher =
        std::make_shared<const LocalFetcher>(file_, identity_, file_system_, way_.readers);
    far_.emplace(std::move(fetcher), *way_.pool);
  });
  return *far_;
}

void MeasuredFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (is_far()) return far().source.read_at(offset, out);
  timed(*file_system_, out.size(), [&] { file_->read_at(offset, out); });
}

void MeasuredFile::read_many(std::span<const ReadRequest> parts) const {
  if (is_far()) return far().source.read_many(parts);
  for (const ReadRequest& part : parts) read_at(part.offset, part.out);
}

void MeasuredFile::foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept {
  if (!is_far()) return;
  try {
    // What will not come would only take the memory of the pool.
    const Far& way = far();
    if (way.fetcher->answers()) way.source.foresee(ranges, when);
  } catch (const std::exception&) {
    // Without memory for it, it is read when it is needed.
  }
}

bool MeasuredFile::gather(const StridedRanges& ranges, std::byte* out) const {
  if (is_far()) return false;
  bool done = false;
  timed(*file_system_, ranges.span().length(), [&] { done = file_->gather(ranges, out); });
  return done;
}

std::shared_ptr<const Descriptor> MeasuredFile::descriptor() const {
  return is_far() ? nullptr : file_->descriptor();
}

}  // namespace reshardfs
