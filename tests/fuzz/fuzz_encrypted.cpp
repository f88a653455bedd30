// SPDX-License-Identifier: Apache-2.0
#include "format/encrypted/encrypted.h"
#include "format/encrypted/encrypted_blocks.h"
#include "fuzz/fuzzing.h"
#include "support/sources.h"
#include "unit/format/encrypted_samples.h"

using namespace reshardfs;

namespace {

constexpr std::size_t kBlock = 64;
constexpr std::size_t kMostBytes = 4096;
const std::string kKey = "a key of 16 byte";

/// Reads all of it, a part first.
std::string read_all(const ByteSource& source) {
  std::string bytes(source.size(), '\0');
  const auto out = std::as_writable_bytes(std::span(bytes));
  source.read_at(bytes.size() / 2, out.subspan(bytes.size() / 2));
  source.read_at(0, out);
  return bytes;
}

}  // namespace

/// Even first byte: the rest is a file. Odd: the rest is encrypted, and changed in places; in mode
/// AES-GCM that is noticed, or harmless.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4 || size > kMostBytes) return 0;
  static const std::vector<std::string> modes{"AES-GCM", "AES-CBC", "SM4-CBC"};
  static const std::vector<std::shared_ptr<const Decryption>> keys{
      test::key_of(modes[0], kKey), test::key_of(modes[1], kKey), test::key_of(modes[2], kKey)};
  const std::size_t mode = data[0] / 2 % modes.size();
  const std::string rest(reinterpret_cast<const char*>(data) + 4, size - 4);
  const bool whole = data[0] % 2 == 1;
  std::string file = rest;
  if (whole) {
    file = test::encrypt(modes[mode], kKey, rest, kBlock);
    if (data[1] != 0 && !file.empty()) {
      file[(data[2] | data[3] << 8U) % file.size()] ^= static_cast<char>(data[1]);
    }
  }
  fuzz::may_refuse([&] {
    const ByteSourcePtr plain =
        decrypt_blocks(std::make_shared<test::MemorySource>(file), keys[mode], kBlock);
    const std::string bytes = read_all(*plain);
    if (whole && (mode == 0 || data[1] == 0)) {
      fuzz::require(bytes == rest, "other bytes than were encrypted");
    }
  });
  return 0;
}
