// SPDX-License-Identifier: Apache-2.0
#include "plan/source/packed_units.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/content_size.h"
#include "plan/target/shown_tensor.h"
#include "support/errors.h"
#include "support/sources.h"

namespace reshardfs::packed_units_tests {
namespace {

using test::expect_error;
using Random = std::mt19937;
using Partitions = std::vector<AxisPartition>;
using Index = std::vector<std::int64_t>;

std::int64_t from_to(Random& random, std::int64_t first, std::int64_t last) {
  return std::uniform_int_distribution<std::int64_t>(first, last)(random);
}

unsigned bits_of(DType dtype) {
  return static_cast<unsigned>(8 * element_size(dtype) / elements_per_unit(dtype));
}

/// The reference: elements one behind the other, each from the lowest bit that is free on.
std::string packed(const std::vector<unsigned>& elements, unsigned bits) {
  std::string out((elements.size() * bits + 7) / 8, '\0');
  for (std::size_t i = 0; i < elements.size(); ++i) {
    for (unsigned bit = 0; bit < bits; ++bit) {
      const std::size_t at = i * bits + bit;
      if ((elements[i] >> bit & 1U) != 0)
        out[at / 8] = static_cast<char>(out[at / 8] | 1 << at % 8);
    }
  }
  return out;
}

/// A tensor of packed elements, cut in every way that partitions can say.
struct Cut {
  Shape full;
  Partitions partitions;

  std::int64_t cells() const {
    std::int64_t count = 1;
    for (const AxisPartition& partition : partitions) count *= partition.parts();
    return count;
  }
  Index parts_of(std::int64_t cell) const {
    Index parts(full.size());
    for (std::size_t d = full.size(); d-- > 0;) {
      parts[d] = cell % partitions[d].parts();
      cell /= partitions[d].parts();
    }
    return parts;
  }
  Shape shape_of(std::int64_t cell) const {
    const Index parts = parts_of(cell);
    Shape shape;
    for (std::size_t d = 0; d < full.size(); ++d) {
      shape.push_back(partitions[d].part_length(parts[d]));
    }
    return shape;
  }
  /// Of an element of the full tensor: its cell, and its place in that.
  std::pair<std::int64_t, std::int64_t> place_of(std::int64_t flat) const {
    Index index(full.size());
    for (std::size_t d = full.size(); d-- > 0;) {
      index[d] = flat % full[d];
      flat /= full[d];
    }
    std::int64_t cell = 0;
    std::int64_t place = 0;
    for (std::size_t d = 0; d < full.size(); ++d) {
      const AxisInterval interval = partitions[d].locate(index[d]);
      cell = cell * partitions[d].parts() + interval.part;
      place = place * partitions[d].part_length(interval.part) + interval.local_begin + index[d] -
              interval.begin;
    }
    return {cell, place};
  }
  /// The elements of each cell.
  std::vector<std::vector<unsigned>> divided(const std::vector<unsigned>& elements) const {
    std::vector<std::map<std::int64_t, unsigned>> placed(static_cast<std::size_t>(cells()));
    for (std::size_t i = 0; i < elements.size(); ++i) {
      const auto [cell, place] = place_of(static_cast<std::int64_t>(i));
      placed[static_cast<std::size_t>(cell)][place] = elements[i];
    }
    std::vector<std::vector<unsigned>> out;
    for (const auto& cell : placed) {
      out.emplace_back();
      for (const auto& [place, element] : cell) out.back().push_back(element);
    }
    return out;
  }
  /// Whether each group of elements that fills bytes is in one cell.
  bool is_on_bytes(std::int64_t per_unit) const {
    for (std::int64_t i = 0; i < element_count(full); ++i) {
      if (place_of(i).first != place_of(i - i % per_unit).first) return false;
    }
    return true;
  }
};

AxisPartition random_partition(Random& random, std::int64_t size) {
  if (size == 1 || from_to(random, 0, 2) == 0) return AxisPartition::even(size, 1);
  std::vector<std::int64_t> divisors;
  for (std::int64_t parts = 2; parts <= size; ++parts) {
    if (size % parts == 0) divisors.push_back(parts);
  }
  const std::int64_t parts = divisors[static_cast<std::size_t>(
      from_to(random, 0, static_cast<std::int64_t>(divisors.size()) - 1))];
  switch (from_to(random, 0, 2)) {
    case 0:
      return AxisPartition::even(size, parts);
    case 1: {
      const std::int64_t first = from_to(random, 1, size - 1);
      return AxisPartition::of_lengths({first, size - first});
    }
    default: {
      std::int64_t fields = 1;
      for (std::int64_t n = 2; n * parts <= size; ++n) {
        if (size % (n * parts) == 0) fields = n;
      }
      return AxisPartition::by_field(size, fields, parts);
    }
  }
}

Cut random_cut(Random& random, const Shape& full) {
  Cut cut{full, {}};
  for (const std::int64_t size : full) cut.partitions.push_back(random_partition(random, size));
  return cut;
}

Shape random_shape(Random& random, std::int64_t per_unit) {
  while (true) {
    Shape shape(static_cast<std::size_t>(from_to(random, 1, 4)));
    for (std::int64_t& size : shape) size = from_to(random, 1, 8);
    if (element_count(shape) % per_unit == 0) return shape;
  }
}

struct Files {
  std::vector<std::unique_ptr<RankFile>> files;
  std::shared_ptr<CellPattern> pattern = std::make_shared<CellPattern>();
  std::vector<const TensorEntry*> entries;
};

Files files_of(const Cut& cut, const std::vector<unsigned>& elements, DType dtype) {
  Files out;
  out.pattern->full_shape = cut.full;
  out.pattern->partitions = cut.partitions;
  const auto cells = cut.divided(elements);
  for (std::size_t cell = 0; cell < cells.size(); ++cell) {
    TensorEntry entry;
    entry.name = "w";
    entry.dtype = dtype;
    entry.shape = cut.shape_of(static_cast<std::int64_t>(cell));
    const std::string bytes = packed(cells[cell], bits_of(dtype));
    entry.content_bytes = bytes.size();
    if (!bytes.empty()) entry.extents.emplace_back(4, bytes.size());
    auto& file = *out.files.emplace_back(std::make_unique<RankFile>());
    file.source = std::make_shared<test::MemorySource>("head" + bytes + "tail");
    file.index = std::make_shared<const FileIndex>(std::vector{entry});
    out.pattern->files.push_back(&file);
    out.entries.push_back(&file.index->entries().front());
  }
  return out;
}

std::string read(const ShownTensor& view, std::uint64_t offset, std::uint64_t length) {
  std::string out(length, '?');
  ReadBatch batch;
  view.read(offset, std::as_writable_bytes(std::span(out)), batch);
  batch.check();
  return out;
}

void compare_cell(Random& random, const ShownTensor& view, const std::string& expected) {
  ASSERT_EQ(view.size(), expected.size());
  EXPECT_EQ(read(view, 0, view.size()), expected);
  if (expected.empty()) return;
  const auto last = static_cast<std::int64_t>(expected.size());
  const auto begin = static_cast<std::size_t>(from_to(random, 0, last));
  const auto count =
      static_cast<std::size_t>(from_to(random, 0, last - static_cast<std::int64_t>(begin)));
  EXPECT_EQ(read(view, begin, count), expected.substr(begin, count));
  std::uint64_t bytes = 0;
  view.for_each_cell([&](const Holding&, std::uint64_t of_cell) { bytes += of_cell; });
  EXPECT_EQ(bytes, expected.size());
}

TEST(PackedUnits, AreReadAsAReferenceHasThemOrRefused) {
  Random random(1);  // NOLINT(cert-msc32-c,cert-msc51-cpp): the same every time
  int read_cuts = 0;
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    const DType dtype =
        std::vector{DType::kFloat4E2M1, DType::kFloat6E2M3,
                    DType::kFloat6E3M2}[static_cast<std::size_t>(from_to(random, 0, 2))];
    const std::int64_t per_unit = elements_per_unit(dtype);
    const Shape full = random_shape(random, per_unit);
    std::vector<unsigned> elements(static_cast<std::size_t>(element_count(full)));
    for (unsigned& element : elements)
      element = static_cast<unsigned>(from_to(random, 0, (1 << bits_of(dtype)) - 1));
    const Cut source = random_cut(random, full);
    const Cut target = random_cut(random, full);
    SCOPED_TRACE(to_string(full) + " " + std::to_string(round));
    const PackedUnits units(full, dtype);
    const bool source_fits = source.is_on_bytes(per_unit);
    if (!source_fits || !target.is_on_bytes(per_unit)) {
      ++refused;
      expect_error(ErrorKind::kUnsupported, {"share bytes", "inside of a byte", "dimension"},
                   [&] { units.of((source_fits ? target : source).partitions); });
      continue;
    }
    ++read_cuts;
    const Files files = files_of(source, elements, dtype);
    const auto grid = std::make_shared<const CellGrid>(files.pattern, files.entries);
    const auto expected = target.divided(elements);
    for (std::int64_t cell = 0; cell < target.cells(); ++cell) {
      const ShownTensor view(grid, target.partitions, target.parts_of(cell));
      EXPECT_EQ(view.shape(), target.shape_of(cell));
      EXPECT_EQ(&view.grid(), grid.get());
      compare_cell(random, view, packed(expected[static_cast<std::size_t>(cell)], bits_of(dtype)));
    }
    compare_cell(random, ShownTensor(grid), packed(elements, bits_of(dtype)));
  }
  EXPECT_GT(read_cuts, 300);
  EXPECT_GT(refused, 300);
}

TEST(PackedUnits, NameWhatFits) {
  const PackedUnits rows({4, 3}, DType::kFloat4E2M1);
  EXPECT_EQ(rows.full_shape(), Shape{6});
  expect_error(ErrorKind::kUnsupported,
               {"Float4E2M1", "dimension 0 of [4, 3] is cut at 1, inside of a byte",
                "it can be cut at multiples of 2"},
               [&] {
                 rows.of({AxisPartition::even(4, 4), AxisPartition::even(3, 1)});
               });
  expect_error(ErrorKind::kUnsupported,
               {"dimension 1 of [4, 3]", "cut dimension 0 at multiples of 2"}, [&] {
                 rows.of({AxisPartition::even(4, 1), AxisPartition::even(3, 3)});
               });
  const PackedUnits columns({2, 4, 8}, DType::kFloat6E3M2);
  EXPECT_EQ(columns.full_shape(), (Shape{2, 4, 2}));
  expect_error(ErrorKind::kUnsupported, {"dimension 2", "cut at 2", "multiples of 4"}, [&] {
    columns.of({AxisPartition::even(2, 2), AxisPartition::even(4, 4), AxisPartition::even(8, 4)});
  });
  expect_error(ErrorKind::kUnsupported, {"[3]", "do not fill whole bytes"},
               [] { PackedUnits({3}, DType::kFloat4E2M1); });
}

TEST(PackedUnits, OfBoxes) {
  const PackedUnits units({4, 8}, DType::kFloat4E2M1);
  EXPECT_EQ(units.of(Box{{1, 2}, {2, 4}}), (Box{{1, 1}, {2, 2}}));
  expect_error(ErrorKind::kUnsupported, {"dimension 1", "cut at 3"}, [&] {
    units.of(Box{{1, 3}, {2, 4}});
  });
  expect_error(ErrorKind::kUnsupported, {"dimension 1", "cut at 5"}, [&] {
    units.of(Box{{1, 2}, {2, 3}});
  });
}

TEST(PackedUnits, WithoutElementsCanBeCutAnywhere) {
  const PackedUnits units({3, 0}, DType::kFloat6E2M3);
  EXPECT_EQ(units.of({AxisPartition::even(3, 3), AxisPartition::even(0, 5)}).size(), 2U);
  EXPECT_EQ(content_size({3, 0}, DType::kFloat6E2M3, "size"), 0);
}

}  // namespace
}  // namespace reshardfs::packed_units_tests
