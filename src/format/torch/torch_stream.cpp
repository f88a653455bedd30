// SPDX-License-Identifier: Apache-2.0
#include "format/torch/torch_stream.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>

#include "reshardfs/error.h"

#include "base/checked.h"
#include "format/torch/pickle_globals.h"
#include "format/torch/pickle_reader.h"
#include "format/torch/torch_tensor.h"
#include "format/torch/torch_values.h"

using namespace std::string_view_literals;

namespace reshardfs {
namespace {

/// LONG1 of the number with which the format begins, 0x1950a86a20f9469cfc6c: torch/serialization.py
constexpr std::string_view kMagic = "\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv;
constexpr std::int64_t kStreamVersion = 1001;
constexpr std::uint64_t kFirstBytes = 64ULL << 10U;
constexpr std::uint64_t kCountBytes = 8;

class StreamReader {
 public:
  explicit StreamReader(const ByteSource& source) : source_(source) {}

  TorchStream read() {
    next_pickle();  // the number, which was looked at before
    const auto version = next_pickle();
    if (version->integer(version->root()) != kStreamVersion) {
      refuse("the version of its format is not 1001");
    }
    const auto system = next_pickle();
    const PickleValue little = system->find(system->root(), "little_endian");
    if (little == PickleValue(PickleKind::kBool, 0)) {
      throw Error(ErrorKind::kUnsupported, "was saved on a big-endian machine")
          .in_file(source_.name())
          .hint("save it again on a little-endian machine");
    }
    TorchStream out;
    out.tree = next_pickle();
    find_storages(*out.tree);
    const auto keys = next_pickle();
    if (!keys->root().is(PickleKind::kList)) refuse("it does not list its storages");
    keys->for_each(keys->root(), [&](PickleValue key) {
      const auto text = keys->text(key);
      const auto size = text ? sizes_.find(*text) : sizes_.end();
      if (size == sizes_.end()) refuse("it lists a storage that no tensor has");
      take_storage(size->first, size->second, out);
      return true;
    });
    return out;
  }

 private:
  struct Size {
    std::int64_t count = 0;
    std::int64_t width = 0;
  };

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::kBadInput, "is not a file of torch.save here: " + what)
        .in_file(source_.name())
        .at_offset(at_);
  }

  /// Its length is known only when it has been read.
  std::unique_ptr<const PickleTree> next_pickle() {
    const std::uint64_t left = source_.size() - at_;
    for (std::uint64_t length = std::min(left, kFirstBytes);;) {
      std::string bytes(static_cast<std::size_t>(length), '\0');
      source_.read_at(at_, std::as_writable_bytes(std::span(bytes)));
      try {
        auto tree = std::make_unique<const PickleTree>(std::move(bytes), pickle::kSavedRules);
        at_ += tree->consumed();
        return tree;
      } catch (const PickleCutOff& error) {
        if (length == left || length == kMostSavedPickle) {
          throw Error(error.kind(), "is cut off: " + error.message())
              .in_file(source_.name())
              .at_offset(at_ + error.offset().value_or(0));
        }
      } catch (const Error& error) {
        throw Error(error.kind(), error.message())
            .in_file(source_.name())
            .at_offset(at_ + error.offset().value_or(0));
      }
      length = std::min({left, 8 * length, kMostSavedPickle});
    }
  }

  void find_storages(const PickleTree& tree) {
    tree.for_each_persistent([&](PickleValue value) {
      const auto id = tree.tuple(tree.arguments(value));
      if (!id.empty() && tree.text(id[0]) == "module") return;  // the text of a class
      try {
        const TorchStorageId storage = storage_id(tree, value);
        const Size size{storage.count, storage_width(storage.storage_class)};
        const auto [known, is_new] = sizes_.emplace(storage.key, size);
        if (!is_new && (known->second.count != size.count || known->second.width != size.width)) {
          refuse("two tensors state different sizes of one storage");
        }
      } catch (const Error& error) {
        throw Error(error.kind(), "has a storage that cannot be passed over: " + error.message())
            .in_file(source_.name());
      }
    });
  }

  /// The number of its elements, and these.
  void take_storage(const std::string& key, const Size& size, TorchStream& out) {
    std::array<std::byte, kCountBytes> count{};
    if (source_.size() - at_ < count.size()) refuse_end(key);
    source_.read_at(at_, count);
    std::int64_t elements = 0;
    std::memcpy(&elements, count.data(), sizeof elements);
    if (elements != size.count) {
      refuse("storage " + key + " has " + std::to_string(elements) + " elements, should have " +
             std::to_string(size.count));
    }
    at_ += kCountBytes;
    const auto bytes = checked_mul(size.count, size.width);
    if (!bytes || static_cast<std::uint64_t>(*bytes) > source_.size() - at_) refuse_end(key);
    const ByteRange place(at_, static_cast<std::uint64_t>(*bytes));
    if (!out.storages.emplace(key, place).second) refuse("storage " + key + " is there twice");
    at_ = place.end();
  }

  [[noreturn]] void refuse_end(const std::string& key) const {
    throw Error(ErrorKind::kBadInput, "is cut off in storage " + key + " of its tensors")
        .in_file(source_.name())
        .at_offset(at_)
        .hint("copy it again");
  }

  const ByteSource& source_;
  std::uint64_t at_ = 0;
  std::map<std::string, Size, std::less<>> sizes_;
};

}  // namespace

bool is_torch_stream(std::string_view begin) noexcept {
  constexpr std::size_t kProtocolBytes = 2;
  constexpr std::size_t kFrameBytes = 9;
  if (begin.size() < kProtocolBytes || begin.front() != '\x80') return false;
  begin.remove_prefix(kProtocolBytes);
  if (begin.size() > kFrameBytes && begin.front() == '\x95') begin.remove_prefix(kFrameBytes);
  return begin.starts_with(kMagic);
}

TorchStream read_torch_stream(const ByteSource& source) {
  return StreamReader(source).read();
}

}  // namespace reshardfs
