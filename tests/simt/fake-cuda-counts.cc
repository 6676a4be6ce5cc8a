/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cuda-counts.h"
#include "cuda_profiler_api.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <set>
#include <sys/stat.h>

std::mutex fake_cuda_counts_lock;
OrtrainFakeCudaCounts fake_cuda_counts;
static std::map<std::string, uint64_t> launches, blocks;

OrtrainFakeCudaCounts
ortrain_fake_cuda_get_counts (void)
{
  std::lock_guard<std::mutex> guard (fake_cuda_counts_lock);
  return fake_cuda_counts;
}

uint64_t
ortrain_fake_cuda_count_launches (const char *name)
{
  std::lock_guard<std::mutex> guard (fake_cuda_counts_lock);
  const auto found = launches.find (name);
  return found != launches.end () ? found->second : 0;
}

void
ortrain_fake_cuda_count (const char *name)
{
  std::lock_guard<std::mutex> guard (fake_cuda_counts_lock);
  launches[name]++;
}

cudaError_t
cudaProfilerStart (void)
{
  ortrain_fake_cuda_count ("profiler-start");
  return cudaSuccess;
}

cudaError_t
cudaProfilerStop (void)
{
  ortrain_fake_cuda_count ("profiler-stop");
  return cudaSuccess;
}

uint64_t
ortrain_fake_cuda_count_blocks (const char *name)
{
  std::lock_guard<std::mutex> guard (fake_cuda_counts_lock);
  const auto found = blocks.find (name);
  return found != blocks.end () ? found->second : 0;
}

void
fake_cuda_count_blocks (const char *name, uint64_t n)
{
  std::lock_guard<std::mutex> guard (fake_cuda_counts_lock);
  blocks[name] += n;
}

static char *trace;
static size_t trace_size;

void
ortrain_fake_cuda_trace (char *text, size_t size)
{
  std::lock_guard<std::mutex> guard (fake_cuda_counts_lock);
  trace = text;
  trace_size = size;
}

void
fake_cuda_count_launch (const std::string &name, const char *other)
{
  std::lock_guard<std::mutex> guard (fake_cuda_counts_lock);
  const char *line = name.empty () ? other : name.c_str ();
  const size_t length = trace != nullptr ? strlen (trace) : 0;
  if (trace != nullptr && line != nullptr && length + strlen (line) + 2 <= trace_size)
    snprintf (trace + length, trace_size - length, "%s\n", line);
  if (name.empty ())
    return;
  fake_cuda_counts.n_launches++;
  launches[name]++;
}

void
fake_cuda_note_kernel (const void *kernel)
{
  static std::set<const void *> known;
  const char *path = getenv ("ORTRAIN_SIMT_LAUNCHED");
  Dl_info info;
  struct stat st;
  if (path == nullptr)
    return;
  std::lock_guard<std::mutex> guard (fake_cuda_counts_lock);
  if (!known.insert (kernel).second || dladdr (kernel, &info) == 0 || stat (info.dli_fname, &st) != 0)
    return;
  FILE *file = fopen (path, "a");
  if (file == nullptr)
    return;
  fprintf (file, "%lld.%09ld %zx\n", (long long) st.st_mtim.tv_sec, (long) st.st_mtim.tv_nsec,
           (size_t) ((const char *) kernel - (const char *) info.dli_fbase));
  fclose (file);
}
