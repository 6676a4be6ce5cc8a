/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-errors.h"
#include "plan/ortrain-memory-plan.h"
#include "plan/ortrain-memory-report-private.h"
#include "planner/ortrain-packer-private.h"

#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

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

/* All packings of few items, by trying every order with the lowest place: the best of them is the optimum. */
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
          items[i] = (OrtrainPackItem){ first, first + g_rand_int_range (rand, 0, 4),
                                        (gsize) g_rand_int_range (rand, 1, 6), 1, 0 };
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

static OrtrainPackItem *
read_items (const char *folder, const char *name, gsize *n)
{
  g_autoptr (GError) error = NULL;
  g_autofree char *path = g_test_build_filename (G_TEST_DIST, "data", folder, name, NULL);
  g_autofree char *text = NULL;
  g_file_get_contents (path, &text, NULL, &error);
  g_assert_no_error (error);
  g_auto (GStrv) lines = g_strsplit (g_strstrip (text), "\n", -1);
  *n = g_strv_length (lines) - 1;
  OrtrainPackItem *items = g_new0 (OrtrainPackItem, *n);
  for (gsize i = 0; i < *n; i++)
    {
      g_auto (GStrv) fields = g_strsplit (lines[i + 1], ",", -1);
      items[i] = (OrtrainPackItem){ g_ascii_strtoll (fields[1], NULL, 10), g_ascii_strtoll (fields[2], NULL, 10) - 1,
                                    (gsize) g_ascii_strtoull (fields[3], NULL, 10), 1, 0 };
    }
  return items;
}

/* Instances that no greedy order packs; see tests/data/minimalloc. */
static void
test_hard (void)
{
  static const char *const names[] = { "A.csv", "B.csv", "C.csv", "D.csv", "E.csv", "F.csv", "G.csv", NULL };
  for (const char *const *name = names; *name != NULL; name++)
    {
      gsize n, bound;
      g_autofree OrtrainPackItem *items = read_items ("minimalloc", *name, &n);
      gsize peak = ortrain_pack_with_effort (items, n, 1000000000, &bound);
      check_packing (items, n, peak, bound);
      g_assert_cmpuint (peak, <=, 1048576);
    }
}

/* A training step of a small GPT-2 with a batch of one: easy once preferred items are placed first, hard for a search
 * that begins where there are the fewest ways on. With the effort that plans are made with. */
static void
test_training_step (void)
{
  gsize n, bound;
  g_autofree OrtrainPackItem *items = read_items ("packing", "gpt2-step.csv", &n);
  gsize peak = ortrain_pack (items, n, &bound);
  check_packing (items, n, peak, bound);
  g_assert_cmpuint (peak, ==, bound);
}

/* A training step of a MobileNet, which is full at the turn to the backward pass and nearly so 80 steps before: the
 * values live at both must fit exactly. */
static void
test_two_peaks (void)
{
  gsize n, bound;
  g_autofree OrtrainPackItem *items = read_items ("packing", "mobilenet-step.csv", &n);
  gsize peak = ortrain_pack (items, n, &bound);
  check_packing (items, n, peak, bound);
  g_assert_cmpuint (peak - bound, <=, bound / 4000);
}

static void
test_csv (void)
{
  static const char *const wrong[] = { "",
                                       "id,lower,upper\n1,2,3\n",
                                       "id,lower,upper,size\n1,3,3,7\n",
                                       "id,lower,upper,size\n1,3,4\n",
                                       "id,lower,upper,size\n1,3,4,-1\n",
                                       "id,lower,upper,size\n1,3,99999999999,5\n" };
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_strdup_printf ("ortrain-packer-%d.csv", (int) getpid ());
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), name, NULL);
  for (guint i = 0; i < G_N_ELEMENTS (wrong); i++)
    {
      g_assert_true (g_file_set_contents (path, wrong[i], -1, &error));
      g_assert_null (ortrain_memory_plan_new_from_csv (path, &error));
      g_assert_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID);
      g_clear_error (&error);
    }
  g_assert_true (g_file_set_contents (path, "size,id,lower,upper\n10,a,0,4\n6,b,4,8\n5,c,2,6\n4,d,6,9\n", -1, &error));
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_memory_plan_new_from_csv (path, &error);
  g_assert_no_error (error);
  g_assert_cmpuint (ortrain_memory_plan_get_peak_bytes (plan), ==, 15);
  g_autofree char *text G_GNUC_UNUSED = ortrain_memory_plan_to_string (plan),
                        *json = ortrain_memory_plan_to_json (plan);
  g_autofree char *svg = ortrain_memory_plan_to_svg (plan);
  g_assert_nonnull (strstr (json, "\"peak_bytes\" : 15"));
  g_assert_nonnull (strstr (svg, "<svg"));
  g_assert_cmpuint (g_list_model_get_n_items (ortrain_memory_plan_get_blocks (plan)), ==, 4);
  g_unlink (path);
}

/* The same value of several layers is one row of the list of the largest; numbers that all of them share stay in its
 * name. */
static void
test_largest (void)
{
  static const char csv[] = "id,lower,upper,size\n"
                            "block1/h.0/conv2,0,9,4000\nblock1/h.10/conv2,1,9,4000\nblock1/h.2/conv2,2,9,4000\n"
                            "block1/h.3/conv2,3,9,500\n"                 /* of another size */
                            "block1/h.4/conv2,9,10,4000\n"               /* of another time */
                            "scores,4,9,8000\n7,4,9,6000\n8,4,9,6000\n"; /* numbers are no names */
  g_autoptr (GError) error = NULL;
  g_autofree char *name = g_strdup_printf ("ortrain-largest-%d.csv", (int) getpid ());
  g_autofree char *path = g_build_filename (g_get_tmp_dir (), name, NULL);
  g_assert_true (g_file_set_contents (path, csv, -1, &error));
  g_autoptr (OrtrainMemoryPlan) plan = ortrain_memory_plan_new_from_csv (path, &error);
  g_unlink (path);
  g_assert_no_error (error);
  g_autofree char *text = ortrain_memory_plan_to_string (plan);
  const char *rows = strstr (text, " live\n");
  g_assert_nonnull (rows);
  g_assert_cmpstr (
      rows, ==,
      " live\n    11.7 KiB  temporary block1/h.*/conv2, 3 of them\n    8000 bytes  temporary scores\n"
      "    6000 bytes  temporary 7\n    6000 bytes  temporary 8\n    500 bytes  temporary block1/h.3/conv2");
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
    .step = 1,
    .phase = "pre_forward",
    .allocated = 5331 * mib,
    .max_allocated = 9039 * mib + mib / 2 - 1,
    .cached = 9382 * mib,
    .max_cached = 9381 * mib + mib / 2,
    .inactive = 219 * mib,
    .max_inactive = 816 * mib,
    .param = 5314 * mib,
    .grad = 0,
    .buffer = 8 * mib,
  };
  g_autoptr (OrtrainMemoryReport) report = ortrain_memory_report_new (&fields);
  g_autoptr (OrtrainMemoryReport) copy = g_boxed_copy (ORTRAIN_TYPE_MEMORY_REPORT, report);
  g_autofree char *line = ortrain_memory_report_to_string (copy);
  g_assert_true (copy == report);
  g_assert_cmpstr (
      line, ==,
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
  g_test_add_func ("/packer/hard", test_hard);
  g_test_add_func ("/packer/training-step", test_training_step);
  g_test_add_func ("/packer/two-peaks", test_two_peaks);
  g_test_add_func ("/packer/csv", test_csv);
  g_test_add_func ("/packer/largest", test_largest);
  g_test_add_func ("/packer/nothing", test_nothing);
  g_test_add_func ("/memory-report/line", test_report);
  return g_test_run ();
}
