// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/deepspeed/module_copies.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "base/cast.h"
#include "base/process/parallel.h"
#include "base/text/text.h"
#include "storage/byte_source.h"

namespace reshardfs {
namespace {

constexpr std::size_t kWidest = 8;  // of an element

using Element = std::array<std::byte, kWidest>;

std::size_t width(DType dtype) {
  return static_cast<std::size_t>(element_size(dtype));
}

bool is_nan(DType dtype, const std::byte* element) {
  double value = 0;
  std::array<std::byte, sizeof(value)> wide{};
  cast_elements(dtype, element, DType::kFloat64, wide.data(), 1);
  std::memcpy(&value, wide.data(), sizeof(value));
  return std::isnan(value);
}

/// @param parameter of the type of the copy.
bool is_same(DType dtype, const std::byte* parameter, const std::byte* copy) {
  if (std::memcmp(parameter, copy, width(dtype)) == 0) return true;
  return is_nan(dtype, parameter) && is_nan(dtype, copy);
}

/// The two copies of an element.
struct End {
  const ModuleCopy* of = nullptr;
  std::size_t number = 0;
  Element parameter{};
  Element copy{};

  std::span<std::byte> stored() { return std::span(parameter).first(width(of->dtype)); }
  std::span<std::byte> second() { return std::span(copy).first(width(of->copy_dtype)); }
  std::uint64_t stored_at() const { return of->begin + number * width(of->dtype); }
  std::uint64_t second_at() const { return of->copy.offset() + number * width(of->copy_dtype); }

  bool differs() const {
    Element rounded{};
    cast_elements(of->dtype, parameter.data(), of->copy_dtype, rounded.data(), 1);
    return !is_same(of->copy_dtype, rounded.data(), copy.data());
  }
};

/// The first, the middle and the last element of what each file has of a parameter: a file of
/// another save differs in all of them, a row that a program has changed alone does not.
void add_ends_of(const JoinedSource& source, const ModuleCopy& copy, std::vector<End>& ends) {
  std::size_t first = 0;
  source.for_each_file(
      {copy.begin, copy.elements * width(copy.dtype)},
      [&](const ByteSource& /*file*/, std::uint64_t bytes) {
        const auto count = static_cast<std::size_t>(bytes) / width(copy.dtype);
        for (const std::size_t number : std::set<std::size_t>{0, count / 2, count - 1}) {
          if (count > 0) ends.push_back({&copy, first + number, {}, {}});
        }
        first += count;
      });
}

std::vector<End> read_ends(const JoinedSource& source, const std::vector<ModuleCopy>& copies) {
  std::vector<End> ends;
  for (const ModuleCopy& copy : copies) {
    if (copy.elements > 0) add_ends_of(source, copy, ends);
  }
  std::vector<ReadRequest> stored;
  std::map<std::size_t, std::vector<ReadRequest>> second;
  for (End& end : ends) {
    stored.push_back({end.stored_at(), end.stored()});
    second[end.of->file].push_back({end.second_at(), end.second()});
  }
  source.read_many(stored);
  for (const auto& [file, requests] : second) {
    source.files()[file]->read_many(requests);
    source.files()[file]->check_unchanged();
  }
  return ends;
}

/// The first element that differs, and how many do.
struct Difference {
  std::size_t first = 0;
  std::size_t count = 0;
};

Difference compare_all(const JoinedSource& source, const ModuleCopy& copy, Progress& progress) {
  constexpr std::size_t kBlock = 1U << 17U;  // elements
  const ByteSource& file = *source.files()[copy.file];
  std::vector<std::byte> stored(std::min(kBlock, copy.elements) * width(copy.dtype));
  std::vector<std::byte> second(std::min(kBlock, copy.elements) * width(copy.copy_dtype));
  std::vector<std::byte> rounded(second.size());
  Difference out;
  for (std::size_t done = 0; done < copy.elements;) {
    const std::size_t count = std::min(kBlock, copy.elements - done);
    const std::size_t size = width(copy.copy_dtype);
    const auto block = std::span(stored).first(count * width(copy.dtype));
    source.read_at(copy.begin + done * width(copy.dtype), block);
    file.read_at(copy.copy.offset() + done * size, std::span(second).first(count * size));
    cast_elements(copy.dtype, stored.data(), copy.copy_dtype, rounded.data(), count);
    if (std::memcmp(rounded.data(), second.data(), count * size) != 0) {
      for (std::size_t i = 0; i < count; ++i) {
        if (is_same(copy.copy_dtype, rounded.data() + i * size, second.data() + i * size)) continue;
        if (out.count++ == 0) out.first = done + i;
      }
    }
    progress.add_bytes(block.size() + count * size);
    done += count;
  }
  file.check_unchanged();
  return out;
}

}  // namespace

void ModuleCopies::add_ends(CopyEvidence& out) const {
  if (copies_.empty() || source_->is_far()) return;
  struct Count {
    std::size_t all = 0;
    std::size_t different = 0;
  };
  std::map<const ByteSource*, Count> files;
  for (const End& end : read_ends(*source_, copies_)) {
    const bool differs = end.differs();
    source_->for_each_file({end.stored_at(), width(end.of->dtype)},
                           [&](const ByteSource& file, std::uint64_t) {
                             ++files[&file].all;
                             files[&file].different += differs ? 1 : 0;
                           });
    ++out.elements;
    if (!differs) continue;
    ++out.different;
    if (out.differing.empty() || out.differing.back() != end.of->parameter) {
      out.differing.push_back(end.of->parameter);
    }
  }
  for (const ByteSourcePtr& file : source_->files()) {
    const auto count = files.find(file.get());
    if (!out.file.empty() || count == files.end()) continue;
    if (2 * count->second.different >= count->second.all) out.file = file->name();
  }
}

std::vector<Error> ModuleCopies::compare(const CopyQuestion& question) const {
  std::vector<const ModuleCopy*> taken;
  for (const ModuleCopy& copy : copies_) {
    if (question.takes && !question.takes(copy.parameter)) continue;
    taken.push_back(&copy);
    question.progress.expect_bytes(copy.elements * (width(copy.dtype) + width(copy.copy_dtype)));
  }
  std::vector<std::optional<Error>> found(taken.size());
  parallel_for(
      taken.size(),
      [&](std::size_t i) {
        const ModuleCopy& copy = *taken[i];
        const std::string& file = source_->files()[copy.file]->name();
        try {
          const Difference difference = compare_all(*source_, copy, question.progress);
          if (difference.count == 0) return;
          found[i] = Error(ErrorKind::kBadInput,
                           "'module' has " + counted(difference.count, "element") + " of " +
                               std::to_string(copy.elements) +
                               " that differ from the optimizer's, rounded, first at element (" +
                               std::to_string(difference.first) + "): not of one save")
                         .in_file(file)
                         .for_parameter(copy.parameter);
        } catch (Error& error) {
          found[i] = error.for_parameter(copy.parameter);
        }
      },
      question.threads);
  std::vector<Error> out;
  for (std::optional<Error>& error : found) {
    if (error) out.push_back(std::move(*error));
  }
  return out;
}

CopyEvidence take_copies(std::vector<ModuleCopies> copies, Discovery& out) {
  CopyEvidence evidence;
  for (const ModuleCopies& one : copies) one.add_ends(evidence);
  out.compare_copies = [copies = std::move(copies)](const CopyQuestion& question) {
    std::vector<Error> all;
    for (const ModuleCopies& one : copies) {
      for (Error& error : one.compare(question)) all.push_back(std::move(error));
    }
    return all;
  };
  return evidence;
}

}  // namespace reshardfs
