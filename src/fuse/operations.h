// SPDX-License-Identifier: Apache-2.0
/// All that the kernel may ask of a mount. What is not here libfuse answers as it should be where
/// there is no state to keep (forget, flush), or with ENOSYS.
///
/// Each function answers its request exactly once: at once, or later through ServedTree::storage.
/// - What may wait goes to the storage queue, so that it can be killed and keeps no thread from
///   answering others. That is everything whose effort is not Effort::kNone, pending directories,
///   and looks whether a source that changes has changed.
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

/// Waits for a pending directory; in one that changes, for a look if there is no such name; and for
/// the size of a file whose text is made. A name that does not exist is an entry without a number.
void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) noexcept;
/// Waits for the size of a file whose text is made; otherwise answered from memory.
void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept;
/// Waits for a look: a link is read to be followed to where it leads now.
void readlink(fuse_req_t request, fuse_ino_t inode) noexcept;
/// Waits for a pending directory. Of one that changes the opening holds a generation, in info->fh.
void opendir(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept;
/// Waits for a look where a listing of a directory that changes begins.
void readdir(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
             fuse_file_info* info) noexcept;
void readdirplus(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
                 fuse_file_info* info) noexcept;
/// Never waits.
void releasedir(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept;

// --- files: file_operations.cpp ----------------------------------------------------------------

/// Waits for a text that is made, which the opening then holds, in info->fh; and, with passthrough,
/// to find out whether a source file equals the file. EROFS for anything but reading.
void open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept;
/// Never waits; what the kernel has read past this process is checked afterwards.
void release(fuse_req_t request, fuse_ino_t inode, fuse_file_info* info) noexcept;
/// Waits for sources, and for texts that are made. All bytes that the file has in the range, or an
/// error: the kernel would take fewer for the end of the file, and shrink it.
void read(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
          fuse_file_info* info) noexcept;

// --- extended attributes: attribute_operations.cpp ---------------------------------------------

/// Waits for sources where the attribute is not listed. ENODATA for names that are not ours.
void getxattr(fuse_req_t request, fuse_ino_t inode, const char* name, std::size_t size) noexcept;
/// Never waits.
void listxattr(fuse_req_t request, fuse_ino_t inode, std::size_t size) noexcept;

}  // namespace ops
}  // namespace reshardfs
