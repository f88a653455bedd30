// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/stated_crcs.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/process/parallel.h"
#include "checkpoint/dcp/saved_objects.h"
#include "format/torch/torch_crc.h"
#include "storage/source_tree.h"

namespace reshardfs {
namespace {

/// Entries from this size on are compared in parallel, even if they are in one archive.
constexpr std::uint64_t kLargeEntry = 8ULL << 20U;

/// Counts what is read through it.
class CountedSource final : public ByteSource {
 public:
  CountedSource(const ByteSource& source, Progress* progress)
      : source_(source), progress_(progress) {}
  const std::string& name() const override { return source_.name(); }
  std::uint64_t size() const override { return source_.size(); }
  std::int64_t mtime_ns() const override { return source_.mtime_ns(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override {
    source_.read_at(offset, out);
    counted_ += out.size();
    if (progress_ != nullptr) progress_->add_bytes(out.size());
  }
  void check_unchanged() const override { source_.check_unchanged(); }
  std::uint64_t counted() const noexcept { return counted_; }

 private:
  const ByteSource& source_;
  Progress* progress_;
  mutable std::atomic<std::uint64_t> counted_{0};
};

class CrcComparison {
 public:
  CrcComparison(std::span<const StoredFile> files, std::size_t threads, Progress* progress)
      : files_(files), threads_(threads), progress_(progress), states_(files.size()) {}

  std::vector<CrcFinding> run() {
    std::vector<std::pair<std::size_t, ByteRange>> pieces;  // empty: the whole file
    for (std::size_t i = 0; i < files_.size(); ++i) {
      states_[i].error = files_[i].error;
      if (files_[i].error) continue;
      if (files_[i].format != &torch_format()) {
        expect(files_[i].source->size());
        pieces.emplace_back(i, ByteRange());
      }
      for (const ByteRange& archive : files_[i].archives) {
        expect(archive.length());
        pieces.emplace_back(i, archive);
      }
    }
    const auto for_each = [&](std::size_t count, const auto& file_of, const auto& work) {
      parallel_for(
          count,
          [&](std::size_t i) {
            try {
              work(i);
            } catch (Error& error) {
              note(file_of(i), error.in_file(files_[file_of(i)].source->name()));
            }
          },
          threads_);
    };
    for_each(
        pieces.size(), [&](std::size_t i) { return pieces[i].first; },
        [&](std::size_t i) { compare(pieces[i].first, pieces[i].second); });
    for_each(
        large_.size(), [&](std::size_t i) { return large_[i].first; },
        [&](std::size_t i) { compare(large_[i].first, large_[i].second); });
    return findings();
  }

 private:
  struct State {
    bool states = false;  ///< some CRC
    bool lacks = false;   ///< that of some bytes
    bool is_bad = false;
    std::optional<Error> error{};
  };

  void expect(std::uint64_t bytes) {
    if (progress_ != nullptr) progress_->expect_bytes(bytes);
  }
  void expect_fewer(std::uint64_t bytes) {
    if (progress_ != nullptr) progress_->expect_fewer_bytes(bytes);
  }

  /// Of several errors, that of the lowest place stays.
  void note(std::size_t file, const Error& error, bool is_bad = false) {
    const std::scoped_lock lock(mutex_);
    State& state = states_[file];
    state.is_bad = state.is_bad || is_bad;
    if (!state.error || error.offset() < state.error->offset()) {
      state.error = error;
    }
  }

  void note(std::size_t file, bool states, bool lacks) {
    const std::scoped_lock lock(mutex_);
    states_[file].states = states_[file].states || states;
    states_[file].lacks = states_[file].lacks || lacks;
  }

  void compare(std::size_t number, const ByteRange& archive) {
    const StoredFile& file = files_[number];
    if (file.format == &torch_format()) return compare_archive(number, archive);
    const CountedSource counted(*file.source, progress_);
    const CrcCheck check = file.format->check_crc(counted);
    expect_fewer(std::max(counted.size(), counted.counted()) - counted.counted());
    note(number, check != CrcCheck::kNoTrailer, check == CrcCheck::kNoTrailer);
    if (check == CrcCheck::kBad) note(number, crc_mismatch(counted, ""), /*is_bad=*/true);
  }

  void compare_archive(std::size_t number, const ByteRange& archive) {
    TorchCrcs crcs;
    try {
      crcs = torch_crcs(*files_[number].source, archive);
    } catch (const Error& error) {
      // A read of its tensors reports it.
      if (error.kind() != ErrorKind::kUnsupported) throw;
    }
    note(number, !crcs.entries.empty(), !crcs.are_all);
    std::uint64_t bytes = 0;
    for (const TorchCrcEntry& entry : crcs.entries) bytes += entry.place.length();
    expect_fewer(archive.length() - bytes);
    for (const TorchCrcEntry& entry : crcs.entries) {
      if (entry.place.length() < kLargeEntry) {
        compare(number, entry);
        continue;
      }
      const std::scoped_lock lock(mutex_);
      large_.emplace_back(number, entry);
    }
  }

  void compare(std::size_t number, const TorchCrcEntry& entry) {
    const CountedSource counted(*files_[number].source, progress_);
    const bool good = matches(counted, entry);
    counted.check_unchanged();
    if (good) return;
    Error error = crc_mismatch(counted, entry.name);
    note(number, error.at_offset(entry.place.offset()), /*is_bad=*/true);
  }

  std::vector<CrcFinding> findings() {
    std::vector<CrcFinding> all;
    for (State& state : states_) {
      const CrcCheck check = state.is_bad                   ? CrcCheck::kBad
                             : state.states && !state.lacks ? CrcCheck::kGood
                                                            : CrcCheck::kNoTrailer;
      all.push_back({check, std::move(state.error)});
    }
    return all;
  }

  std::span<const StoredFile> files_;
  std::size_t threads_;
  Progress* progress_;
  std::mutex mutex_;  ///< guards those below
  std::vector<State> states_;
  std::vector<std::pair<std::size_t, TorchCrcEntry>> large_;
};

/// Adds the archives of a set's objects, as torch.distributed.checkpoint saves what is no tensor.
void add_objects(const SavedObjects& objects, std::vector<StoredFile>& files) {
  std::map<std::filesystem::path, std::size_t> known;
  for (std::size_t i = 0; i < files.size(); ++i) known.emplace(files[i].path, i);
  for (const SavedObject& object : objects.objects) {
    if (!object.problem.empty() || !objects.of_torch) continue;
    const auto [found, is_new] = known.try_emplace(object.file, files.size());
    if (is_new) {
      StoredFile& file = files.emplace_back();
      file.path = object.file;
      file.format = &torch_format();
      try {
        file.source = open_file(object.file, objects.tree);
      } catch (const Error& error) {
        file.error = error;
      }
    }
    StoredFile& file = files[found->second];
    if (!file.source) continue;
    if (object.place.end() <= file.source->size()) file.archives.push_back(object.place);
  }
}

}  // namespace

std::vector<StoredFile> stored_files(std::span<const FoundFile> found,
                                     std::span<const RankFile> files, const Catalogue* catalogue) {
  std::vector<StoredFile> all;
  for (std::size_t i = 0; i < files.size(); ++i) {
    const RankFile& file = files[i];
    std::vector<SavedArchives> of_content;
    if (found[i].content != nullptr) of_content = found[i].content->archives(*file.source);
    if (!of_content.empty()) {
      for (SavedArchives& archives : of_content) {
        const std::string& path = archives.file->name();
        all.push_back({i, path, archives.file, &torch_format(), std::move(archives.places), {}});
      }
    } else if (file.of_torch()) {
      const auto whole = ByteRange::whole(file.saved->size());
      all.push_back({i, file.path, file.saved, &torch_format(), {whole}, {}});
    } else {
      all.push_back({i, file.path, file.source, &input_format_of(file.path), {}, {}});
    }
  }
  const auto objects = catalogue == nullptr ? nullptr : catalogue->saved_objects();
  if (objects) add_objects(*objects, all);
  for (StoredFile& file : all) {
    std::sort(file.archives.begin(), file.archives.end(),
              [](const ByteRange& a, const ByteRange& b) {
                return std::pair(a.offset(), a.length()) < std::pair(b.offset(), b.length());
              });
    file.archives.erase(std::unique(file.archives.begin(), file.archives.end()),
                        file.archives.end());
  }
  return all;
}

std::vector<CrcFinding> compare_crcs(std::span<const StoredFile> files, std::size_t threads,
                                     Progress* progress) {
  return CrcComparison(files, threads, progress).run();
}

}  // namespace reshardfs
