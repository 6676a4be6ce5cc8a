/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cuda-counts.h"
#include "fake-cuda-internal.h"
#include "fake-cuda-legacy.h"

#include <cstdlib>
#include <cstring>
#include <map>
#include <sys/mman.h>

/* Memory of the emulated device, and page-locked memory of the host. */

#define DEVICE_ADDRESSES ((size_t) 1 << 36)
#define GRANULE ((size_t) 4096)

static std::mutex memory_lock;
static char *device_memory; /* [DEVICE_ADDRESSES] of addresses */
static std::map<char *, size_t> blocks, pinned;
static size_t n_used;
static unsigned n_open; /* streams that run: the memory can be touched while there are any */
static bool is_closed = true;
static uint64_t n_allocated, fail_from;

static void
reserve_memory (void)
{
  if (device_memory != nullptr)
    return;
  device_memory =
      (char *) mmap (nullptr, DEVICE_ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (device_memory == MAP_FAILED)
    abort ();
}

static void
protect (int how)
{
  for (const auto &block : blocks)
    mprotect (block.first, block.second, how);
}

void
fake_cuda_open_memory (void)
{
  std::lock_guard<std::mutex> guard (memory_lock);
  if (n_open++ == 0 && is_closed)
    protect (PROT_READ | PROT_WRITE), is_closed = false;
}

/* Changing the protection of much memory takes long, so that later only one time in a few does it. */
void
fake_cuda_close_memory (void)
{
  static uint64_t n_closed;
  std::lock_guard<std::mutex> guard (memory_lock);
  if (--n_open == 0 && (n_closed++ < 64 || n_closed % 16 == 0))
    protect (PROT_NONE), is_closed = true;
}

bool
fake_cuda_is_device (const void *address)
{
  return device_memory != nullptr && (const char *) address >= device_memory &&
         (const char *) address < device_memory + DEVICE_ADDRESSES;
}

bool
fake_cuda_is_pinned (const void *address)
{
  std::lock_guard<std::mutex> guard (memory_lock);
  auto after = pinned.upper_bound ((char *) address);
  return after != pinned.begin () && (--after, (const char *) address < after->first + after->second);
}

size_t
fake_cuda_get_total (void)
{
  return (size_t) fake_cuda_get_setting ("ORTRAIN_FAKE_CUDA_MEMORY", (uint64_t) 8 << 30);
}

static bool
is_failing (void)
{
  const uint64_t limit = fake_cuda_get_setting ("ORTRAIN_FAKE_CUDA_FAIL", UINT64_MAX);
  if (limit != fail_from)
    n_allocated = 0;
  fail_from = limit;
  return ++n_allocated >= limit;
}

cudaError_t
cudaMalloc (void **address, size_t n_bytes)
{
  if (fake_cuda_check_capture () != cudaSuccess)
    return cudaErrorStreamCaptureUnsupported;
  if (fake_cuda_get_sticky () != cudaSuccess)
    return fake_cuda_report (fake_cuda_get_sticky ());
  COUNT (n_allocations);
  std::lock_guard<std::mutex> guard (memory_lock);
  reserve_memory ();
  const size_t size = (n_bytes + GRANULE - 1) / GRANULE * GRANULE;
  if (is_failing () || fake_cuda_device != 0 || n_bytes == 0 || size < n_bytes ||
      n_used + size > fake_cuda_get_total ())
    return fake_cuda_report (cudaErrorMemoryAllocation);
  char *at = device_memory + GRANULE;
  for (const auto &block : blocks)
    {
      if ((size_t) (block.first - at) >= size + GRANULE)
        break;
      at = block.first + block.second + GRANULE; /* a page between blocks */
    }
  if (at + size > device_memory + DEVICE_ADDRESSES)
    return fake_cuda_report (cudaErrorMemoryAllocation);
  blocks[at] = size;
  n_used += size;
  /* what nobody has written is NaN */
  mprotect (at, size, PROT_READ | PROT_WRITE);
  memset (at, 0xff, size < ((size_t) 1 << 20) ? size : (size_t) 1 << 20);
  mprotect (at, size, is_closed ? PROT_NONE : PROT_READ | PROT_WRITE);
  *address = at;
  return cudaSuccess;
}

cudaError_t
cudaFree (void *address)
{
  if (address == nullptr)
    return cudaSuccess;
  if (fake_cuda_check_capture () != cudaSuccess)
    return cudaErrorStreamCaptureUnsupported;
  fake_cuda_run_legacy (); /* as the device's, it waits for what runs */
  std::lock_guard<std::mutex> guard (memory_lock);
  const auto found = blocks.find ((char *) address);
  if (found == blocks.end ())
    return fake_cuda_report (cudaErrorInvalidValue);
  madvise (address, found->second, MADV_DONTNEED);
  mprotect (address, found->second, PROT_NONE);
  n_used -= found->second;
  blocks.erase (found);
  return fake_cuda_get_sticky ();
}

cudaError_t
cudaHostAlloc (void **address, size_t n_bytes, unsigned int flags)
{
  const size_t size = (n_bytes + GRANULE - 1) / GRANULE * GRANULE;
  *address = mmap (nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (*address == MAP_FAILED)
    return fake_cuda_report (cudaErrorMemoryAllocation);
  std::lock_guard<std::mutex> guard (memory_lock);
  pinned[(char *) *address] = size;
  return cudaSuccess;
}

cudaError_t
cudaFreeHost (void *address)
{
  std::lock_guard<std::mutex> guard (memory_lock);
  const auto found = pinned.find ((char *) address);
  if (found == pinned.end ())
    return fake_cuda_report (cudaErrorInvalidValue);
  munmap (address, found->second);
  pinned.erase (found);
  return cudaSuccess;
}

cudaError_t
cudaPointerGetAttributes (struct cudaPointerAttributes *attributes, const void *address)
{
  *attributes = {};
  attributes->type = fake_cuda_is_device (address)   ? cudaMemoryTypeDevice
                     : fake_cuda_is_pinned (address) ? cudaMemoryTypeHost
                                                     : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t
cudaMemGetInfo (size_t *available, size_t *total)
{
  std::lock_guard<std::mutex> guard (memory_lock);
  *total = fake_cuda_get_total ();
  *available = *total > n_used ? *total - n_used : 0;
  return fake_cuda_report (fake_cuda_get_sticky ());
}
