// SPDX-License-Identifier: Apache-2.0
#include "cache/record_reader.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <new>
#include <optional>
#include <utility>

#include "base/posix/read_write.h"
#include "cache/record.h"

namespace reshardfs {
namespace {

using WritableBytes = std::span<std::byte>;
using HeaderPage = std::array<std::byte, kHeaderBytes>;

/// The modification time of a record is when it was last used. To say so each time would cost more
/// than it tells.
void note_use(int file, const struct stat& status) noexcept {
  using namespace std::chrono;
  constexpr nanoseconds kInterval = milliseconds(100);
  const nanoseconds used = seconds(status.st_mtim.tv_sec) + nanoseconds(status.st_mtim.tv_nsec);
  const nanoseconds ago = system_clock::now().time_since_epoch() - used;
  // Not in the future either: a clock may have been set back.
  if (ago >= -kInterval && ago < kInterval) return;
  const std::array<timespec, 2> times = {timespec{0, UTIME_OMIT}, timespec{0, UTIME_NOW}};
  ::futimens(file, times.data());
}

/// The pieces that have the wanted bytes: those before them, they themselves, and those after.
class Cover {
 public:
  /// @throws std::bad_alloc
  Cover(std::uint64_t length, std::uint64_t offset, WritableBytes out)
      : length_(length), piece_(piece_bytes(length)), begin_(offset / piece_ * piece_) {
    const std::uint64_t wanted_end = offset + out.size();
    const std::uint64_t end = std::min(length, (wanted_end + piece_ - 1) / piece_ * piece_);
    const std::size_t before = offset - begin_;
    const std::size_t after = end - wanted_end;
    if (before + after > 0) rest_ = unfilled_bytes(before + after);
    parts_ = {WritableBytes(rest_.get(), before), out, WritableBytes(rest_.get() + before, after)};
    end_ = end;
  }

  /// @return 0, or an error number.
  int read(int file, HeaderPage& page) const noexcept {
    std::array<iovec, 4> buffers{};
    buffers[0] = {page.data(), page.size()};
    std::transform(parts_.begin(), parts_.end(), buffers.begin() + 1, [](WritableBytes part) {
      return iovec{part.data(), part.size()};
    });
    if (begin_ == 0) return read_fully(file, 0, buffers);
    if (const int failed = read_fully(file, 0, std::span(buffers).first(1))) return failed;
    return read_fully(file, kHeaderBytes + begin_, std::span(buffers).subspan(1));
  }
  /// Reads the parts without the header.
  int read(int file) const noexcept {
    std::array<iovec, 3> buffers{};
    std::transform(parts_.begin(), parts_.end(), buffers.begin(), as_buffer);
    return read_fully(file, kHeaderBytes + begin_, buffers);
  }

  bool is_right(const RecordHeader& header) const noexcept {
    for (std::uint64_t at = begin_; at < end_; at += piece_) {
      if (sum(at, std::min(piece_, length_ - at)) != header.sum_of_piece(at / piece_)) return false;
    }
    return true;
  }

 private:
  static iovec as_buffer(WritableBytes part) noexcept { return {part.data(), part.size()}; }

  std::uint64_t sum(std::uint64_t offset, std::uint64_t size) const noexcept {
    std::array<Bytes, 3> slices;
    std::size_t count = 0;
    std::uint64_t part_begin = begin_;
    for (const WritableBytes part : parts_) {
      const std::uint64_t from = std::max(offset, part_begin);
      const std::uint64_t to = std::min(offset + size, part_begin + part.size());
      if (from < to) slices.at(count++) = part.subspan(from - part_begin, to - from);
      part_begin += part.size();
    }
    return checksum(std::span(slices).first(count));
  }

  std::uint64_t length_;
  std::uint64_t piece_;
  std::uint64_t begin_;
  std::uint64_t end_ = 0;
  UnfilledBytes rest_;  ///< what is read but not wanted
  std::array<WritableBytes, 3> parts_;
};

/// An open record, or why there is none.
struct Opened {
  Descriptor file{-1};
  struct stat status {};
  Found found = Found::kThere;
};

Opened open_record(const CacheDirectory& directory, const RecordPath& path) noexcept {
  Opened opened;
  opened.file = directory.open_record(path);
  if (!opened.file) {
    opened.found = errno == ENOENT ? Found::kMissing : Found::kFailed;
    // A link, or what cannot be opened: not of the cache's making.
    if ((errno == ELOOP || errno == ENXIO) &&
        ::fstatat(directory.descriptor(), path.data(), &opened.status, AT_SYMLINK_NOFOLLOW) == 0) {
      opened.found = Found::kBad;
    }
    return opened;
  }
  const auto status = opened.file.status();
  if (!status) {
    opened.found = Found::kFailed;
  } else {
    opened.status = *status;
    if (!S_ISREG(status->st_mode)) opened.found = Found::kBad;
  }
  return opened;
}

/// @param header gets what was read.
Found read_opened(const Opened& opened, const RecordId& id, std::uint64_t length,
                  const Cover& cover, std::optional<RecordHeader>& header) noexcept {
  if (static_cast<std::uint64_t>(opened.status.st_size) != kHeaderBytes + length) {
    return Found::kBad;
  }
  HeaderPage page;
  const int failed = cover.read(opened.file.get(), page);
  // A sector that cannot be read will not get better.
  if (failed == EIO || failed == EBADMSG) return Found::kBad;
  if (failed != 0) return Found::kFailed;
  header = RecordHeader::read(page, id, length);
  if (!header || !cover.is_right(*header)) return Found::kBad;
  note_use(opened.file.get(), opened.status);
  return Found::kThere;
}

/// @return whether that was possible. If not, the file tells why.
bool read_kept(const KeptRecord& record, std::uint64_t length, const Cover& cover) noexcept {
  const auto status = record.file.status();
  if (!status || status->st_nlink == 0) return false;
  if (static_cast<std::uint64_t>(status->st_size) != kHeaderBytes + length) return false;
  if (cover.read(record.file.get()) != 0 || !cover.is_right(record.header)) return false;
  note_use(record.file.get(), *status);
  return true;
}

}  // namespace

Found read_record(const CacheDirectory& directory, KeptRecords& kept, const RecordId& id,
                  std::uint64_t length, std::uint64_t offset, WritableBytes out) noexcept {
  if (offset > length || out.size() > length - offset) return Found::kMissing;
  const bool has_more = out.size() < length && offset + out.size() < length;
  try {
    const Cover cover(length, offset, out);
    if (out.size() < length) {
      const KeptRecords::Record record = kept.find(id);
      const bool is_read = record && read_kept(*record, length, cover);
      if (record && (!is_read || !has_more)) kept.forget(id);
      if (is_read) return Found::kThere;
    }
    const RecordPath path = record_path(id);
    Opened opened = open_record(directory, path);
    std::optional<RecordHeader> header;
    Found found = opened.found;
    if (found == Found::kThere) found = read_opened(opened, id, length, cover, header);
    if (found == Found::kBad) directory.remove_record(path, opened.status);
    if (found == Found::kThere && has_more) {
      kept.keep(id, std::make_shared<KeptRecord>(KeptRecord{std::move(opened.file), *header}));
    }
    return found;
  } catch (const std::bad_alloc&) {
    return Found::kFailed;
  }
}

Found read_record(const CacheDirectory& directory, const RecordId& id, std::uint64_t max_length,
                  std::string& out) noexcept {
  const RecordPath path = record_path(id);
  const Opened opened = open_record(directory, path);
  Found found = opened.found;
  try {
    const auto size = static_cast<std::uint64_t>(opened.status.st_size);
    if (found == Found::kThere && (size < kHeaderBytes || size - kHeaderBytes > max_length)) {
      found = Found::kBad;
    }
    if (found == Found::kThere) {
      out.resize(size - kHeaderBytes);
      std::optional<RecordHeader> header;
      found = read_opened(opened, id, out.size(),
                          Cover(out.size(), 0, std::as_writable_bytes(std::span(out))), header);
    }
  } catch (const std::bad_alloc&) {
    return Found::kFailed;
  }
  if (found == Found::kBad) directory.remove_record(path, opened.status);
  return found;
}

}  // namespace reshardfs
