/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "simt-internal.h"

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <numeric>
#include <sys/mman.h>
#include <vector>

/* Fibers are switched by hand where the processor is known, since an emulated thread costs as much as a switch. */
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
/* The race detector: ThreadSanitizer, to which each fiber is a thread. This file is not compiled for it, and tells it
 * which accesses are ordered. */
#if defined(SIMT_RACES)
#include <sanitizer/tsan_interface.h>
#endif
/* A fiber that is left for the last time would keep AddressSanitizer's marks on a stack that others get. */
#if defined(__SANITIZE_ADDRESS__)
#define UNMARKED __attribute__ ((no_sanitize ("address"), noinline))
#else
#define UNMARKED
#endif

#define STACK_BYTES ((size_t) 128 << 10)
#define MAX_THREADS 1024
#define WARP 32
/* The race detector takes a thread that gets the stack of an earlier one for the same thread, so it orders the new
 * thread after the earlier one and after all threads that the earlier one met at a barrier. A thread with a new stack
 * is ordered after its maker. So that blocks are in no order, stacks are made before a grid, and used in turn. */
#define RACE_STACKS 512 /* and one for each thread of a block */
#define MAX_SHARED 64
#define N_TOGETHER 3 /* blocks that run in turns, where threads are shuffled */

thread_local uint3 threadIdx, blockIdx;
thread_local dim3 blockDim, gridDim;

namespace
{

enum State
{
  FRESH,
  READY,
  AT_BARRIER,
  AT_EXCHANGE,
  DONE,
};

struct Stack
{
  char *memory;
  void *fiber; /* ThreadSanitizer's */
};

struct Fiber
{
  State state;
  bool has_fenced;
  uint3 index;
  unsigned mask; /* of the exchange that it waits at */
  uint64_t brought;
  const uint64_t *result;
  Stack stack;
#if defined(__x86_64__)
  void *sp;
#else
  ucontext_t context;
#endif
};

#define N_RESULTS 64 /* more than exchanges of one warp can be complete and not read */

struct Warp
{
  unsigned n_results;
  uint64_t results[N_RESULTS][WARP];
#if defined(SIMT_RACES)
  struct
  {
    unsigned mask, n; /* exchanges that were completed */
  } meetings[WARP];
#endif
};

/* Addresses that mean orders within a block to the race detector, which forgets them when they are freed: nothing
 * orders one block after another. Threads meet at two addresses in turn: a thread that goes on early and reaches the
 * next address is not ordered before those that are still to go on. */
struct Orders
{
  char barriers[2], shared;
  char meetings[MAX_THREADS / WARP][WARP][2];
};

struct SharedArray
{
  const void *declaration;
  void *memory;
  size_t n_bytes;
};

/* The state of a block that runs; several blocks may run in turns. */
struct Scheduler
{
  Fiber fibers[MAX_THREADS];
  unsigned n;
  uint3 block;
  Fiber *current;
  Warp warps[MAX_THREADS / WARP];
  std::deque<Stack> stacks; /* free ones */
  std::vector<SharedArray> shared;
  SimtInvoke invoke;
  const void *closure;
  const char *name;
  SimtOrder order;
  uint32_t random;
  std::vector<unsigned> sequence;
  Orders *orders;
  char end, begin; /* addresses that mean orders, too */
  unsigned n_barriers;
  void *main_fiber;
#if defined(__x86_64__)
  void *sp;
#else
  ucontext_t context;
#endif
#if defined(__SANITIZE_ADDRESS__)
  const void *main_stack;
  size_t main_bytes;
#endif
};

thread_local Scheduler *scheduler;

/* Stacks that no stream has: streams come and go, and mapping is slow. */
struct Pool
{
  std::mutex lock;
  std::deque<Stack> stacks;
};

Pool *
get_pool (void)
{
  static Pool *pool = new Pool (); /* threads may end after everything else */
  return pool;
}

/* A thread's own, for as long as it lives. */
struct SchedulerOwner
{
  Scheduler *all[N_TOGETHER] = {};

  ~SchedulerOwner ()
  {
    std::lock_guard<std::mutex> guard (get_pool ()->lock);
    for (Scheduler *self : all)
      {
        if (self != nullptr)
          get_pool ()->stacks.insert (get_pool ()->stacks.end (), self->stacks.begin (), self->stacks.end ());
        delete self;
      }
  }
};

[[noreturn]] void
fail (const char *what)
{
  fprintf (stderr, "Kernel %s, block (%u, %u, %u), thread (%u, %u, %u): %s\n", scheduler->name, blockIdx.x, blockIdx.y,
           blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z, what);
  abort ();
}

#if defined(__x86_64__)
/* Saves the registers that a called function has to keep, and continues where the other was left. */
extern "C" void simt_switch (void **save, void *load);
/* clang-format off */
asm (".text\n"
     ".globl simt_switch\n"
     ".hidden simt_switch\n"
     ".type simt_switch, @function\n"
     "simt_switch:\n"
     "  pushq %rbp\n"
     "  pushq %rbx\n"
     "  pushq %r12\n"
     "  pushq %r13\n"
     "  pushq %r14\n"
     "  pushq %r15\n"
     "  movq %rsp, (%rdi)\n"
     "  movq %rsi, %rsp\n"
     "  popq %r15\n"
     "  popq %r14\n"
     "  popq %r13\n"
     "  popq %r12\n"
     "  popq %rbx\n"
     "  popq %rbp\n"
     "  ret\n"
     ".size simt_switch, .-simt_switch\n");
/* clang-format on */
#endif

UNMARKED void
to_scheduler (bool ends)
{
  Scheduler *self = scheduler;
  Fiber *fiber = self->current;
#if defined(__SANITIZE_ADDRESS__)
  void *fake = nullptr;
  __sanitizer_start_switch_fiber (ends ? nullptr : &fake, self->main_stack, self->main_bytes);
#endif
#if defined(SIMT_RACES)
  __tsan_switch_to_fiber (self->main_fiber, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__x86_64__)
  simt_switch (&fiber->sp, self->sp);
#else
  swapcontext (&fiber->context, &self->context);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber (fake, &self->main_stack, &self->main_bytes);
#endif
}

void
run_fiber (void)
{
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber (nullptr, &scheduler->main_stack, &scheduler->main_bytes);
#endif
#if defined(SIMT_RACES)
  __tsan_acquire (&scheduler->begin);
#endif
  scheduler->invoke (scheduler->closure);
#if defined(SIMT_RACES)
  __tsan_release (&scheduler->end);
#endif
  scheduler->current->state = DONE;
  to_scheduler (true);
  abort ();
}

/* One that is mapped, or that another stream has left. */
void
add_stack (Scheduler *self)
{
  Stack stack;
  {
    Pool *pool = get_pool ();
    std::lock_guard<std::mutex> guard (pool->lock);
    if (!pool->stacks.empty ())
      {
        self->stacks.push_back (pool->stacks.front ());
        pool->stacks.pop_front ();
        return;
      }
  }
  stack.memory =
      (char *) mmap (nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (stack.memory == MAP_FAILED)
    abort ();
  mprotect (stack.memory, 4096, PROT_NONE);
  stack.fiber = nullptr;
#if defined(SIMT_RACES)
  stack.fiber = __tsan_create_fiber (0);
#endif
  self->stacks.push_back (stack);
}

void
to_fiber (Scheduler *self, Fiber *fiber)
{
  self->current = fiber;
  threadIdx = fiber->index;
  if (fiber->state == FRESH)
    {
      if (self->stacks.empty ())
        add_stack (self);
      fiber->stack = self->stacks.front ();
      self->stacks.pop_front ();
#if defined(__x86_64__)
      void **top = (void **) (fiber->stack.memory + STACK_BYTES) - 2;
      *top = (void *) run_fiber; /* where the first switch returns to; the stack is then as after a call */
      fiber->sp = top - 6;
#else
      getcontext (&fiber->context);
      fiber->context.uc_stack.ss_sp = fiber->stack.memory;
      fiber->context.uc_stack.ss_size = STACK_BYTES;
      makecontext (&fiber->context, run_fiber, 0);
#endif
    }
  fiber->state = READY;
#if defined(__SANITIZE_ADDRESS__)
  void *fake = nullptr;
  __sanitizer_start_switch_fiber (&fake, fiber->stack.memory, STACK_BYTES);
#endif
#if defined(SIMT_RACES)
  __tsan_switch_to_fiber (fiber->stack.fiber, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(__x86_64__)
  simt_switch (&self->sp, fiber->sp);
#else
  swapcontext (&self->context, &fiber->context);
#endif
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber (fake, nullptr, nullptr);
#endif
#if !defined(SIMT_RACES)
  if (fiber->state == DONE)
    self->stacks.push_back (fiber->stack);
#endif
}

#if defined(SIMT_RACES)
/* The meeting of lanes that exchange with this mask; all of them have come as often, or are on their way. */
unsigned
find_meeting (const Warp *warp, unsigned mask)
{
  for (unsigned i = 0; i < WARP; i++)
    if (warp->meetings[i].mask == mask || warp->meetings[i].mask == 0)
      return i;
  fail ("a warp exchanges with more masks than the race detector counts");
}
#endif

/* Whether all lanes that a waiting lane names have come. */
bool
is_complete (const Scheduler *self, unsigned first, unsigned mask)
{
  for (unsigned lane = 0; lane < WARP; lane++)
    if (mask >> lane & 1)
      {
        const Fiber *partner = first + lane < self->n ? &self->fibers[first + lane] : nullptr;
        if (partner == nullptr || partner->state == DONE)
          fail ("the mask of an exchange names a lane that has ended, or is beyond the block");
        if (partner->state != AT_EXCHANGE)
          return false;
        if (partner->mask != mask)
          fail ("lanes of a warp give different masks");
      }
  return true;
}

/* Lets lanes go on that wait for an exchange that is complete. The values that lanes brought are kept apart, since a
 * lane may be at its next exchange before another has read the values of this one. */
bool
complete_exchanges (Scheduler *self)
{
  bool any = false;
  for (unsigned first = 0; first < self->n; first += WARP)
    for (unsigned lane = 0; lane < WARP && first + lane < self->n; lane++)
      {
        const Fiber *fiber = &self->fibers[first + lane];
        if (fiber->state != AT_EXCHANGE || !is_complete (self, first, fiber->mask))
          continue;
        Warp *warp = &self->warps[first / WARP];
        uint64_t *result = warp->results[warp->n_results++ % N_RESULTS];
        const unsigned mask = fiber->mask;
#if defined(SIMT_RACES)
        warp->meetings[find_meeting (warp, mask)].n++;
#endif
        for (unsigned other = 0; other < WARP; other++)
          if (mask >> other & 1)
            {
              result[other] = self->fibers[first + other].brought;
              self->fibers[first + other].result = result;
              self->fibers[first + other].state = READY;
            }
        any = true;
      }
  return any;
}

bool
complete_barrier (Scheduler *self)
{
  unsigned n_waiting = 0, n_done = 0;
  for (unsigned i = 0; i < self->n; i++)
    {
      n_waiting += self->fibers[i].state == AT_BARRIER;
      n_done += self->fibers[i].state == DONE;
    }
  if (n_waiting > 0 && n_waiting + n_done == self->n && n_done > 0)
    fail ("threads wait at a barrier that others have not come to and have ended");
  if (n_waiting != self->n)
    return false;
  for (unsigned i = 0; i < self->n; i++)
    self->fibers[i].state = READY;
  self->n_barriers++;
  return true;
}

unsigned
next_random (Scheduler *self)
{
  self->random = self->random * 1664525u + 1013904223u;
  return self->random >> 8;
}

void
order_threads (Scheduler *self)
{
  if (self->sequence.size () != self->n)
    {
      self->sequence.resize (self->n);
      for (unsigned i = 0; i < self->n; i++)
        self->sequence[i] = self->order == SIMT_ORDER_REVERSE ? self->n - 1 - i : i;
    }
  if (self->order == SIMT_ORDER_SHUFFLED)
    for (unsigned i = self->n; i > 1; i--)
      std::swap (self->sequence[i - 1], self->sequence[next_random (self) % i]);
}

void
begin_block (Scheduler *self, uint3 index)
{
  self->block = index;
#if defined(SIMT_RACES)
  self->orders = (Orders *) calloc (1, sizeof *self->orders);
#endif
  for (unsigned i = 0; i < self->n; i++)
    {
      self->fibers[i].state = FRESH;
      self->fibers[i].has_fenced = false;
      self->fibers[i].index = { i % blockDim.x, i / blockDim.x % blockDim.y, i / blockDim.x / blockDim.y };
    }
}

/* Each thread to its next barrier or exchange. True: all have ended. */
bool
advance_block (Scheduler *self)
{
  unsigned n_done = 0;
  scheduler = self;
  blockIdx = self->block;
  order_threads (self);
  for (unsigned k = 0; k < self->n; k++)
    {
      Fiber *fiber = &self->fibers[self->sequence[k]];
      if (fiber->state == FRESH || fiber->state == READY)
        to_fiber (self, fiber);
      n_done += fiber->state == DONE;
    }
  if (n_done == self->n)
    return true;
  const bool moved = complete_exchanges (self);
  if (!complete_barrier (self) && !moved)
    fail ("threads of a block wait for each other for ever");
  return false;
}

void
end_block (Scheduler *self)
{
#if defined(SIMT_RACES)
  __tsan_acquire (&self->end);
  free (self->orders);
  for (unsigned i = 0; i < self->n; i++)
    self->stacks.push_back (self->fibers[i].stack);
#endif
  for (SharedArray &array : self->shared)
    free (array.memory);
  self->shared.clear ();
}

} // namespace

void *
simt_shared (const void *declaration, size_t n_bytes, size_t alignment)
{
  for (const SharedArray &array : scheduler->shared)
    if (array.declaration == declaration)
      {
#if defined(SIMT_RACES)
        __tsan_acquire (&scheduler->orders->shared);
#endif
        return array.memory;
      }
  void *memory = nullptr;
  if (posix_memalign (&memory, alignment < sizeof (void *) ? sizeof (void *) : alignment, n_bytes) != 0)
    abort ();
  memset (memory, 0xff, n_bytes);
#if defined(SIMT_RACES)
  __tsan_release (&scheduler->orders->shared);
#endif
  scheduler->shared.push_back ({ declaration, memory, n_bytes });
  return memory;
}

void
simt_barrier (void)
{
#if defined(SIMT_RACES)
  char *order = &scheduler->orders->barriers[scheduler->n_barriers % 2];
  __tsan_release (order);
#endif
  scheduler->current->state = AT_BARRIER;
  to_scheduler (false);
#if defined(SIMT_RACES)
  __tsan_acquire (order);
#endif
}

void
simt_fence (void)
{
  scheduler->current->has_fenced = true;
}

int
simt_has_fenced (void)
{
  return scheduler->current->has_fenced;
}

const uint64_t *
simt_exchange (unsigned mask, uint64_t value)
{
  Scheduler *self = scheduler;
  Fiber *fiber = self->current;
  const unsigned at = (unsigned) (fiber - self->fibers), first = at / WARP * WARP;
  if (!(mask >> (at - first) & 1))
    fail ("a lane is not in the mask that it gives");
#if defined(SIMT_RACES)
  Warp *warp = &self->warps[first / WARP];
  const unsigned which = find_meeting (warp, mask);
  warp->meetings[which].mask = mask;
  char *order = &self->orders->meetings[first / WARP][which][warp->meetings[which].n % 2];
  __tsan_release (order);
#endif
  fiber->brought = value;
  fiber->mask = mask;
  fiber->state = AT_EXCHANGE;
  to_scheduler (false);
#if defined(SIMT_RACES)
  __tsan_acquire (order);
#endif
  return fiber->result;
}

/* Which block of the grid is the n-th: a device begins them in any order. */
static uint3
find_block (dim3 grid, SimtOrder order, uint64_t n)
{
  const uint64_t count = (uint64_t) grid.x * grid.y * grid.z;
  if (order == SIMT_ORDER_REVERSE)
    n = count - 1 - n;
  else if (order == SIMT_ORDER_SHUFFLED)
    {
      uint64_t step = count / 2 + 1; /* steps that have no divisor in common with the count come to each once */
      while (std::gcd (step, count) != 1)
        step++;
      n = (n % count * step + count / 3) % count;
    }
  return { (unsigned) (n % grid.x), (unsigned) (n / grid.x % grid.y), (unsigned) (n / grid.x / grid.y) };
}

static Scheduler *
get_scheduler (const char *name, dim3 block, SimtInvoke invoke, const void *closure, SimtOrder order, unsigned place)
{
  static thread_local SchedulerOwner owner;
  if (owner.all[place] == nullptr)
    {
      owner.all[place] = new Scheduler ();
      owner.all[place]->shared.reserve (MAX_SHARED); /* fibers add to it: that it grows would look like a race */
    }
  Scheduler *self = scheduler = owner.all[place];
  self->n = block.x * block.y * block.z;
  self->invoke = invoke;
  self->closure = closure;
  self->name = name;
  if (self->order != order)
    self->sequence.clear ();
  self->order = order;
#if defined(SIMT_RACES)
  self->main_fiber = __tsan_get_current_fiber ();
  while (self->stacks.size () < self->n + RACE_STACKS)
    add_stack (self);
  __tsan_release (&self->begin);
#endif
  return self;
}

void
simt_run_grid (const char *name, dim3 grid, dim3 block, SimtInvoke invoke, const void *closure, SimtOrder order)
{
  const uint64_t count = (uint64_t) grid.x * grid.y * grid.z, n_threads = (uint64_t) block.x * block.y * block.z;
  Scheduler *running[N_TOGETHER];
  unsigned n_running = 0;
  uint64_t next = 0;
#if defined(SIMT_RACES)
  const unsigned n_interleaved = 1; /* the detector sees blocks that run one after another as if they ran at once */
#else
  const unsigned n_interleaved = order == SIMT_ORDER_SHUFFLED ? N_TOGETHER : 1;
#endif
  scheduler = get_scheduler (name, block, invoke, closure, order, 0);
  if (n_threads == 0 || n_threads > MAX_THREADS || grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.y > 65535 ||
      grid.z > 65535)
    fail ("the launch has no threads, or too many");
  blockDim = block;
  gridDim = grid;
  for (; n_running < n_interleaved && next < count; n_running++)
    {
      running[n_running] = get_scheduler (name, block, invoke, closure, order, n_running);
      begin_block (running[n_running], find_block (grid, order, next++));
    }
  while (n_running > 0)
    for (unsigned i = 0; i < n_running;)
      {
        if (!advance_block (running[i]))
          {
            i++;
            continue;
          }
        end_block (running[i]);
        if (next < count)
          begin_block (running[i], find_block (grid, order, next++));
        else
          running[i] = running[--n_running];
      }
}
