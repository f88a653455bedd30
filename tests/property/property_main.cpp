// SPDX-License-Identifier: Apache-2.0
/// The property test: random checkpoints under random pairs of strategies. Every destination file
/// must equal the full tensors cut by the naive model, whatever is read of it and in which order,
/// and converting back must give the source again. The same tensors are saved in random boxes, too,
/// as torch.distributed.checkpoint does.
///
/// Then something is taken away, or an option selects nothing: the program must still show the
/// right bytes, or refuse with a message that names what is missing and says what to do.
///
///   property [--pairs N] [--seed N] [--tensors N]
///
/// A pair is one tensor with its source and destination layout.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "reshardfs/conversion.h"
#include "reshardfs/error.h"

#include "dcp_files.h"
#include "doubtful_set.h"
#include "mindspore_files.h"
#include "naive.h"
#include "random_set.h"

namespace property {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::uint64_t pairs = 600;
  std::uint64_t seed = 1;
  std::uint64_t tensors = 20;  ///< in each set
};

[[noreturn]] void fail(const std::string& message) {
  throw std::runtime_error(message);
}

/// A directory in TMPDIR, or in memory where possible, removed at the end.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    const bool in_memory = std::getenv("TMPDIR") == nullptr && fs::is_directory("/dev/shm");
    const fs::path parent = in_memory ? fs::path("/dev/shm") : fs::temp_directory_path();
    std::string pattern = (parent / "reshardfs-property-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) fail("cannot make a temporary directory");
    path_ = pattern;
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::string read_range(const reshardfs::VirtualFile& file, std::uint64_t offset,
                       std::size_t length) {
  std::string out(length, '\x55');
  file.read_at(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

std::string describe(const naive::Layout& layout) {
  const auto list = [](const auto& numbers) {
    std::string out;
    for (const auto number : numbers) out += (out.empty() ? "" : ",") + std::to_string(number);
    return "[" + out + "]";
  };
  std::string map;
  for (const auto& axes : layout.tensor_map) map += list(axes);
  std::string text =
      list(layout.device_matrix) + " map " + map + " opt " + std::to_string(layout.optimizer_size);
  if (layout.fields > 1) text += " fields " + std::to_string(layout.fields);
  for (const naive::Split& split : layout.splits) {
    text += split.balanced ? " balanced" : " lengths " + list(split.lengths);
  }
  return text;
}

std::string describe(const Side& side, const std::string& name) {
  std::string out;
  for (std::size_t stage = 0; stage < side.stages.size(); ++stage) {
    const auto found = side.stages[stage].find(name);
    if (found == side.stages[stage].end()) continue;
    out += " stage " + std::to_string(stage) + " " + describe(found->second);
  }
  if (side.none) return " none";
  return (side.rules ? " by rules" : "") + out;
}

bool names_one(const std::string& text, const std::vector<std::string>& names) {
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return text.find(name) != std::string::npos ||
           text.find(reshardfs::printable(name)) != std::string::npos;
  });
}

bool says(const std::vector<std::string>& lines, const std::vector<std::string>& names) {
  return std::any_of(lines.begin(), lines.end(),
                     [&](const std::string& line) { return names_one(line, names); });
}

/// Compares a whole file with what it must hold, and then pieces of it with the whole.
void check_file(const reshardfs::VirtualFile& file, const Records& expected, Random& random) {
  const std::string whole = read_range(file, 0, file.size());
  Records found;
  for (auto& [name, record] : decode(whole)) {
    if (!found.emplace(name, std::move(record)).second) fail("'" + name + "' appears twice");
  }
  for (const auto& [name, record] : expected) {
    const auto it = found.find(name);
    if (it == found.end()) fail("'" + name + "' is missing");
    // MindSpore's converter turns Int4, which is held as Int8 anyway, into that.
    const std::string type = record.type == "Int4" ? "Int8" : record.type;
    if (it->second.type != type) fail("'" + name + "' has type " + it->second.type);
    if (it->second.shape != record.shape) fail("'" + name + "' has another shape");
    if (it->second.content != record.content) fail("'" + name + "' has other bytes");
    found.erase(it);
  }
  if (!found.empty()) fail("'" + found.begin()->first + "' does not belong there");
  for (int i = 0; i < 16; ++i) {
    const auto size = static_cast<std::int64_t>(whole.size());
    const auto offset = pick(random, 0, size);
    const auto longest = std::min<std::int64_t>(size - offset, i % 2 == 0 ? 40 : size);
    const auto length = static_cast<std::size_t>(pick(random, 0, longest));
    const auto from = static_cast<std::uint64_t>(offset);
    if (read_range(file, from, length) != whole.substr(from, length)) {
      fail("reading " + std::to_string(length) + " bytes at " + std::to_string(offset) +
           " differs from reading all");
    }
  }
}

/// Each byte must come from the lowest rank that has it, and none from any other.
void check_traffic(const RandomSet& set, const reshardfs::Conversion& conversion) {
  std::map<std::string, std::vector<std::int64_t>> lowest;
  for (const Tensor& tensor : set.laid) lowest[tensor.name] = owners(tensor, set.src);
  for (std::int64_t rank = 0; rank < set.dst.target_count(); ++rank) {
    std::map<std::int64_t, std::uint64_t> expected;
    for (const Tensor& tensor : set.unlaid) expected[0] += tensor.full.content.size();
    for (const Tensor& tensor : set.laid) {
      const auto held = held_on(tensor, set.dst, rank);
      if (!held) continue;
      for (const std::size_t element : naive::elements_of(tensor.full.shape, *held)) {
        expected[lowest[tensor.name][element]] += tensor.element_size;
      }
    }
    std::map<std::int64_t, std::uint64_t> found;
    for (const auto& source : conversion.traffic(reshardfs::Rank(rank))) {
      found[source.rank.number()] = source.bytes;
    }
    if (found == expected) continue;
    std::string text = "traffic of rank " + std::to_string(rank) + ":";
    for (const auto& [from, bytes] : found) {
      text += " " + std::to_string(from) + ":" + std::to_string(bytes);
    }
    text += ", expected";
    for (const auto& [from, bytes] : expected) {
      text += " " + std::to_string(from) + ":" + std::to_string(bytes);
    }
    fail(text);
  }
}

/// Checks all files of a conversion against one side of the set.
/// @param left_out the tensor that none of them has.
void check_conversion(const RandomSet& set, const Side& side,
                      const reshardfs::Conversion& conversion, Random& random,
                      const std::optional<std::string>& left_out = std::nullopt) {
  const std::int64_t ranks = side.target_count();
  if (conversion.rank_count() != ranks) fail(std::to_string(conversion.rank_count()) + " ranks");
  std::map<std::string, Records> expected;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::string number = std::to_string(rank);
    expected["rank_" + number + "/checkpoint_" + number + ".ckpt"] = rank_records(set, side, rank);
  }
  Records& merged = expected["merged/checkpoint_merged.ckpt"];
  for (const Tensor& tensor : set.laid) merged[tensor.name] = tensor.full;
  for (const Tensor& tensor : set.unlaid) merged[tensor.name] = tensor.full;
  for (auto& [path, records] : expected) {
    if (left_out) records.erase(*left_out);
  }
  for (const auto& output : conversion.files()) {
    const auto found = expected.find(output.path);
    if (found == expected.end()) continue;  // other views of the same tensors
    try {
      check_file(*output.file, found->second, random);
    } catch (const std::exception& error) {
      fail(output.path + ": " + error.what());
    }
    expected.erase(found);
  }
  // The whole model cannot be shown without one of its tensors; a warning says so.
  if (left_out && says(conversion.warnings(), {"no merged file"})) {
    expected.erase("merged/checkpoint_merged.ckpt");
  }
  if (!expected.empty()) fail("no file " + expected.begin()->first);
}

void export_ranks(const reshardfs::Conversion& conversion, const fs::path& directory) {
  for (const auto& output : conversion.files()) {
    if (!output.path.starts_with("rank_")) continue;
    const fs::path path = directory / fs::path(output.path).parent_path() / "back-1_7.ckpt";
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << read_range(*output.file, 0, output.file->size());
  }
}

void run_set(const RandomSet& set, Random& random) {
  const ScratchDirectory scratch;
  write_source(set, set.src, scratch.path() / "src", random);
  reshardfs::ConversionOptions options;
  options.source.path = scratch.path() / "src";
  options.source.allow_unmatched = true;  // rules for layers that a random set may not have
  options.source.strategy = write_strategy(set.src, scratch.path() / "src_strategy", random);
  options.dst_strategy = write_strategy(set.dst, scratch.path() / "dst_strategy", random);
  // Rules lay out what no layout of MindSpore's knows: learning_rate, ...
  if (set.src.rules || set.dst.rules) options.unmatched = reshardfs::Unmatched::kReplicate;
  const auto forth = reshardfs::Conversion::open(options);
  check_conversion(set, set.dst, forth, random);
  check_traffic(set, forth);

  export_ranks(forth, scratch.path() / "back");
  options.source.path = scratch.path() / "back";
  std::swap(options.source.strategy, options.dst_strategy);
  const auto back = reshardfs::Conversion::open(options);
  try {
    check_conversion(set, set.src, back, random);
  } catch (const std::exception& error) {
    fail(std::string("converted back: ") + error.what());
  }
}

/// The arrays of a set, in boxes.
std::vector<DcpTensor> boxed(const RandomSet& set, Random& random) {
  std::vector<DcpTensor> tensors;
  for (const std::vector<Tensor>* list : {&set.laid, &set.unlaid}) {
    for (const Tensor& tensor : *list) {
      if (tensor.full.type == "str") continue;
      tensors.push_back({tensor.name, tensor.full.type, tensor.element_size, tensor.full.shape,
                         tensor.full.content, random_boxes(random, tensor.full.shape)});
    }
  }
  return tensors;
}

void run_boxes(RandomSet set, Random& random) {
  const ScratchDirectory scratch;
  write_dcp(boxed(set, random), scratch.path() / "dcp", random);
  // What is no array is none of its tensors.
  std::erase_if(set.unlaid, [](const Tensor& tensor) { return tensor.full.type == "str"; });
  reshardfs::ConversionOptions options;
  options.source.path = scratch.path() / "dcp";
  options.source.allow_unmatched = true;
  options.dst_strategy = write_strategy(set.dst, scratch.path() / "dst_strategy", random);
  options.unmatched = reshardfs::Unmatched::kReplicate;
  options.formats = {reshardfs::OutputFormat::kCkpt};
  const auto conversion = reshardfs::Conversion::open(options);
  try {
    check_conversion(set, set.dst, conversion, random);
  } catch (const std::exception& error) {
    fail(std::string("from boxes: ") + error.what());
  }
}

/// How often the program has answered in which way.
using Answers = std::map<std::string, std::uint64_t>;

/// A message without the numbers and names in it.
std::string kind_of(const std::string& message) {
  std::string out;
  bool is_quoted = false;
  for (const char c : message) {
    if (c == '\'') is_quoted = !is_quoted;
    if (is_quoted || (c >= '0' && c <= '9')) continue;
    out += c;
  }
  return out.substr(0, 60);
}

void check_doubt(const RandomSet& set, const Doubt& doubt,
                 const reshardfs::ConversionOptions& options, Random& random, Answers& answers) {
  try {
    const auto conversion = reshardfs::Conversion::open(options);
    const bool leaves_out =
        doubt.may_leave_out &&
        (doubt.is_listed_nowhere || says(conversion.warnings(), {*doubt.may_leave_out}) ||
         says(conversion.notes(), {*doubt.may_leave_out}));
    try {
      check_conversion(set, set.dst, conversion, random,
                       leaves_out ? doubt.may_leave_out : std::nullopt);
    } catch (const std::runtime_error& error) {
      if (doubt.undecidable) return;
      std::string text = error.what();
      for (const std::string& warning : conversion.warnings()) text += "\n  warned: " + warning;
      throw std::runtime_error(text);
    }
    if (!doubt.may_serve) fail("is served without a word");
    ++answers[doubt.kind + (leaves_out ? ": left out with a warning" : ": right bytes")];
  } catch (const reshardfs::Error& error) {
    if (!doubt.may_refuse) fail(std::string("is refused: ") + error.what());
    if (!names_one(error.what(), doubt.names)) {
      fail(std::string("is refused without a name: ") + error.what());
    }
    if (error.hint().empty() && doubt.kind != "a truncated file")
      fail(std::string("is refused without a hint: ") + error.what());
    ++answers[doubt.kind + ": refused: " + kind_of(error.message())];
  }
}

void run_doubt(const RandomSet& set, Random& random, Answers& answers) {
  const ScratchDirectory scratch;
  write_source(set, set.src, scratch.path() / "src", random);
  reshardfs::ConversionOptions options;
  options.source.path = scratch.path() / "src";
  options.source.allow_unmatched = true;  // rules for layers that a random set may not have
  options.source.strategy = write_strategy(set.src, scratch.path() / "src_strategy", random);
  options.dst_strategy = write_strategy(set.dst, scratch.path() / "dst_strategy", random);
  if (set.src.rules || set.dst.rules) options.unmatched = reshardfs::Unmatched::kReplicate;
  const Doubt doubt = cast_doubt(set, scratch.path(), options, random);
  try {
    check_doubt(set, doubt, options, random, answers);
  } catch (const std::exception& error) {
    fail(doubt.what + ": " + error.what());
  }
}

/// What is known of the set in which something failed; the tensor's layouts if one is named.
void report(const RandomSet& set, const Arguments& arguments, std::uint64_t seed,
            const char* what) {
  std::fprintf(stderr, "FAILED: %s\n  %lld x %zu to %lld x %zu ranks\n", what,
               static_cast<long long>(set.src.devices), set.src.stages.size(),
               static_cast<long long>(set.dst.devices), set.dst.stages.size());
  const std::string text = what;
  for (const Tensor& tensor : set.laid) {
    if (text.find("'" + tensor.name + "'") == std::string::npos) continue;
    std::string shape;
    for (const std::int64_t length : tensor.full.shape) shape += " " + std::to_string(length);
    std::fprintf(stderr, "  %s: %s of%s;%s to%s\n", tensor.name.c_str(), tensor.full.type.c_str(),
                 shape.c_str(), describe(set.src, tensor.name).c_str(),
                 describe(set.dst, tensor.name).c_str());
  }
  std::fprintf(stderr, "  again with: --seed %llu --pairs 1 --tensors %llu\n",
               static_cast<unsigned long long>(seed),
               static_cast<unsigned long long>(arguments.tensors));
}

Arguments parse(std::span<char*> words) {
  Arguments out;
  for (std::size_t i = 1; i < words.size(); i += 2) {
    const std::string name = words[i];
    if (i + 1 == words.size()) fail(name + " needs a number");
    const std::uint64_t number = std::stoull(words[i + 1]);
    if (name == "--pairs") {
      out.pairs = number;
    } else if (name == "--seed") {
      out.seed = number;
    } else if (name == "--tensors") {
      out.tensors = number;
    } else {
      fail("unknown option " + name);
    }
  }
  return out;
}

/// Set number k of a run uses the seed + k, so that one failed set can be run again alone.
int run(const Arguments& arguments) {
  std::printf("seed %llu\n", static_cast<unsigned long long>(arguments.seed));
  std::uint64_t pairs = 0;
  std::uint64_t failures = 0;
  Answers answers;
  for (std::uint64_t seed = arguments.seed; pairs < arguments.pairs; ++seed) {
    Random random(seed);
    const RandomSet set = make_random_set(random, arguments.tensors);
    try {
      run_set(set, random);
      run_boxes(set, random);
      run_doubt(set, random, answers);
    } catch (const std::exception& error) {
      report(set, arguments, seed, error.what());
      if (++failures == 10) break;
    }
    pairs += set.laid.size();
  }
  for (const auto& [answer, count] : answers) {
    std::printf("%8llu %s\n", static_cast<unsigned long long>(count), answer.c_str());
  }
  std::printf("%llu pairs, %llu failed sets\n", static_cast<unsigned long long>(pairs),
              static_cast<unsigned long long>(failures));
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace property

int main(int argc, char** argv) {
  try {
    return property::run(property::parse({argv, static_cast<std::size_t>(argc)}));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
