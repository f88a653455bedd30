// SPDX-License-Identifier: Apache-2.0
#include "export/block_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>

#include "base/posix/read_write.h"
#include "base/text/numbers.h"
#include "cache/checksum.h"
#include "export/partial_file.h"

namespace reshardfs {
namespace {

/// In place of the end of the partial file's name.
constexpr std::string_view kPartial = "-partial";
constexpr const char* kJournal = "-blocks";
/// More than a journal of a file of 64 TiB has.
constexpr std::size_t kMostBytes = std::size_t{1} << 30U;
constexpr std::size_t kSumDigits = 32;

using Sum = std::array<char, kSumDigits>;

Sum sum_of(std::span<const std::byte> bytes) {
  Sum digits{};
  hex_hash(bytes, digits);
  return digits;
}

std::string header_of(const BlockJournal::Subject& subject) {
  return fmt::format("reshardfs blocks 1 {} {} ", subject.identity, subject.size);
}

/// @return nothing if it is no file of its own, or cannot be read.
std::optional<std::string> read_journal(int file) {
  struct stat found {};
  if (::fstat(file, &found) != 0 || !S_ISREG(found.st_mode) || found.st_nlink != 1) return {};
  if (static_cast<std::uint64_t>(found.st_size) > kMostBytes) return {};
  std::string text(static_cast<std::size_t>(found.st_size), '\0');
  if (read_fully(file, 0, std::as_writable_bytes(std::span(text))) != text.size()) return {};
  return text;
}

}  // namespace

std::string journal_name(const std::string& name) {
  std::string journal = partial_name(name);
  journal.erase(journal.size() - kPartial.size());
  return journal + kJournal;
}

BlockJournal::BlockJournal(Folder folder, const std::string& name, const Subject& subject,
                           std::size_t block_bytes)
    : folder_(std::move(folder)), name_(journal_name(name)), block_bytes_(block_bytes) {
  ::unlinkat(folder_.descriptor(), name_.c_str(), 0);
  // Made before the file: if memory ran out in between, the file would stay.
  const std::string header = header_of(subject) + std::to_string(block_bytes) + "\n";
  constexpr mode_t kMode = 0666;  // the umask takes from it
  file_ = folder_.open_file(name_, O_WRONLY | O_CREAT | O_EXCL | O_APPEND, kMode);
  if (!file_) return;
  if (::write(file_.get(), header.data(), header.size()) != static_cast<ssize_t>(header.size())) {
    remove();
  }
}

std::unique_ptr<BlockJournal> BlockJournal::resume(const Folder& folder, const std::string& name,
                                                   const Subject& subject,
                                                   std::size_t most_block_bytes) {
  std::unique_ptr<BlockJournal> journal(new BlockJournal(folder.make({})));
  journal->name_ = journal_name(name);
  return journal->read(subject, most_block_bytes) ? std::move(journal) : nullptr;
}

bool BlockJournal::read(const Subject& subject, std::size_t most_block_bytes) {
  file_ = folder_.open_file(name_, O_RDWR | O_APPEND);
  const auto all = file_ ? read_journal(file_.get()) : std::nullopt;
  if (!all) return false;
  std::string_view text = *all;
  const std::string header = header_of(subject);
  if (!text.starts_with(header)) return false;
  text.remove_prefix(header.size());
  const auto block_bytes = take_number<std::size_t>(text);
  const bool fits =
      block_bytes && text.starts_with('\n') && *block_bytes > 0 && *block_bytes <= most_block_bytes;
  if (!fits) return false;
  text.remove_prefix(1);
  block_bytes_ = *block_bytes;
  // What is no line ends it: a process was killed while it wrote, or the machine went down.
  for (std::string_view rest = text;; text = rest) {
    const auto offset = take_number<std::uint64_t>(rest);
    const bool whole = offset && rest.starts_with(' ') && rest.size() >= kSumDigits + 2 &&
                       rest[kSumDigits + 1] == '\n' && *offset % block_bytes_ == 0 &&
                       *offset < subject.size;
    if (!whole) break;
    known_[*offset] = rest.substr(1, kSumDigits);
    rest.remove_prefix(kSumDigits + 2);
  }
  const auto good = static_cast<off_t>(all->size() - text.size());
  return !known_.empty() && ::ftruncate(file_.get(), good) == 0;
}

bool BlockJournal::matches(std::uint64_t offset, std::span<const std::byte> bytes) const {
  const auto known = known_.find(offset);
  if (known == known_.end()) return false;
  const Sum sum = sum_of(bytes);
  return known->second == std::string_view(sum.data(), sum.size());
}

void BlockJournal::add(std::uint64_t offset, std::span<const std::byte> bytes) noexcept {
  const Sum sum = sum_of(bytes);
  std::array<char, kSumDigits + 32> line{};
  char* end = std::to_chars(line.data(), line.data() + line.size(), offset).ptr;
  *end++ = ' ';
  end = std::copy(sum.begin(), sum.end(), end);
  *end++ = '\n';
  const auto length = static_cast<std::size_t>(end - line.data());
  const std::lock_guard lock(mutex_);
  // One write, so that a kill does not tear it. What a full disk has torn must stay the last.
  if (file_ && ::write(file_.get(), line.data(), length) != static_cast<ssize_t>(length)) {
    file_ = Descriptor();
  } else {
    has_added_ = static_cast<bool>(file_);
  }
}

bool BlockJournal::has_blocks() noexcept {
  const std::lock_guard lock(mutex_);
  return has_added_ || !known_.empty();
}

void BlockJournal::remove() noexcept {
  const std::lock_guard lock(mutex_);
  file_ = Descriptor();
  ::unlinkat(folder_.descriptor(), name_.c_str(), 0);
}

}  // namespace reshardfs
