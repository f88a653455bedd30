// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/dcp/torch_items.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "base/process/retry_once.h"
#include "checkpoint/indexes/named_tensors.h"
#include "checkpoint/strided_read.h"
#include "format/torch/torch_zip_tensors.h"

namespace reshardfs {
namespace {

/// What torch.save writes before the data of one tensor, for what will be read.
constexpr std::uint64_t kUsualHead = 4096;
/// What is known of an entry: nothing, that it is in strided_, or (this and more) where it begins.
constexpr std::uint64_t kUnknown = 0;
constexpr std::uint64_t kStrided = 1;
constexpr std::uint64_t kFirstPlace = 2;

/// What was read of a file's archives: each once, whatever the number of entries and of threads
/// that want it.
class Readings {
 public:
  explicit Readings(const TorchItems& items)
      : named_(items.has_keys() ? nullptr : items.index()), archives_(items.shared_places()) {}

  const NamedTensors& named() const noexcept { return named_; }
  /// Readers of the same place take turns, so that the second one finds what the first one has
  /// read; readers of other places seldom wait.
  std::unique_lock<std::mutex> turn(std::size_t place) const {
    return std::unique_lock(turns_.at(place % turns_.size()));
  }

  /// What is in the place of an entry that others are in, too.
  const TorchTensor& read_shared(const TorchItems& items, std::size_t number,
                                 const ByteSource& file) const {
    Archive& archive = archives_[*items.shared_place(number)];
    archive.read.call([&] { archive.tensor = read_torch_tensor(file, *items.place(number)); });
    return archive.tensor;
  }

  /// Where the tensor of an entry is in the file.
  /// @throws Error that names the tensor, if it is not there or is another one.
  TorchTensor tensor(const TorchItems& items, std::size_t number, const ByteSource& file) const {
    const TensorEntry& expected = items.entry(number);
    const std::optional<ByteRange> place = items.place(number);
    try {
      TorchTensor tensor =
          place ? in_archive(items, number, file, *place) : named_.find(file, items.key(number));
      const Shape shape = items.stored_shape(number);
      if (tensor.dtype == expected.dtype && tensor.shape == shape) return tensor;
      Error error(ErrorKind::kBadInput,
                  "should be " + std::string(mindspore_name(expected.dtype)) + " " +
                      to_string(shape) + " by the checkpoint's metadata, but the file has " +
                      std::string(mindspore_name(tensor.dtype)) + " " + to_string(tensor.shape));
      error.in_file(file.name()).hint("take all files from one save");
      if (place) error.at_offset(place->offset());
      throw error;
    } catch (Error& error) {
      throw error.for_parameter(expected.name);
    }
  }

 private:
  struct Archive {
    RetryOnce read;
    TorchTensor tensor;
  };

  TorchTensor in_archive(const TorchItems& items, std::size_t number, const ByteSource& file,
                         const ByteRange& place) const {
    if (!items.shared_place(number)) return read_torch_tensor(file, place);
    return read_shared(items, number, file);
  }

  static constexpr std::size_t kTurns = 16;

  NamedTensors named_;
  mutable std::vector<Archive> archives_;  ///< in places that several entries are in
  mutable std::array<std::mutex, kTurns> turns_;
};

class ItemSource final : public ByteSource {
 public:
  ItemSource(std::shared_ptr<const TorchItems> items, ByteSourcePtr file)
      : items_(std::move(items)),
        file_(std::move(file)),
        readings_(*items_),
        known_(items_->index()->entries().size()) {}

  const std::string& name() const override { return file_->name(); }
  std::uint64_t size() const override { return items_->size(); }
  std::int64_t mtime_ns() const override { return file_->mtime_ns(); }
  FileStamp stamp() const override { return file_->stamp(); }
  void read_at(std::uint64_t offset, std::span<std::byte> out) const override;
  void read_many(std::span<const ReadRequest> parts) const override;
  bool is_far() const noexcept override { return file_->is_far(); }
  bool is_remote() const noexcept override { return file_->is_remote(); }
  void foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept override;
  bool gather(const StridedRanges& ranges, std::byte* out) const override;
  void check_unchanged() const override { file_->check_unchanged(); }

  const ByteSourcePtr& file() const noexcept { return file_; }
  const Readings& readings() const noexcept { return readings_; }

 private:
  void read(const ReadRequest& request) const;
  const TensorEntry& entry(std::size_t number) const { return items_->entry(number); }
  std::uint64_t find_out(std::size_t number) const;
  std::shared_ptr<const TorchTensor> strided(std::size_t number) const;
  /// Where bytes of one entry are in the file; nothing if they are not side by side there.
  std::optional<std::uint64_t> place_of(std::uint64_t offset, std::uint64_t length) const;

  std::shared_ptr<const TorchItems> items_;
  ByteSourcePtr file_;
  Readings readings_;
  mutable std::vector<std::atomic<std::uint64_t>> known_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<std::size_t, std::shared_ptr<const TorchTensor>> strided_;
};

std::uint64_t ItemSource::find_out(std::size_t number) const {
  std::uint64_t known = known_[number].load(std::memory_order_acquire);
  if (known != kUnknown) return known;
  const auto turn = readings_.turn(number);
  known = known_[number].load(std::memory_order_relaxed);
  if (known != kUnknown) return known;
  TorchTensor tensor = readings_.tensor(*items_, number, *file_);
  std::uint64_t found = kStrided;
  if (is_contiguous(tensor)) {
    const auto first = static_cast<std::uint64_t>(tensor.first * element_size(tensor.dtype));
    found = kFirstPlace + tensor.storage.offset() + first + items_->first_in_place(number);
  } else {
    const std::scoped_lock lock(mutex_);
    strided_.try_emplace(number, std::make_shared<const TorchTensor>(std::move(tensor)));
  }
  known_[number].store(found, std::memory_order_release);
  return found;
}

std::shared_ptr<const TorchTensor> ItemSource::strided(std::size_t number) const {
  const std::scoped_lock lock(mutex_);
  return strided_.at(number);
}

std::optional<std::uint64_t> ItemSource::place_of(std::uint64_t offset,
                                                  std::uint64_t length) const {
  const std::size_t number = items_->entry_at(offset);
  const std::uint64_t within = offset - items_->begin(number);
  if (within + length > entry(number).content_bytes) return std::nullopt;
  const std::uint64_t known = find_out(number);
  if (known == kStrided) return std::nullopt;
  return known - kFirstPlace + within;
}

void ItemSource::read_at(std::uint64_t offset, std::span<std::byte> out) const {
  read({offset, out});
}

void ItemSource::read(const ReadRequest& request) const {
  auto [offset, out, foreseen] = request;
  require_in_source(*this, offset, out.size());
  while (!out.empty()) {
    const std::size_t number = items_->entry_at(offset);
    const std::uint64_t within = offset - items_->begin(number);
    const auto part = out.first(static_cast<std::size_t>(
        std::min<std::uint64_t>(out.size(), entry(number).content_bytes - within)));
    const std::uint64_t known = find_out(number);
    if (known == kStrided) {
      read_strided(*file_, *strided(number),
                   {items_->first_in_place(number) + within, part, foreseen});
    } else {
      read_part(*file_, {known - kFirstPlace + within, part, foreseen});
    }
    offset += part.size();
    out = out.subspan(part.size());
  }
}

void ItemSource::read_many(std::span<const ReadRequest> parts) const {
  std::vector<ReadRequest> direct;
  for (const ReadRequest& part : parts) {
    if (part.out.empty()) continue;
    require_in_source(*this, part.offset, part.out.size());
    if (const auto place = place_of(part.offset, part.out.size())) {
      direct.push_back({*place, part.out, part.foreseen});
    } else {
      read(part);
    }
  }
  file_->read_many(direct);
}

/// Does not wait for an archive's directory: where it is not known yet, a little more than needed
/// is fetched.
void ItemSource::foresee(std::span<const ByteRange> ranges, Foresight when) const noexcept {
  if (!file_->is_far()) return;
  try {
    std::vector<ByteRange> there;
    for (const ByteRange& range : ranges) {
      if (range.empty() || range.end() > size()) continue;
      const std::size_t number = items_->entry_at(range.offset());
      const std::uint64_t within = range.offset() - items_->begin(number);
      const std::uint64_t known = known_[number].load(std::memory_order_acquire);
      const std::optional<ByteRange> place = items_->place(number);
      if (known >= kFirstPlace) {
        there.emplace_back(known - kFirstPlace + within, range.length());
        continue;
      }
      const std::uint64_t first = items_->first_in_place(number) + within;
      if (place && first < place->length()) {
        there.push_back(place->behind_first(first).first(range.length() + kUsualHead));
      }
    }
    file_->foresee(there, when);
  } catch (const std::exception&) {
    // A read of it reports the error.
  }
}

bool ItemSource::gather(const StridedRanges& ranges, std::byte* out) const {
  require_in_source(*this, ranges.span().offset(), ranges.span().length());
  const auto place = place_of(ranges.span().offset(), ranges.span().length());
  return place && file_->gather(ranges.moved_to(*place), out);
}

/// What the work throws of the file's content; empty if it does not. Nothing if the storage fails:
/// it may have the file the next time, or another replica.
template <typename Work>
std::optional<std::string> problem_in(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kChanged || error.kind() == ErrorKind::kInternal) throw;
    if (error.kind() == ErrorKind::kIo) return std::nullopt;
    return error.message();
  }
  return "";
}

}  // namespace

TorchItems::TorchItems(std::vector<TensorEntry> entries, BoxOffsets offsets,
                       std::vector<ByteRange> places, Runs runs)
    : places_(std::move(places)), runs_(std::move(runs)) {
  begins_.reserve(entries.size());
  for (TensorEntry& entry : entries) {
    begins_.push_back(size_);
    entry.content_bytes =
        mul_or_throw(static_cast<std::uint64_t>(element_count(entry.shape)),
                     static_cast<std::uint64_t>(element_size(entry.dtype)), "the size of a tensor");
    entry.extents.clear();
    if (entry.content_bytes > 0) entry.extents.emplace_back(size_, entry.content_bytes);
    size_ = add_or_throw(size_, entry.content_bytes, "the size of all tensors");
  }
  index_ = std::make_shared<const FileIndex>(std::move(entries), IndexHints{}, std::move(offsets));
  find_shared_places();
}

void TorchItems::find_shared_places() {
  std::vector<std::size_t> order(places_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t entry) {
    return std::tuple(places_[entry].offset(), places_[entry].length(), entry);
  };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return key(a) < key(b); });
  for (std::size_t first = 0; first < order.size();) {
    std::size_t behind = first + 1;
    while (behind < order.size() && places_[order[behind]] == places_[order[first]]) ++behind;
    for (std::size_t i = first; behind - first > 1 && i < behind; ++i) {
      shared_.emplace(order[i], shared_places_);
    }
    if (behind - first > 1) ++shared_places_;
    first = behind;
  }
}

std::optional<std::size_t> TorchItems::shared_place(std::size_t entry) const {
  const auto found = shared_.find(entry);
  if (found == shared_.end()) return std::nullopt;
  return found->second;
}

TorchItems::TorchItems(std::vector<TensorEntry> entries, BoxOffsets offsets,
                       std::vector<std::string> keys)
    : TorchItems(std::move(entries), std::move(offsets), std::vector<ByteRange>()) {
  keys_ = std::move(keys);
}

std::optional<ByteRange> TorchItems::place(std::size_t entry) const {
  if (places_.empty()) return std::nullopt;
  return places_[entry];
}

Shape TorchItems::stored_shape(std::size_t entry) const {
  const Shape& shape = index_->entries()[entry].shape;
  const auto run = runs_.find(entry);
  if (run == runs_.end()) return shape;
  Shape stored(run->second.is_flat ? 0 : shape.size(), 1);
  stored.push_back(run->second.elements);
  return stored;
}

std::uint64_t TorchItems::first_in_place(std::size_t entry) const {
  const auto run = runs_.find(entry);
  if (run == runs_.end()) return 0;
  return static_cast<std::uint64_t>(run->second.first * element_size(this->entry(entry).dtype));
}

std::vector<RefusedTensor> TorchItems::examine(const ByteSource& tensors, bool read_all) const {
  const auto& source = dynamic_cast<const ItemSource&>(tensors);
  const ByteSource& file = *source.file();
  const Readings& readings = source.readings();
  std::vector<RefusedTensor> refused;
  std::string unreadable;  // what is wrong with all of the file
  // One header has the places of all: a table that does not fit is found at once.
  read_all |= places_.empty();
  if (places_.empty()) {
    const auto problem = problem_in([&] { readings.named().read(file); });
    read_all = problem.has_value();
    unreadable = problem.value_or("");
  }
  // What cannot be read is not read again for each entry that is there.
  std::vector<std::optional<std::string>> of_shared(shared_places_);
  const auto problem_of = [&](std::size_t entry) {
    const auto read = [&] {
      return problem_in([&] { readings.tensor(*this, entry, file); }).value_or("");
    };
    const auto shared = shared_place(entry);
    if (!shared) return read();
    std::optional<std::string>& archive = of_shared[*shared];
    if (!archive) {
      archive = problem_in([&] { readings.read_shared(*this, entry, file); }).value_or("");
    }
    return archive->empty() ? read() : *archive;
  };
  for (std::size_t i = 0; i < begins_.size(); ++i) {
    if (entry(i).content_bytes == 0) continue;
    const std::optional<ByteRange> item = place(i);
    std::string problem = unreadable;
    if (item && item->end() > file.size()) {
      problem = "its place ends at byte " + std::to_string(item->end()) + ", but the file has " +
                std::to_string(file.size()) + " bytes";
    } else if (read_all && problem.empty()) {
      problem = problem_of(i);
    }
    if (problem.empty()) continue;
    refused.push_back({entry(i).name, "'" + printable(file.name()) + "': " + problem});
  }
  return refused;
}

std::vector<SavedArchives> TorchItems::archives(const ByteSource& tensors) const {
  const ByteSourcePtr& file = dynamic_cast<const ItemSource&>(tensors).file();
  if (places_.empty()) return {{file, {ByteRange::whole(file->size())}}};
  std::vector<ByteRange> places;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    // examine() refuses places outside the file.
    if (entry(i).content_bytes > 0 && places_[i].end() <= file->size())
      places.push_back(places_[i]);
  }
  return {{file, std::move(places)}};
}

ByteSourcePtr TorchItems::tensors(ByteSourcePtr file) const {
  return std::make_shared<const ItemSource>(shared_from_this(), std::move(file));
}

std::size_t TorchItems::entry_at(std::uint64_t offset) const {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), offset);
  return static_cast<std::size_t>(next - begins_.begin()) - 1;
}

}  // namespace reshardfs
