/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include "fake-cuda.h"

#include <mutex>
#include <string>

/* The counters of the emulated runtime. */
extern std::mutex fake_cuda_counts_lock;
extern OrtrainFakeCudaCounts fake_cuda_counts;

#define COUNT(field)                                                                                                   \
  do                                                                                                                   \
    {                                                                                                                  \
      std::lock_guard<std::mutex> guard (fake_cuda_counts_lock);                                                       \
      fake_cuda_counts.field++;                                                                                        \
    }                                                                                                                  \
  while (0)

/* name: of a launch; other: the kind of another operation within the device ("fill", "copy"), or NULL */
void fake_cuda_count_launch (const std::string &name, const char *other);
void fake_cuda_count_blocks (const char *name, uint64_t n);
/* Adds a line to the file that ORTRAIN_SIMT_LAUNCHED names, once in a process: when the kernel's module was built, and
 * where in it the kernel is. tools/count-tests finds its name. */
void fake_cuda_note_kernel (const void *kernel);
