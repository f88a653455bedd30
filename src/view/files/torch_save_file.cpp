// SPDX-License-Identifier: Apache-2.0
#include "view/files/torch_save_file.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "base/byte_range.h"
#include "plan/target/target_table.h"
#include "view/files/recent_texts.h"

namespace reshardfs {

namespace {

/// Parameters with the same have the same bytes.
struct Place {
  const void* of = nullptr;   ///< the file, or what a parameter that is joined is made of
  const void* cut = nullptr;  ///< how it is cut; nullptr for a place in a file
  std::vector<std::pair<std::uint64_t, std::uint64_t>> extents{};  ///< in the file
  ContentEncoding encoding = ContentEncoding::kPlain;
  DType stored = DType::kFloat32;
  DType through = DType::kFloat32;
  DType shown = DType::kFloat32;

  bool operator<(const Place& other) const { return tied() < other.tied(); }

 private:
  std::tuple<const void*, const void*, const std::vector<std::pair<std::uint64_t, std::uint64_t>>&,
             ContentEncoding, DType, DType, DType>
  tied() const {
    return {of, cut, extents, encoding, stored, through, shown};
  }
};

/// `of` is nullptr where nothing is known.
Place place_of(const TargetTable& target, Rank rank, const TargetParameter& parameter) {
  Place place;
  place.through = parameter.source->dtype;
  place.shown = parameter.dtype;
  const Holding holding = target.view(parameter, rank).whole_cell();
  if (!holding) {
    place.of = parameter.grid.get();
    if (parameter.treatment == Treatment::kReshard) place.cut = parameter.stages;
    if (parameter.grid) place.stored = parameter.grid->dtype();
    return place;
  }
  place.of = holding.file;
  place.encoding = holding.entry->encoding;
  place.stored = holding.entry->dtype;
  for (const ByteRange& extent : holding.entry->extents) {
    place.extents.emplace_back(extent.offset(), extent.end());
  }
  return place;
}

/// The number of each parameter's storage in a file of torch.save; see SavedTensor::storage.
/// Parameters share one if the source itself has one place for both, or a map makes both of one
/// tensor: tied weights. Bytes are not compared.
/// @param parameters arrays that the rank has.
std::vector<std::size_t> shared_storages(const TargetTable& target, Rank rank,
                                         std::span<const TargetParameter* const> parameters) {
  std::vector<std::size_t> storages;
  storages.reserve(parameters.size());
  std::map<Place, std::size_t> known;
  std::size_t count = 0;
  for (const TargetParameter* parameter : parameters) {
    const bool is_empty = element_count(target.slice_shape(*parameter, rank)) == 0;
    Place place = is_empty ? Place() : place_of(target, rank, *parameter);
    std::size_t storage = count;
    if (place.of != nullptr) storage = known.try_emplace(std::move(place), count).first->second;
    if (storage == count) ++count;
    storages.push_back(storage);
  }
  return storages;
}

}  // namespace

TorchSaveFile::TorchSaveFile(std::shared_ptr<const TargetTable> table, Rank own_rank,
                             std::vector<const TargetParameter*> parameters, bool checksums)
    : PartedFile(std::move(table), own_rank),
      parameters_(std::move(parameters)),
      storages_(shared_storages(target(), rank(), parameters_)),
      checksums_(checksums) {
  set_size(frame().file_bytes());
}

TorchSaveFile::~TorchSaveFile() {
  recent_texts().forget(this);
  recent_texts().forget(&begins_);
}

std::shared_ptr<const ByteSource> TorchSaveFile::equal_source() const {
  return checksums_ ? nullptr : PartedFile::equal_source();
}

/// Made for the size and again for readers: those of all ranks would take much memory.
TorchSaveFrame TorchSaveFile::frame() const {
  std::vector<SavedTensor> tensors;
  tensors.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const TargetParameter& parameter = *parameters_[i];
    tensors.push_back(
        {parameter.name, parameter.dtype, target().slice_shape(parameter, rank()), storages_[i]});
  }
  return TorchSaveFrame(tensors);
}

std::vector<PartedFile::Stretch> TorchSaveFile::stretches() const {
  const TorchSaveFrame made = frame();
  const std::size_t count = made.storage_count();
  begins_.clear();
  contents_.clear();
  for (std::size_t i = 0; i < count; ++i) {
    begins_.push_back(made.begin(i));
    contents_.push_back(made.content(i));
  }
  begins_.push_back(made.begin(count));
  if (checksums_) {
    const std::lock_guard lock(known_mutex_);
    known_.resize(count);
  }
  // A header is apart from the bytes behind it, which its checksum needs.
  std::vector<Stretch> stretches{{0, kFrame}};
  std::size_t next = 0;
  for (std::size_t i = 0; i < storages_.size(); ++i) {
    if (storages_[i] != next) continue;
    stretches.push_back({begins_[next], kFrame});
    if (!contents_[next].empty()) stretches.push_back({contents_[next].offset(), i});
    ++next;
  }
  stretches.push_back({begins_.back(), kFrame});
  stretches.shrink_to_fit();
  return stretches;
}

void TorchSaveFile::append_to(FileImage& image, std::size_t number) const {
  const TargetParameter& parameter = *parameters_[number];
  image.append({target().view(parameter, rank()), parameter.source->dtype, parameter.dtype});
}

/// Of the head, the header of a storage, or the directory.
void TorchSaveFile::read_frame(std::uint64_t offset, std::span<std::byte> out) const {
  const auto copy = [&](const std::string& text, std::uint64_t begin) {
    std::memcpy(out.data(), text.data() + (offset - begin), out.size());
  };
  if (offset < begins_.front()) {
    copy(*recent_texts().get(this, [this] { return frame().head(); }), 0);
  } else if (offset >= begins_.back()) {
    copy(*recent_texts().get(&begins_, [this] { return tail(); }), begins_.back());
  } else {
    const auto behind = std::upper_bound(begins_.begin(), begins_.end(), offset);
    const auto storage = static_cast<std::size_t>(behind - begins_.begin()) - 1;
    copy(header_of(storage), begins_[storage]);
  }
}

std::string TorchSaveFile::header_of(std::size_t storage) const {
  return torch_storage_header(storage, contents_[storage].length(), begins_[storage],
                              checksum_of(storage));
}

std::string TorchSaveFile::tail() const {
  std::vector<std::uint32_t> checksums;
  if (checksums_) {
    for (std::size_t i = 0; i < contents_.size(); ++i) checksums.push_back(checksum_of(i));
  }
  return frame().tail(checksums);
}

std::uint32_t TorchSaveFile::checksum_of(std::size_t storage) const {
  if (!checksums_) return 0;
  {
    const std::lock_guard lock(known_mutex_);
    if (known_[storage]) return *known_[storage];
  }
  std::uint32_t sum = 0;
  for_each_block(*this, contents_[storage], [&](std::span<const std::byte> bytes) {
    sum = zip_checksum({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, sum);
  });
  const std::lock_guard lock(known_mutex_);
  known_[storage] = sum;
  return sum;
}

}  // namespace reshardfs
