// SPDX-License-Identifier: Apache-2.0
/// Writes encrypted files as MindSpore does, of blocks of any size. Shares no code with src/format.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>

#include <openssl/evp.h>

#include "format/encrypted/encrypted.h"
#include "storage/byte_source.h"
#include "support/temp_dir.h"

namespace reshardfs::test {

inline std::string little_endian(std::uint64_t value) {
  std::string out;
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>(value >> shift & 0xff);
  return out;
}

inline std::string encrypt_block(const std::string& mode, const std::string& key,
                                 const std::string& plain, unsigned number) {
  const bool gcm = mode == "AES-GCM";
  const std::string name =
      mode == "SM4-CBC" ? mode : "AES-" + std::to_string(key.size() * 8) + "-" + mode.substr(4);
  std::string iv;
  for (unsigned i = 0; i < 16; ++i) iv += static_cast<char>(17 * number + 31 * i + 5);
  const auto data = [](const std::string& text) {
    return reinterpret_cast<const unsigned char*>(text.data());
  };
  std::string cipher(plain.size() + 16, '\0');
  std::string tag(gcm ? 16 : 0, '\0');
  auto* const out = reinterpret_cast<unsigned char*>(cipher.data());
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  int first = 0;
  int last = 0;
  bool good = EVP_EncryptInit_ex(context, EVP_get_cipherbyname(name.c_str()), nullptr, nullptr,
                                 nullptr) == 1;
  if (gcm) good &= EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_IVLEN, 12, nullptr) == 1;
  good &= EVP_EncryptInit_ex(context, nullptr, nullptr, data(key), data(iv)) == 1;
  good &= EVP_EncryptUpdate(context, out, &first, data(plain), static_cast<int>(plain.size())) == 1;
  good &= EVP_EncryptFinal_ex(context, out + first, &last) == 1;
  if (gcm) good &= EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag.data()) == 1;
  EVP_CIPHER_CTX_free(context);
  if (!good) throw std::runtime_error("OpenSSL cannot encrypt with " + name);
  cipher.resize(static_cast<std::size_t>(first + last));
  const std::uint64_t magic = gcm ? 0x7F3A5ED8 : mode == "AES-CBC" ? 0x7F3A5ED9 : 0x7F3A5EDA;
  return little_endian(magic) + tag + little_endian(24 + cipher.size()) + little_endian(16) + iv +
         little_endian(cipher.size()) + cipher;
}

inline std::string encrypt(const std::string& mode, const std::string& key,
                           const std::string& plain, std::size_t block_bytes) {
  std::string file;
  for (std::size_t at = 0; at < plain.size(); at += block_bytes) {
    file += encrypt_block(mode, key, plain.substr(at, block_bytes),
                          static_cast<unsigned>(at / block_bytes));
  }
  return file;
}

inline std::shared_ptr<const Decryption> key_of(const std::string& mode, const std::string& key) {
  static std::map<std::string, std::shared_ptr<const Decryption>> known;
  auto& found = known[mode + ":" + key];
  if (!found) {
    const TempDir dir;
    found = Decryption::load(dir.write("key", key), mode);
  }
  return found;
}

inline std::string read_text(const ByteSource& source, std::uint64_t offset, std::size_t count) {
  std::string text(count, '\0');
  source.read_at(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

inline std::string read_whole(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot open " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace reshardfs::test
