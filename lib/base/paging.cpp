// SPDX-License-Identifier: MIT OR Apache-2.0
// Huge pages and NUMA nodes. Any thread.
#include <base/first_line.hpp>
#include <base/paging.hpp>

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <new>

namespace lend {

namespace {

constexpr unsigned bits_of_2m = 21;
constexpr unsigned bits_of_1g = 30;
constexpr std::size_t huge = std::size_t{1} << bits_of_2m;
constexpr unsigned size_shift = 26;   // Source: mmap(2), MAP_HUGE_SHIFT; memfd_create(2)
constexpr unsigned nodes_max = 1024;  // as Linux has at most, CONFIG_NODES_SHIFT
constexpr char const* nodes_path = "/sys/devices/system/node/online";

// Newer than some headers. Source: Linux include/uapi/asm-generic/mman-common.h.
constexpr int populate_for_writing = 23;  // MADV_POPULATE_WRITE, since 5.14
constexpr int collapse = 25;              // MADV_COLLAPSE, since 6.1

std::string pool_path(Pages pages, std::optional<std::uint32_t> node) {
  std::string const root =
      node ? "/sys/devices/system/node/node" + std::to_string(*node) : "/sys/kernel/mm";
  return root + "/hugepages/hugepages-" + std::to_string(bytes_of(pages) / 1024) + "kB";
}

/// The kernel's setting for which memory gets transparent pages.
std::string switch_path(bool is_file) {
  std::string const root = "/sys/kernel/mm/transparent_hugepage/";
  std::string const name = is_file ? "shmem_enabled" : "enabled";
  // One of each size since 6.8 and 6.11. Source: Linux Documentation/admin-guide/mm/transhuge.rst.
  auto const own = root + "hugepages-2048kB/" + name;
  auto const set = base::first_line_of(own);
  return set.empty() || set.find("[inherit]") != set.npos ? root + name : own;
}

bool are_switched_off(bool is_file) {
  auto const set = base::first_line_of(switch_path(is_file));
  return set.empty() || set.find("[never]") != set.npos || set.find("[deny]") != set.npos;
}

int bind_to(void* address, std::size_t length, std::uint32_t node) noexcept {
  if (node >= nodes_max) return EINVAL;
  constexpr unsigned word = std::numeric_limits<unsigned long>::digits;
  unsigned long nodes[nodes_max / word] = {};
  nodes[node / word] = 1ul << node % word;
  // One more than there are bits. Source: Linux mm/mempolicy.c, get_nodes().
  return ::syscall(SYS_mbind, address, length, MPOL_BIND, nodes, nodes_max + 1ul, 0u) == 0 ? 0
                                                                                           : errno;
}

/// 0, also on kernels without it: there pages come at the first touch.
int populate(void* address, std::size_t length) noexcept {
  if (::madvise(address, length, populate_for_writing) == 0 || errno == EINVAL) return 0;
  return errno == EFAULT ? ENOMEM : errno;  // it would have been SIGBUS. Source: madvise(2)
}

int join(void* address, std::size_t length, bool is_file) {
  bool const is_off = are_switched_off(is_file);
  if (is_off && !is_file) return EOPNOTSUPP;  // joining these explicitly is not worth the copy
  if (!is_off) (void)::madvise(address, length, MADV_HUGEPAGE);
  if (auto const error = populate(address, length); error != 0) return error;
  // Memory files need no permission for it, see madvise(2); what is joined already stays so.
  auto const whole = length / huge * huge;
  bool const is_joined = whole == 0 || ::madvise(address, whole, collapse) == 0;
  return is_off && !is_joined ? EOPNOTSUPP : 0;
}

}  // namespace

std::string_view name_of(Pages pages) noexcept {
  switch (pages) {
    case Pages::normal: return "normal";
    case Pages::transparent: return "transparent";
    case Pages::huge_2m: return "2 MiB";
    case Pages::huge_1g: return "1 GiB";
    case Pages::prefer_huge: return "preferably huge";
  }
  return "unknown";
}

std::size_t bytes_of(Pages pages) noexcept {
  switch (pages) {
    case Pages::normal:
    case Pages::transparent: return 4096;
    case Pages::huge_2m: return std::size_t{1} << bits_of_2m;
    case Pages::huge_1g: return std::size_t{1} << bits_of_1g;
    case Pages::prefer_huge: return 0;
  }
  return 0;
}

std::size_t base::whole_pages(std::size_t length, Pages pages) noexcept {
  auto const mask = bytes_of(pages) - 1;
  return length > std::numeric_limits<std::size_t>::max() - mask ? 0 : (length + mask) & ~mask;
}

unsigned base::size_flag(Pages pages) noexcept {
  return !is_reserved(pages) ? 0
                             : (pages == Pages::huge_2m ? bits_of_2m : bits_of_1g) << size_shift;
}

void* base::map_pages(int file, std::size_t length, Pages pages) noexcept try {
  int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
  void* wish = nullptr;
  if (is_reserved(pages)) {
    if (::access(pool_path(pages, {}).c_str(), F_OK) != 0) {
      errno = EOPNOTSUPP;
      return nullptr;
    }
    if (file < 0) flags |= MAP_HUGETLB | static_cast<int>(size_flag(pages));
  } else if (length >= huge && length <= std::numeric_limits<std::size_t>::max() - huge) {
    // This place was free just now. If another thread takes it, only the alignment is lost.
    void* const found = ::mmap(nullptr, length + huge, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (found != MAP_FAILED) {
      ::munmap(found, length + huge);
      wish = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(found) + huge - 1) / huge *
                                     huge);
    }
  }
  void* const address = ::mmap(wish, length, PROT_READ | PROT_WRITE, flags, file, 0);
  return address == MAP_FAILED ? nullptr : address;
} catch (std::bad_alloc const&) {
  errno = ENOMEM;
  return nullptr;
}

int base::settle_pages(void* address, std::size_t length, AllocationOptions const& options,
                       bool is_file) noexcept try {
  if (options.node)
    if (auto const error = bind_to(address, length, *options.node); error != 0) return error;
  if (options.pages == Pages::normal) return 0;
  return options.pages == Pages::transparent ? join(address, length, is_file)
                                             : populate(address, length);
} catch (std::bad_alloc const&) {
  return ENOMEM;
}

std::string base::paging_remedy(std::size_t length, AllocationOptions const& options, bool is_file,
                                int errno_value) {
  auto const& [pages, node] = options;
  std::string const where = node ? " on node " + std::to_string(*node) : std::string{};
  if (node && errno_value == EINVAL)
    return "NUMA node " + std::to_string(*node) + " does not exist, or not for this process; " +
           nodes_path + " lists " + base::first_line_of(nodes_path) + '.';
  if (node && errno_value == EPERM)
    return "A sandbox forbids mbind(2): give the container CAP_SYS_NICE, or leave out the node.";
  if (node && errno_value == ENOSYS) return "This kernel has no NUMA support: leave out the node.";
  if (pages == Pages::transparent && errno_value == EOPNOTSUPP)
    return "Transparent huge pages are disabled: write \"" +
           std::string{is_file ? "advise" : "madvise"} + "\" to " + switch_path(is_file) +
           ", or ask for other pages.";
  if (!is_reserved(pages)) return {};
  std::string const size{name_of(pages)};
  if (errno_value == EOPNOTSUPP)
    return "This machine has no pages of " + size + ": ask for other pages.";
  if (errno_value != ENOMEM) return {};
  auto const pool = pool_path(pages, node);
  auto const free = base::first_line_of(pool + "/free_hugepages");
  return std::to_string(whole_pages(length, pages) / bytes_of(pages)) + " pages of " + size +
         " are needed and " + (free.empty() ? "none" : free) + " of " +
         base::first_line_of(pool + "/nr_hugepages") + " are free" + where +
         ": reserve more, as root, by " +
         (pages == Pages::huge_2m && !node ? "`sysctl vm.nr_hugepages=N`, or writing to "
                                           : "writing to ") +
         pool + "/nr_hugepages; or ask for Pages::prefer_huge.";
}

}  // namespace lend
