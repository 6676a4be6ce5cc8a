/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "fake-cuda-legacy.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>

#define MOST_LATE 8 /* operations of other streams */

struct Late
{
  std::function<void (void)> run;
  uint64_t age; /* operations of other streams, until it runs */
};

static std::recursive_mutex lock; /* held while it runs: the legacy stream is one stream */
static std::deque<Late> queue;
static std::atomic<size_t> n_queued; /* spares streams the lock */
static uint32_t random_bits = 1;

void
fake_cuda_add_legacy (std::function<void (void)> run)
{
  std::lock_guard<std::recursive_mutex> guard (lock);
  random_bits = random_bits * 1664525u + 1013904223u;
  queue.push_back ({ std::move (run), 1 + (random_bits >> 24) % MOST_LATE });
  n_queued++;
}

static void
run_first (void)
{
  const Late first = std::move (queue.front ());
  queue.pop_front ();
  first.run ();
  n_queued--;
}

void
fake_cuda_run_legacy (void)
{
  if (n_queued == 0)
    return;
  std::lock_guard<std::recursive_mutex> guard (lock);
  while (!queue.empty ())
    run_first ();
}

void
fake_cuda_age_legacy (void)
{
  if (n_queued == 0)
    return;
  std::lock_guard<std::recursive_mutex> guard (lock);
  if (!queue.empty () && --queue.front ().age == 0)
    run_first ();
}
