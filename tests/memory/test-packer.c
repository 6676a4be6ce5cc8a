/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory/ortrain-memory-report-private.h"
#include "memory/ortrain-planner-private.h"

#include <string.h>

static void
check_packing (const OrtrainPackItem *items, gsize n, gsize peak, gsize bound)
{
  g_assert_cmpuint (peak, >=, bound);
  for (gsize i = 0; i < n; i++)
    {
      g_assert_cmpuint (items[i].offset % MAX (items[i].alignment, 1), ==, 0);
      g_assert_cmpuint (items[i].offset + items[i].bytes, <=, peak);
      for (gsize j = 0; j < i; j++)
        if (items[i].bytes > 0 && items[j].bytes > 0 && items[i].first <= items[j].last &&
            items[j].first <= items[i].last)
          g_assert_true (items[i].offset >= items[j].offset + items[j].bytes ||
                         items[j].offset >= items[i].offset + items[i].bytes);
    }
}

/* The bound, counted at every point of time. */
static gsize
count_bound (const OrtrainPackItem *items, gsize n, gsize alignment)
{
  gsize bound = 0;
  for (gsize t = 0; t < n; t++)
    {
      gsize sum = 0;
      for (gsize i = 0; i < n; i++)
        if (items[i].first <= items[t].first && items[i].last >= items[t].first)
          sum += (items[i].bytes + alignment - 1) / alignment * alignment;
      bound = MAX (bound, sum);
    }
  return bound;
}

static void
test_random (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (3);
  for (guint round = 0; round < 60; round++)
    {
      gsize n = (gsize) g_rand_int_range (rand, 1, 120);
      gsize alignment = round % 3 == 0 ? 1 : round % 3 == 1 ? 64 : 256;
      g_autofree OrtrainPackItem *items = g_new0 (OrtrainPackItem, n);
      for (gsize i = 0; i < n; i++)
        {
          gint64 first = g_rand_int_range (rand, -1, 100);
          items[i] = (OrtrainPackItem){ first, first + g_rand_int_range (rand, 0, 30),
                                        (gsize) g_rand_int_range (rand, 0, 5000), alignment, 0 };
        }
      gsize bound;
      gsize peak = ortrain_pack (items, n, &bound);
      check_packing (items, n, peak, bound);
      g_assert_cmpuint (bound, ==, count_bound (items, n, alignment));
      g_autofree OrtrainPackItem *again = g_memdup2 (items, n * sizeof *items);
      g_assert_cmpuint (ortrain_pack (again, n, NULL), ==, peak);
      g_assert_cmpmem (again, n * sizeof *items, items, n * sizeof *items);
    }
}

/* All packings of few items, by trying every order with the lowest place: the best of them is what is possible. */
static gsize
best_of_all_orders (OrtrainPackItem *items, gsize n, gsize placed, gsize limit)
{
  if (placed == n)
    {
      gsize peak = 0;
      for (gsize i = 0; i < n; i++)
        peak = MAX (peak, items[i].offset + items[i].bytes);
      return peak;
    }
  gsize best = limit;
  for (gsize k = placed; k < n; k++)
    {
      OrtrainPackItem kept = items[placed];
      items[placed] = items[k];
      items[k] = kept;
      OrtrainPackItem *item = &items[placed];
      item->offset = 0;
      for (gboolean moved = TRUE; moved;)
        {
          moved = FALSE;
          for (gsize j = 0; j < placed; j++)
            if (items[j].first <= item->last && item->first <= items[j].last &&
                item->offset < items[j].offset + items[j].bytes && items[j].offset < item->offset + item->bytes)
              {
                item->offset = items[j].offset + items[j].bytes;
                moved = TRUE;
              }
        }
      if (item->offset + item->bytes < best)
        best = MIN (best, best_of_all_orders (items, n, placed + 1, best));
      kept = items[placed];
      items[placed] = items[k];
      items[k] = kept;
    }
  return best;
}

static void
test_exact (void)
{
  g_autoptr (GRand) rand = g_rand_new_with_seed (11);
  guint n_hard = 0;
  for (guint round = 0; round < 200; round++)
    {
      OrtrainPackItem items[7], all[7];
      for (guint i = 0; i < 7; i++)
        {
          gint64 first = g_rand_int_range (rand, 0, 7);
          items[i] = (OrtrainPackItem){ first, first + g_rand_int_range (rand, 0, 4), (gsize) g_rand_int_range (rand, 1, 6),
                                        1, 0 };
        }
      memcpy (all, items, sizeof items);
      gsize bound;
      gsize peak = ortrain_pack (items, 7, &bound);
      gsize best = best_of_all_orders (all, 7, 0, G_MAXSIZE);
      check_packing (items, 7, peak, bound);
      g_assert_cmpuint (peak, ==, best);
      n_hard += best > bound;
    }
  g_test_message ("%u instances need more than the bound", n_hard);
}

static void
test_many (void)
{
  const gsize n = 10000;
  g_autoptr (GRand) rand = g_rand_new_with_seed (5);
  g_autofree OrtrainPackItem *items = g_new0 (OrtrainPackItem, n);
  for (gsize i = 0; i < n; i++)
    {
      gint64 first = (gint64) i;
      items[i] = (OrtrainPackItem){ first, first + g_rand_int_range (rand, 1, i % 10 == 0 ? 9000 : 12),
                                    (gsize) g_rand_int_range (rand, 1, 100000), 64, 0 };
    }
  gsize bound;
  gint64 begin = g_get_monotonic_time ();
  gsize peak = ortrain_pack (items, n, &bound);
  g_test_message ("%" G_GSIZE_FORMAT " items in %.1f ms, %.4f of the bound", n,
                  (double) (g_get_monotonic_time () - begin) / 1e3, (double) peak / (double) bound);
  check_packing (items, n, peak, bound);
  g_assert_cmpuint (peak, <=, bound + bound / 10);
}

static void
test_nothing (void)
{
  OrtrainPackItem item = { 3, 3, 0, 64, 77 };
  gsize bound = 5;
  g_assert_cmpuint (ortrain_pack (NULL, 0, &bound), ==, 0);
  g_assert_cmpuint (bound, ==, 0);
  g_assert_cmpuint (ortrain_pack (&item, 1, &bound), ==, 0);
  g_assert_cmpuint (item.offset, ==, 0);
}

static void
test_report (void)
{
  const guint64 mib = 1 << 20;
  OrtrainMemoryReport fields = {
    .step = 1, .phase = "pre_forward", .allocated = 5331 * mib, .max_allocated = 9039 * mib + mib / 2 - 1,
    .cached = 9382 * mib, .max_cached = 9381 * mib + mib / 2, .inactive = 219 * mib, .max_inactive = 816 * mib,
    .param = 5314 * mib, .grad = 0, .buffer = 8 * mib,
  };
  g_autoptr (OrtrainMemoryReport) report = ortrain_memory_report_new (&fields);
  g_autoptr (OrtrainMemoryReport) copy = g_boxed_copy (ORTRAIN_TYPE_MEMORY_REPORT, report);
  g_autofree char *line = ortrain_memory_report_to_string (copy);
  g_assert_true (copy == report);
  g_assert_cmpstr (line, ==,
                   "rank-0 step 1 memory (MiB) | phase: pre_forward | allocated: 5331 | max allocated: 9039 | cached: 9382 "
                   "| max cached: 9382 | inactive: 219 | max inactive: 816 | param: 5314 | grad: 0 | buffer: 8");
}

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/packer/random", test_random);
  g_test_add_func ("/packer/exact", test_exact);
  g_test_add_func ("/packer/many", test_many);
  g_test_add_func ("/packer/nothing", test_nothing);
  g_test_add_func ("/memory-report/line", test_report);
  return g_test_run ();
}
