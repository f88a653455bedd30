// SPDX-License-Identifier: Apache-2.0
#include "transport/curl_library.h"

#include <array>
#include <memory>
#include <string>

#include <dlfcn.h>

#include "reshardfs/error.h"

#include "base/process/process_state.h"

namespace reshardfs {
namespace {

constexpr const char* kHint = "install libcurl (Debian's package is libcurl4)";

/// Both have one interface; they differ in their TLS library.
constexpr std::array kNames{"libcurl.so.4", "libcurl-gnutls.so.4"};

void* open_library() {
  for (const char* name : kNames) {
    // It stays: threads of its own may run until the process ends.
    void* const library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (library != nullptr) return library;
  }
  throw Error(ErrorKind::kUnsupported, "reading a URL needs libcurl, which is not installed")
      .hint(kHint);
}

template <typename Function>
void find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(::dlsym(library, name));
  if (out != nullptr) return;
  throw Error(ErrorKind::kUnsupported, "libcurl has no " + std::string(name) + ": it is too old")
      .hint(kHint);
}

CurlLibrary* load(const CurlLibrary* /*before*/) {
  void* const library = open_library();
  auto loaded = std::make_unique<CurlLibrary>();
  CurlLibrary& out = *loaded;
  find(library, "curl_easy_init", out.easy_init);
  find(library, "curl_easy_cleanup", out.easy_cleanup);
  find(library, "curl_easy_perform", out.easy_perform);
  find(library, "curl_easy_reset", out.easy_reset);
  find(library, "curl_easy_setopt", out.easy_setopt);
  find(library, "curl_easy_getinfo", out.easy_getinfo);
  find(library, "curl_easy_strerror", out.easy_strerror);
  find(library, "curl_easy_escape", out.easy_escape);
  find(library, "curl_multi_init", out.multi_init);
  find(library, "curl_multi_add_handle", out.multi_add_handle);
  find(library, "curl_multi_remove_handle", out.multi_remove_handle);
  find(library, "curl_multi_perform", out.multi_perform);
  find(library, "curl_multi_poll", out.multi_poll);
  find(library, "curl_multi_wakeup", out.multi_wakeup);
  find(library, "curl_multi_info_read", out.multi_info_read);
  find(library, "curl_multi_setopt", out.multi_setopt);
  find(library, "curl_multi_strerror", out.multi_strerror);
  find(library, "curl_slist_append", out.slist_append);
  find(library, "curl_slist_free_all", out.slist_free_all);
  find(library, "curl_url", out.url);
  find(library, "curl_url_cleanup", out.url_cleanup);
  find(library, "curl_url_set", out.url_set);
  find(library, "curl_url_get", out.url_get);
  find(library, "curl_free", out.free);
  find(library, "curl_getdate", out.getdate);
  decltype(&::curl_global_init) global_init = nullptr;
  find(library, "curl_global_init", global_init);
  if (global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
    throw Error(ErrorKind::kIo, "libcurl cannot be initialised");
  }
  return loaded.release();
}

ProcessState<CurlLibrary> the_library("libcurl", load);

}  // namespace

const CurlLibrary& curl_library() {
  return the_library.get();
}

}  // namespace reshardfs
