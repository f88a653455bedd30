// SPDX-License-Identifier: Apache-2.0
/// The operations that the kernel may request of a mount. libfuse answers all others: with success
/// if there is no state to keep (forget, flush), or with ENOSYS.
///
/// Each function answers its request exactly once: at once, or later through ServedTree::storage.
/// - Work that may wait goes to the storage queue, so that it can be killed and does not keep
///   threads from answering others. This is everything whose effort is not Effort::kNone, pending
///   and deferred directories, and checks whether a changing source has changed.
/// - Everything else is answered on the thread that took the request, from memory.
/// - Nothing throws. A failure is logged with the file's path, and its errno is the answer.
/// - An inode number may be of a generation that is gone: ESTALE, on which the kernel walks the
///   path again to see what is there now.
#pragma once

#include "fuse/libfuse.h"
#include "fuse/served_tree.h"

namespace reshardfs {

/// For fuse_session_new(), with a ServedTree as user data.
const fuse_lowlevel_ops& operations();

namespace ops {

/// The connection: agrees on capabilities and limits, and notes that there is one.
void init(void* served, fuse_conn_info* connection) noexcept;
/// Never waits. Sizes of the whole tree.
void statfs(fuse_req_t request, fuse_ino_t inode) noexcept;

// --- names: directory_operations.cpp -----------------------------------------------------------

/// Waits for a pending or deferred directory; for a check of a changing directory if the name is
/// unknown; and for the size of a file whose text is made. A name that does not exist gets an entry
/// without an inode number.
void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) noexcept;
/// Waits for the size of a file whose text is made; otherwise answered from memory.
void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept;
/// Waits for a check of the source, so that the link leads to the present target.
void readlink(fuse_req_t request, fuse_ino_t inode) noexcept;
/// Waits for a pending or deferred directory. The opening of a changing directory holds a
/// generation, in info->fh.
void opendir(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept;
/// Waits for a check of the source when a listing of a changing directory begins.
void readdir(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
             fuse_file_info* info) noexcept;
void readdirplus(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
                 fuse_file_info* info) noexcept;
/// Never waits.
void releasedir(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept;

// --- files: file_operations.cpp ----------------------------------------------------------------

/// Makes an OpenFile, to be found by info->fh. Waits for a text that is made, which the opening
/// then holds; and, with passthrough, to find out whether a source file equals the file. EROFS for
/// anything but reading.
void open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept;
/// Never waits; what the kernel has read past this process is checked afterwards.
void release(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept;
/// Waits for sources, and for texts that are made. Returns all bytes of the file in the range, or
/// an error: the kernel would take fewer bytes for the end of the file, and shrink it.
void read(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
          fuse_file_info* info) noexcept;

// --- extended attributes: attribute_operations.cpp ---------------------------------------------

/// Waits for sources if the attribute is not listed. ENODATA for foreign names.
void getxattr(fuse_req_t request, fuse_ino_t inode, const char* name, std::size_t size) noexcept;
/// Never waits.
void listxattr(fuse_req_t request, fuse_ino_t inode, std::size_t size) noexcept;

}  // namespace ops
}  // namespace reshardfs
