/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ortrain.h"
#include "tensor/ortrain-tensor-private.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Item i is { "x": float32 [2] = i + 1000 · epoch }. Every read is counted, and may be held up. */
#define TEST_TYPE_ITEMS (test_items_get_type ())
G_DECLARE_FINAL_TYPE (TestItems, test_items, TEST, ITEMS, OrtrainDataset)

struct _TestItems
{
  OrtrainDataset parent_instance;
  GThread *owner;
  gint n_items, broken;     /* atomic; broken: the item that cannot be read, or -1 */
  gint n_here, n_elsewhere; /* atomic: batches that the owner read, and others */
  gboolean gated;
  GMutex lock;
  GCond cond;
  gint n_allowed, n_waiting;
};

G_DEFINE_FINAL_TYPE (TestItems, test_items, ORTRAIN_TYPE_DATASET)

static guint64
test_items_get_length (OrtrainDataset *dataset)
{
  return (guint64) g_atomic_int_get (&TEST_ITEMS (dataset)->n_items);
}

static gboolean
test_items_fill_epoch_batch (OrtrainDataset *dataset, guint64 epoch, const guint64 *indices, gsize n_indices,
                             OrtrainTensorDict *batch, GError **error)
{
  TestItems *self = TEST_ITEMS (dataset);
  g_atomic_int_inc (g_thread_self () == self->owner ? &self->n_here : &self->n_elsewhere);
  if (self->gated && g_thread_self () != self->owner)
    {
      g_mutex_lock (&self->lock);
      self->n_waiting++;
      g_cond_broadcast (&self->cond);
      while (self->n_allowed == 0)
        g_cond_wait (&self->cond, &self->lock);
      self->n_allowed--;
      self->n_waiting--;
      g_mutex_unlock (&self->lock);
    }
  OrtrainTensor *x = ortrain_tensor_dict_get (batch, "x");
  if (x == NULL || ortrain_tensor_get_dim (x, 0) != (gint64) n_indices)
    {
      g_autoptr (OrtrainTensor) made =
          ortrain_tensor_new (ORTRAIN_DTYPE_FLOAT32, (gint64[]){ (gint64) n_indices, 2 }, 2, error);
      ortrain_tensor_dict_set (batch, "x", made);
      x = ortrain_tensor_dict_get (batch, "x");
    }
  float *values = ortrain_tensor_peek_writable (x);
  for (gsize i = 0; i < n_indices; i++)
    {
      if ((gint) indices[i] == g_atomic_int_get (&self->broken))
        {
          g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID, "Item %d is broken", (int) indices[i]);
          return FALSE;
        }
      values[2 * i] = values[2 * i + 1] = (float) (indices[i] + 1000 * epoch);
    }
  return TRUE;
}

static void
test_items_class_init (TestItemsClass *klass)
{
  ORTRAIN_DATASET_CLASS (klass)->get_length = test_items_get_length;
  ORTRAIN_DATASET_CLASS (klass)->fill_epoch_batch = test_items_fill_epoch_batch;
}

static void
test_items_init (TestItems *self)
{
  self->owner = g_thread_self ();
  self->broken = -1;
}

static TestItems *
make_items (int n, gboolean thread_safe)
{
  TestItems *self = g_object_new (TEST_TYPE_ITEMS, NULL);
  self->n_items = n;
  ortrain_dataset_set_thread_safe (ORTRAIN_DATASET (self), thread_safe);
  return self;
}

static void
allow (TestItems *self, int n)
{
  g_mutex_lock (&self->lock);
  self->n_allowed += n;
  g_cond_broadcast (&self->cond);
  g_mutex_unlock (&self->lock);
}

static void
wait_until_reading (TestItems *self)
{
  g_mutex_lock (&self->lock);
  while (self->n_waiting == 0)
    g_cond_wait (&self->cond, &self->lock);
  g_mutex_unlock (&self->lock);
}

/* "3,1,2|", or "-" at the end of an epoch */
static void
append_batch (GString *text, OrtrainDataLoader *loader)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, &error);
  g_assert_no_error (error);
  OrtrainTensor *x = batch != NULL ? ortrain_tensor_dict_get (batch, "x") : NULL;
  for (gint64 i = 0; x != NULL && i < ortrain_tensor_get_dim (x, 0); i++)
    {
      const double item = ortrain_tensor_get_scalar (x, 2 * i + 1);
      g_string_append_printf (text, "%g,", item);
      g_assert_cmpint (ortrain_data_loader_get_item_index (loader, (guint) i), ==, (gint64) item % 1000);
    }
  g_string_append_c (text, batch != NULL ? '|' : '-');
}

/* The batches of a loader, whatever is done to it on the way. */
static char *
use (OrtrainDataset *dataset, guint prefetch, guint batch_size, gboolean shuffle)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, batch_size);
  GString *text = g_string_new (NULL);
  g_object_set (loader, "prefetch", prefetch, "shuffle", shuffle, "seed", (guint64) 4, NULL);
  g_assert_cmpuint (ortrain_data_loader_get_prefetch (loader), ==, prefetch);
  for (guint i = 0; i < 25; i++)
    append_batch (text, loader);
  g_autoptr (GVariant) state = ortrain_data_loader_get_state (loader);
  for (guint i = 0; i < 3; i++)
    append_batch (text, loader);
  ortrain_data_loader_set_batch_size (loader, batch_size + 1);
  for (guint i = 0; i < 3; i++)
    append_batch (text, loader);
  ortrain_data_loader_reset (loader);
  append_batch (text, loader);
  g_assert_true (ortrain_data_loader_set_state (loader, state, &error));
  for (guint i = 0; i < 3; i++)
    append_batch (text, loader);
  ortrain_data_loader_set_shuffle (loader, !shuffle);
  append_batch (text, loader);
  ortrain_data_loader_set_shuffle (loader, TRUE);
  append_batch (text, loader);
  ortrain_data_loader_set_seed (loader, 5);
  append_batch (text, loader);
  ortrain_data_loader_set_drop_last (loader, TRUE);
  for (guint i = 0; i < 6; i++)
    append_batch (text, loader);
  ortrain_data_loader_set_epoch (loader, 7);
  append_batch (text, loader);
  /* a dataset that grows changes the order */
  if (TEST_IS_ITEMS (dataset))
    {
      g_atomic_int_set (&TEST_ITEMS (dataset)->n_items, 24);
      for (guint i = 0; i < 3; i++)
        append_batch (text, loader);
      g_atomic_int_set (&TEST_ITEMS (dataset)->n_items, 23);
    }
  return g_string_free (text, FALSE);
}

static void
test_same (void)
{
  for (guint batch_size = 1; batch_size < 9; batch_size += 3)
    for (guint shuffle = 0; shuffle < 2; shuffle++)
      {
        g_autoptr (TestItems) items = make_items (23, TRUE);
        g_autofree char *expected = use (ORTRAIN_DATASET (items), 0, batch_size, shuffle);
        g_assert_cmpint (items->n_elsewhere, ==, 0);
        static const guint depths[] = { 1, 2, 3, 64 };
        for (guint i = 0; i < G_N_ELEMENTS (depths); i++)
          {
            g_autofree char *text = use (ORTRAIN_DATASET (items), depths[i], batch_size, shuffle);
            g_assert_cmpstr (text, ==, expected);
          }
        g_assert_cmpint (g_atomic_int_get (&items->n_elsewhere), >, 0);
      }
}

/* A class that does not say that it is thread-safe is read by the caller alone. */
static void
test_threads (void)
{
  for (guint safe = 0; safe < 2; safe++)
    {
      g_autoptr (TestItems) items = make_items (20, safe);
      g_assert_true (ortrain_dataset_is_thread_safe (ORTRAIN_DATASET (items)) == (gboolean) safe);
      g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (ORTRAIN_DATASET (items), 5);
      g_assert_cmpuint (ortrain_data_loader_get_prefetch (loader), ==, 2);
      g_autoptr (GString) text = g_string_new (NULL);
      for (guint i = 0; i < 5; i++)
        append_batch (text, loader);
      g_assert_cmpstr (text->str, ==, "0,1,2,3,4,|5,6,7,8,9,|10,11,12,13,14,|15,16,17,18,19,|-");
      g_assert_cmpint (items->n_here, ==, safe ? 1 : 4); /* nothing is read twice, nor of the next epoch */
      g_assert_cmpint (items->n_elsewhere, ==, safe ? 3 : 0);
    }
}

/* The error comes with the batch of the item, and does not move the loader on. */
static void
test_error (void)
{
  g_autoptr (TestItems) items = make_items (20, TRUE);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (ORTRAIN_DATASET (items), 4);
  g_autoptr (GString) text = g_string_new (NULL);
  ortrain_data_loader_set_prefetch (loader, 3);
  g_atomic_int_set (&items->broken, 9);
  append_batch (text, loader);
  append_batch (text, loader);
  for (guint i = 0; i < 2; i++)
    {
      g_autoptr (GError) error = NULL;
      g_assert_null (ortrain_data_loader_next (loader, &error));
      g_assert_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID);
      g_assert_cmpstr (error->message, ==, "Item 9 is broken");
      g_assert_cmpint (ortrain_data_loader_get_item_index (loader, 0), ==, -1);
    }
  g_atomic_int_set (&items->broken, -1);
  for (guint i = 0; i < 4; i++)
    append_batch (text, loader);
  g_assert_cmpstr (text->str, ==, "0,1,2,3,|4,5,6,7,|8,9,10,11,|12,13,14,15,|16,17,18,19,|-");
}

static gpointer
allow_soon (gpointer data)
{
  g_usleep (20000);
  allow (data, 1);
  return NULL;
}

/* Stopping waits for the batch that is being read, and for none that is not begun. */
static void
test_stop (void)
{
  for (guint way = 0; way < 3; way++)
    {
      g_autoptr (TestItems) items = make_items (40, TRUE);
      items->gated = TRUE;
      OrtrainDataLoader *loader = ortrain_data_loader_new (ORTRAIN_DATASET (items), 4);
      ortrain_data_loader_set_prefetch (loader, 4);
      g_autoptr (GString) text = g_string_new (NULL);
      append_batch (text, loader);
      wait_until_reading (items);
      GThread *thread = g_thread_new ("allow", allow_soon, items);
      if (way == 0)
        ortrain_data_loader_reset (loader);
      else if (way == 1)
        ortrain_data_loader_set_prefetch (loader, 0);
      else
        g_object_run_dispose (G_OBJECT (loader));
      g_assert_cmpint (items->n_elsewhere, ==, 1);
      g_assert_cmpint (items->n_waiting, ==, 0);
      g_thread_join (thread);
      g_assert_finalize_object (loader);
    }
}

/* Three batches are in use by turns: the one that the caller has, and two that were read or are. */
static void
test_memory (void)
{
  g_autoptr (TestItems) items = make_items (400, TRUE);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (ORTRAIN_DATASET (items), 4);
  g_autoptr (GHashTable) addresses = g_hash_table_new (NULL, NULL);
  for (guint i = 0; i < 100; i++)
    {
      g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, NULL);
      OrtrainTensor *x = ortrain_tensor_dict_get (batch, "x");
      g_assert_cmpfloat (ortrain_tensor_get_scalar (x, 0), ==, 4 * i);
      g_hash_table_add (addresses, (gpointer) ortrain_tensor_peek (x));
    }
  g_assert_cmpuint (g_hash_table_size (addresses), ==, 3);
}

static void
on_items_changed (GListModel *model, guint position, guint n_removed, guint n_added, gpointer data)
{
  g_assert_not_reached ();
}

/* A batch with a handler is not used again: the handler would run on the loader's thread. */
static void
test_watched (void)
{
  g_autoptr (OrtrainTensor) tokens = ortrain_tensor_new_ints ((gint64[]){ 101 }, 1, (gint64[101]){ 0 }, 101, NULL);
  g_autoptr (OrtrainDataset) dataset = ortrain_token_dataset_new (tokens, 1, "a", "b", NULL);
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, 3);
  for (guint i = 0; i < 34; i++)
    {
      g_autoptr (OrtrainTensorDict) batch = ortrain_data_loader_next (loader, NULL);
      g_assert_nonnull (batch);
      /* a tensor that others reference is replaced, with a signal */
      g_autoptr (OrtrainTensor) one G_GNUC_UNUSED = g_object_ref (ortrain_tensor_dict_get_tensor (batch, 0));
      if (i % 2 == 0)
        g_signal_connect (batch, "items-changed", G_CALLBACK (on_items_changed), NULL);
    }
}

/* Changes of the dataset while it is being read do not reach the thread that reads. */
static void
test_changes (void)
{
  enum
  {
    N = 2048
  };
  const gint64 dims[] = { 4 * N, 16 };
  for (guint way = 0; way < 30; way++)
    {
      g_autoptr (GError) error = NULL;
      g_autoptr (OrtrainTensor) x = ortrain_tensor_new (ORTRAIN_DTYPE_UINT8, dims, 2, NULL);
      g_autoptr (OrtrainTensorDict) tensors = ortrain_tensor_dict_new ();
      memset (ortrain_tensor_peek_writable (x), 3, 4 * N * 16);
      ortrain_tensor_dict_set (tensors, "x", x);
      g_autoptr (OrtrainDataset) dataset = ortrain_tensor_dataset_new (tensors, NULL);
      g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (dataset, N);
      g_autoptr (OrtrainTensorDict) first = ortrain_data_loader_next (loader, NULL);
      g_assert_nonnull (first);
      if (way % 3 == 0)
        ortrain_tensor_release (x);
      else if (way % 3 == 1)
        ortrain_storage_release (ortrain_tensor_get_storage (x));
      else
        g_assert_true (ortrain_tensor_dataset_set_conversion (ORTRAIN_TENSOR_DATASET (dataset), "x",
                                                              ORTRAIN_DTYPE_FLOAT32, 0.5, NULL));
      g_autoptr (OrtrainTensorDict) second = ortrain_data_loader_next (loader, &error);
      g_assert_no_error (error);
      g_assert_cmpfloat (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (second, "x"), N * 16 - 1), ==, 3);
      ortrain_data_loader_reset (loader);
      g_autoptr (OrtrainTensorDict) third = ortrain_data_loader_next (loader, &error);
      if (way % 3 < 2)
        g_assert_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_RELEASED);
      else
        g_assert_cmpfloat (ortrain_tensor_get_scalar (ortrain_tensor_dict_get (third, "x"), N * 16 - 1), ==, 1.5);
    }
}

#ifndef __SANITIZE_THREAD__
/* The child of a fork has none of the threads. */
static void
test_fork (void)
{
  g_autoptr (TestItems) items = make_items (40, TRUE);
  items->gated = TRUE;
  g_autoptr (OrtrainDataLoader) loader = ortrain_data_loader_new (ORTRAIN_DATASET (items), 4);
  ortrain_data_loader_set_prefetch (loader, 2);
  g_autoptr (GString) text = g_string_new (NULL);
  append_batch (text, loader);
  wait_until_reading (items);
  const pid_t child = fork ();
  if (child == 0)
    {
      items->gated = FALSE;
      for (guint i = 0; i < 3; i++)
        append_batch (text, loader);
      g_object_run_dispose (G_OBJECT (loader));
      _exit (strcmp (text->str, "0,1,2,3,|4,5,6,7,|8,9,10,11,|12,13,14,15,|") == 0 ? 0 : 1);
    }
  int status = -1;
  g_assert_cmpint (waitpid (child, &status, 0), ==, child);
  g_assert_cmpint (status, ==, 0);
  allow (items, 40);
  append_batch (text, loader);
  g_assert_cmpstr (text->str, ==, "0,1,2,3,|4,5,6,7,|");
}
#endif

int
main (int argc, char *argv[])
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/prefetch/same", test_same);
  g_test_add_func ("/prefetch/threads", test_threads);
  g_test_add_func ("/prefetch/error", test_error);
  g_test_add_func ("/prefetch/stop", test_stop);
  g_test_add_func ("/prefetch/memory", test_memory);
  g_test_add_func ("/prefetch/watched", test_watched);
  g_test_add_func ("/prefetch/changes", test_changes);
#ifndef __SANITIZE_THREAD__ /* which forbids threads after a fork */
  g_test_add_func ("/prefetch/fork", test_fork);
#endif
  return g_test_run ();
}
