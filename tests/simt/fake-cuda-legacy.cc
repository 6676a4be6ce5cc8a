/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cuda-legacy.h"
#include "fake-cuda-internal.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#define MOST_LATE 8 /* operations of other streams */

struct Late
{
  int device;
  std::function<void (void)> run;
  uint64_t age; /* operations of other streams, until it runs */
};

static std::recursive_mutex lock; /* held while it runs: the legacy stream of a device is one stream */
static std::deque<Late> queue;
static std::atomic<size_t> n_queued; /* spares streams the lock */
static uint32_t random_bits = 1;

void
fake_cuda_add_legacy (std::function<void (void)> run)
{
  std::lock_guard<std::recursive_mutex> guard (lock);
  random_bits = random_bits * 1664525u + 1013904223u;
  queue.push_back ({ fake_cuda_use_device (), std::move (run), 1 + (random_bits >> 24) % MOST_LATE });
  n_queued++;
}

static std::deque<Late>::iterator
find_first (void)
{
  auto each = queue.begin ();
  while (each != queue.end () && each->device != fake_cuda_get_device ())
    ++each;
  return each;
}

static void
run_late (std::deque<Late>::iterator each)
{
  const Late late = std::move (*each);
  queue.erase (each);
  late.run ();
  n_queued--;
}

void
fake_cuda_run_legacy (void)
{
  if (n_queued == 0)
    return;
  std::lock_guard<std::recursive_mutex> guard (lock);
  for (auto each = find_first (); each != queue.end (); each = find_first ())
    run_late (each);
}

void
fake_cuda_age_legacy (void)
{
  if (n_queued == 0)
    return;
  std::lock_guard<std::recursive_mutex> guard (lock);
  const auto first = find_first ();
  if (first != queue.end () && --first->age == 0)
    run_late (first);
}
