// SPDX-License-Identifier: Apache-2.0
#include "storage/local/measured_file.h"

#include <sys/vfs.h>

#include <chrono>
#include <exception>
#include <utility>

#include "storage/descriptor_pool.h"
#include "storage/local/file_system_type.h"
#include "storage/remote/cached_fetcher.h"
#include "storage/stuck_read.h"

namespace reshardfs {
std::atomic<SlowFiles>& slow_files() noexcept {
  static std::atomic<SlowFiles> which = SlowFiles::kMeasured;
  return which;
}

ByteSourcePtr measured(ByteSourcePtr file) {
  const SlowFiles slow = slow_files();
  const bool all = slow == SlowFiles::kAll;
  struct statfs system {};
  const bool known = ::fstatfs(file->descriptor()->get(), &system) == 0;
  const bool may_be_slow = known && (all || is_remote_type(type_of(system)));
  std::optional<std::string> identity;
  MeasuredFile::Way way{.is_timed = false, .is_pooled = false};
  if (may_be_slow) {
    if (source_cache() != nullptr) identity = file->identity();
    way = MeasuredFile::Way::of(slow, identity);
  }
  auto file_system = FileSystemSpeed::of(file->stamp().device);
  return std::make_shared<MeasuredFile>(std::move(file), std::move(identity),
                                        std::move(file_system), std::move(way));
}

MeasuredFile::Way MeasuredFile::Way::of(SlowFiles slow,
                                        const std::optional<std::string>& identity) {
  return {.is_timed = true,
          .is_pooled = slow != SlowFiles::kNone || identity,
          .always_far = slow == SlowFiles::kAll || (identity && !identity->empty())};
}

MeasuredFile::MeasuredFile(ByteSourcePtr file, std::optional<std::string> identity,
                           std::shared_ptr<FileSystemSpeed> file_system, Way way)
    : file_(std::move(file)),
      identity_(std::move(identity)),
      file_system_(std::move(file_system)),
      way_(std::move(way)) {}

const LocalFetcher& MeasuredFile::fetcher() const {
  has_fetcher_.call([this] {
    fetcher_ = std::make_shared<const LocalFetcher>(file_, identity_.value_or(""), file_system_,
                                                    way_.readers);
  });
  return *fetcher_;
}

const PooledSource& MeasuredFile::pooled() const {
  was_far_.call([this] {
    static_cast<void>(fetcher());
    pooled_.emplace(fetcher_, *way_.pool);
  });
  return *pooled_;
}

bool MeasuredFile::is_left() const noexcept {
  return file_system_->is_stuck() && LeftReads::of_thread() != nullptr;
}

template <typename Read>
void MeasuredFile::read_directly(std::uint64_t bytes, Read&& read) const {
  using Clock = std::chrono::steady_clock;
  const FileSystemSpeed::DirectRead looked_after(*file_system_);
  if (!way_.is_timed) return read();
  const Clock::time_point began = Clock::now();
  read();
  file_system_->note(bytes, Clock::now() - began);
}

void MeasuredFile::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  if (is_far()) return pooled().read_at(offset, out);
  if (is_left() && !out.empty()) {
    require_in_source(*this, offset, out.size());
    return way_.pool->read_alone(fetcher(), offset, out);
  }
  read_directly(out.size(), [&] { file_->read_at(offset, out); });
}

void MeasuredFile::read_many(std::span<const ReadRequest> parts) const {
  if (is_far()) return pooled().read_many(parts);
  for (const ReadRequest& part : parts) read_at(part.offset, part.out);
}

void MeasuredFile::foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept {
  if (!is_far()) return;
  try {
    // What will not come would only take the memory of the pool.
    const PooledSource& source = pooled();
    if (fetcher_->answering() <= LocalReaders::Answering::kPartly) source.foresee(ranges, when);
  } catch (const std::exception&) {
    // Without memory for it, it is read when it is needed.
  }
}

bool MeasuredFile::gather(const StridedRanges& ranges, std::byte* out) const {
  if (is_far() || is_left()) return false;
  bool done = false;
  read_directly(ranges.span().length(), [&] { done = file_->gather(ranges, out); });
  return done;
}

void MeasuredFile::check_unchanged() const {
  // Of a file that answers it would only wait behind reads ahead.
  if (!is_left() || fetcher().answering() <= LocalReaders::Answering::kPartly) {
    const FileSystemSpeed::DirectRead looked_after(*file_system_);
    return file_->check_unchanged();
  }
  const LocalFetcher& own = fetcher();
  way_.pool->wait_for(own, [&own](RangeFetcher::Done done) { own.check(std::move(done)); });
}

std::shared_ptr<const Descriptor> MeasuredFile::descriptor() const {
  return is_far() ? nullptr : file_->descriptor();
}

}  // namespace reshardfs
