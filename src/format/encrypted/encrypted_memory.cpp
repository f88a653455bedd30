// SPDX-License-Identifier: Apache-2.0
#include "format/encrypted/encrypted_memory.h"

#include <sys/mman.h>

#include <new>
#include <utility>

#include <openssl/crypto.h>

namespace reshardfs {

// Pages of its own: advice and locks go by pages, and must not touch a neighbour's.
SecretBuffer::SecretBuffer(std::size_t bytes, Swap swap) : size_(bytes), mapped_(bytes) {
  if (bytes == 0) return;
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  data_ = static_cast<std::byte*>(pages);
  // Both may be refused (old kernels, limits); then it is ordinary memory.
  (void)::madvise(pages, bytes, MADV_DONTDUMP);
  if (swap == Swap::kAvoided) (void)::mlock(pages, bytes);
}

SecretBuffer::SecretBuffer(SecretBuffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      size_(std::exchange(other.size_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

SecretBuffer::~SecretBuffer() {
  if (data_ == nullptr) return;
  OPENSSL_cleanse(data_, size_);
  ::munmap(data_, mapped_);
}

void SecretBuffer::shrink(std::size_t bytes) noexcept {
  if (bytes >= size_) return;
  OPENSSL_cleanse(data_ + bytes, size_ - bytes);
  size_ = bytes;
}

}  // namespace reshardfs
