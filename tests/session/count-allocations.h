/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <errno.h>
#include <glib.h>
#include <stdlib.h>

/* Every allocation of the process goes through here. Aligned ones are counted apart: oneDNN's product of singles takes
 * and gives back aligned buffers in every call, which the library cannot help; its own kernels take none. */
extern void *__libc_malloc (size_t size);
extern void *__libc_calloc (size_t n, size_t size);
extern void *__libc_realloc (void *memory, size_t size);
extern void *__libc_memalign (size_t alignment, size_t size);

static guint n_allocations, n_aligned_allocations;

#ifndef __SANITIZE_ADDRESS__ /* which has an allocator of its own */
void *
malloc (size_t size)
{
  __atomic_fetch_add (&n_allocations, 1, __ATOMIC_RELAXED);
  return __libc_malloc (size);
}

void *
calloc (size_t n, size_t size)
{
  __atomic_fetch_add (&n_allocations, 1, __ATOMIC_RELAXED);
  return __libc_calloc (n, size);
}

void *
realloc (void *memory, size_t size)
{
  __atomic_fetch_add (&n_allocations, 1, __ATOMIC_RELAXED);
  return __libc_realloc (memory, size);
}

int
posix_memalign (void **memory, size_t alignment, size_t size)
{
  __atomic_fetch_add (&n_aligned_allocations, 1, __ATOMIC_RELAXED);
  *memory = __libc_memalign (alignment, size);
  return *memory != NULL ? 0 : ENOMEM;
}

void *
aligned_alloc (size_t alignment, size_t size)
{
  __atomic_fetch_add (&n_aligned_allocations, 1, __ATOMIC_RELAXED);
  return __libc_memalign (alignment, size);
}
#endif

static inline guint
count_all_allocations (void)
{
  return __atomic_load_n (&n_allocations, __ATOMIC_RELAXED) +
         __atomic_load_n (&n_aligned_allocations, __ATOMIC_RELAXED);
}
