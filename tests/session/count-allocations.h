/* SPDX-License-Identifier: LGPL-2.1-or-later */
#pragma once

#include <errno.h>
#include <glib.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

/* Every allocation of the process goes through here. Aligned ones are counted apart: oneDNN's product of singles takes
 * and gives back aligned buffers in every call, which the library cannot help; its own kernels take none. */
extern void *__libc_malloc (size_t size);
extern void *__libc_calloc (size_t n, size_t size);
extern void *__libc_realloc (void *memory, size_t size);
extern void *__libc_memalign (size_t alignment, size_t size);

static guint n_allocations, n_aligned_allocations;

/* oneDNN hands a primitive's arguments on in a list, whose few nodes it takes from operator new and gives back before
 * the call returns. Nothing of ours is C++, so allocations of the C++ library are left out; buffers are taken
 * otherwise, and counted. */
static const char *cxx_begin, *cxx_end;

static int
find_cxx (struct dl_phdr_info *info, size_t size, void *data)
{
  if (strstr (info->dlpi_name, "libstdc++") == NULL)
    return 0;
  for (int i = 0; i < info->dlpi_phnum; i++)
    if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) != 0)
      {
        cxx_begin = (const char *) info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        cxx_end = cxx_begin + info->dlpi_phdr[i].p_memsz;
      }
  return 1;
}

static __attribute__ ((constructor)) void
find_cxx_at_start (void)
{
  dl_iterate_phdr (find_cxx, NULL);
}

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__ /* which have allocators of their own */
void *
malloc (size_t size)
{
  const char *caller = __builtin_return_address (0);
  if (caller < cxx_begin || caller >= cxx_end)
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
