/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cuda-hold.h"

#include <condition_variable>
#include <mutex>

/* For tests of operations that are submitted before the device has done anything: streams that are held, copies that
 * are recorded. */

static std::mutex lock;
static std::condition_variable changed;
static bool is_held, only_graphs;
static OrtrainFakeCudaCopy *copies;
static size_t size, n_copies;

void
ortrain_fake_cuda_hold (void)
{
  std::lock_guard<std::mutex> guard (lock);
  is_held = true;
  only_graphs = false;
}

void
ortrain_fake_cuda_hold_graphs (void)
{
  std::lock_guard<std::mutex> guard (lock);
  is_held = only_graphs = true;
}

int
ortrain_fake_cuda_release (void)
{
  std::lock_guard<std::mutex> guard (lock);
  const bool was_held = is_held;
  is_held = false;
  changed.notify_all ();
  return was_held;
}

void
fake_cuda_wait_while_held (bool has_graphs)
{
  std::unique_lock<std::mutex> guard (lock);
  changed.wait (guard, [=] { return !is_held || (only_graphs && !has_graphs); });
}

size_t
ortrain_fake_cuda_record_copies (OrtrainFakeCudaCopy *array, size_t n)
{
  std::lock_guard<std::mutex> guard (lock);
  const size_t n_before = n_copies;
  copies = array;
  size = array != nullptr ? n : 0;
  n_copies = 0;
  return n_before;
}

void
fake_cuda_note_copy (const OrtrainFakeCudaCopy &copy)
{
  std::lock_guard<std::mutex> guard (lock);
  if (n_copies < size)
    copies[n_copies] = copy;
  n_copies++;
}
