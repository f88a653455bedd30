// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_zip_tensors.h"

#include <string>
#include <string_view>
#include <utility>

#include "reshardfs/error.h"

#include "format/torch/pickle_globals.h"
#include "format/torch/pickle_tree.h"
#include "format/torch/torch_tensor.h"
#include "format/torch/torch_values.h"
#include "format/torch/torch_zip.h"

namespace reshardfs {
namespace {

/// How long the data.pkl of one tensor may be.
constexpr std::uint64_t kMostBytesOfOne = 1ULL << 20U;

class TensorReader {
 public:
  /// @param most how long its data.pkl may be.
  TensorReader(const ByteSource& source, const ByteRange& place, std::uint64_t most)
      : source_(source),
        place_(place),
        zip_(source, place),
        at_(zip_.entry("data.pkl").offset()),
        tree_(read_pickle(most)),
        values_(
            tree_, [this](std::string_view key) { return zip_.entry("data/" + std::string(key)); },
            TorchValues::Views::kInStorage) {}

  TorchTensor read_one() const { return tensor(tree_.root()); }

  std::vector<TorchTensor> read_all(const std::function<bool(std::string_view)>& takes) const {
    if (!tree_.root().is(PickleKind::kDict)) refuse("it should be a dictionary of tensors");
    std::vector<TorchTensor> tensors;
    tree_.for_each_pair(tree_.root(), [&](PickleValue key, PickleValue value) {
      const auto name = tree_.text(key);
      if (!name) refuse("the name of a tensor should be text");
      if (takes && !takes(*name)) return true;
      tensors.push_back(tensor(value));
      tensors.back().name = *name;
      return true;
    });
    return tensors;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, ErrorKind kind = ErrorKind::kBadInput) const {
    throw Error(kind, "the archive here has no tensor that can be read: " + what)
        .in_file(source_.name())
        .at_offset(place_.offset());
  }

  PickleTree read_pickle(std::uint64_t most) const {
    std::string bytes = zip_.read("data.pkl", most);
    try {
      PickleTree tree(std::move(bytes), pickle::kArchiveRules);
      require_one_type_each(tree);
      return tree;
    } catch (const Error& error) {
      throw Error(error.kind(), error.message())
          .in_file(source_.name())
          .at_offset(at_ + error.offset().value_or(0));
    }
  }

  TorchTensor tensor(PickleValue value) const {
    try {
      return values_.tensor(value);
    } catch (const Error& error) {
      if (!error.file().empty()) throw;
      refuse(error.message(), error.kind());
    }
  }

  const ByteSource& source_;
  ByteRange place_;
  TorchZip zip_;
  std::uint64_t at_;  ///< of data.pkl, in the source
  PickleTree tree_;
  TorchValues values_;
};

}  // namespace

TorchTensor read_torch_tensor(const ByteSource& source, const ByteRange& place) {
  return TensorReader(source, place, kMostBytesOfOne).read_one();
}

std::vector<TorchTensor> read_torch_tensors(const ByteSource& source, const ByteRange& place,
                                            const std::function<bool(std::string_view)>& takes) {
  return TensorReader(source, place, kMostSavedPickle).read_all(takes);
}

}  // namespace reshardfs
