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

struct Device
{
  char *memory = nullptr; /* [DEVICE_ADDRESSES] of addresses */
  std::map<char *, size_t> blocks;
  size_t n_used = 0;
  unsigned n_open = 0; /* streams that run: the memory can be touched while there are any */
  bool is_closed = true;
  uint64_t n_closed = 0;
};

static std::mutex memory_lock;
static Device devices[FAKE_CUDA_MAX_DEVICES];
static std::map<char *, size_t> pinned;
static uint64_t n_allocated, fail_from;

static Device &
get_own (void)
{
  return devices[fake_cuda_get_device ()];
}

static void
reserve_memory (Device &self)
{
  if (self.memory != nullptr)
    return;
  void *memory = mmap (nullptr, DEVICE_ADDRESSES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    abort ();
  self.memory = (char *) memory;
}

static void
protect (const Device &self, int how)
{
  for (const auto &block : self.blocks)
    mprotect (block.first, block.second, how);
}

void
fake_cuda_open_memory (void)
{
  std::lock_guard<std::mutex> guard (memory_lock);
  Device &self = get_own ();
  if (self.n_open++ == 0 && self.is_closed)
    protect (self, PROT_READ | PROT_WRITE), self.is_closed = false;
}

/* Changing the protection of much memory takes long, so that later only one time in a few does it. */
void
fake_cuda_close_memory (void)
{
  std::lock_guard<std::mutex> guard (memory_lock);
  Device &self = get_own ();
  if (--self.n_open == 0 && (self.n_closed++ < 64 || self.n_closed % 16 == 0))
    protect (self, PROT_NONE), self.is_closed = true;
}

/* -1: it is the host's. */
static int
find_device (const void *address)
{
  for (int i = 0; i < FAKE_CUDA_MAX_DEVICES; i++)
    if (devices[i].memory != nullptr && (const char *) address >= devices[i].memory &&
        (const char *) address < devices[i].memory + DEVICE_ADDRESSES)
      return i;
  return -1;
}

bool
fake_cuda_is_device (const void *address)
{
  return find_device (address) >= 0;
}

cudaError_t
fake_cuda_check_memory (const void *address)
{
  const int device = find_device (address);
  return device < 0 ? cudaSuccess : fake_cuda_check_device (device, cudaErrorInvalidDevicePointer);
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
  fake_cuda_use_device ();
  std::lock_guard<std::mutex> guard (memory_lock);
  Device &self = get_own ();
  reserve_memory (self);
  const size_t size = (n_bytes + GRANULE - 1) / GRANULE * GRANULE;
  if (is_failing () || n_bytes == 0 || size < n_bytes || self.n_used + size > fake_cuda_get_total ())
    return fake_cuda_report (cudaErrorMemoryAllocation);
  char *at = self.memory + GRANULE;
  for (const auto &block : self.blocks)
    {
      if ((size_t) (block.first - at) >= size + GRANULE)
        break;
      at = block.first + block.second + GRANULE; /* a page between blocks */
    }
  if (at + size > self.memory + DEVICE_ADDRESSES)
    return fake_cuda_report (cudaErrorMemoryAllocation);
  self.blocks[at] = size;
  self.n_used += size;
  /* memory that nobody has written is NaN */
  mprotect (at, size, PROT_READ | PROT_WRITE);
  memset (at, 0xff, size < ((size_t) 1 << 20) ? size : (size_t) 1 << 20);
  mprotect (at, size, self.is_closed ? PROT_NONE : PROT_READ | PROT_WRITE);
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
  const cudaError_t error = fake_cuda_check_memory (address);
  if (error != cudaSuccess)
    return error;
  fake_cuda_run_legacy (); /* as the device's, it waits for operations that run */
  std::lock_guard<std::mutex> guard (memory_lock);
  Device &self = get_own ();
  const auto found = self.blocks.find ((char *) address);
  if (found == self.blocks.end ())
    return fake_cuda_report (cudaErrorInvalidValue);
  madvise (address, found->second, MADV_DONTNEED);
  mprotect (address, found->second, PROT_NONE);
  self.n_used -= found->second;
  self.blocks.erase (found);
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
  attributes->device = find_device (address);
  return cudaSuccess;
}

cudaError_t
cudaMemGetInfo (size_t *available, size_t *total)
{
  fake_cuda_use_device ();
  std::lock_guard<std::mutex> guard (memory_lock);
  const size_t n_used = get_own ().n_used;
  *total = fake_cuda_get_total ();
  *available = *total > n_used ? *total - n_used : 0;
  return fake_cuda_report (fake_cuda_get_sticky ());
}
