/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-object-list-private.h"

#define N_ITEMS 5

static OrtrainObjectList *
make_list (GPtrArray *items)
{
  OrtrainObjectList *list = ortrain_object_list_new (G_TYPE_CANCELLABLE);
  for (guint i = 0; i < N_ITEMS; i++)
    {
      g_ptr_array_add (items, g_cancellable_new ());
      ortrain_object_list_append (list, items->pdata[i]);
    }
  return list;
}

typedef struct
{
  GListModel *list;
  GPtrArray *items;
  guint step; /* from one position to the next */
} Reader;

static gpointer
read_items (gpointer data)
{
  const Reader *self = data;
  guint n_wrong = 0;
  for (guint i = 0, at = 0; i < 2000000 * N_ITEMS; i++, at = (at + self->step) % N_ITEMS)
    {
      g_autoptr (GObject) item = g_list_model_get_item (self->list, at);
      n_wrong += item != self->items->pdata[at];
    }
  return GUINT_TO_POINTER (n_wrong);
}

/* A GListStore fails this more often than not: it has other items, or none, or crashes. */
static void
test_threads (void)
{
  g_autoptr (GPtrArray) items = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (OrtrainObjectList) list = make_list (items);
  Reader readers[] = { { G_LIST_MODEL (list), items, 1 }, { G_LIST_MODEL (list), items, N_ITEMS - 1 } };
  GThread *threads[G_N_ELEMENTS (readers)];
  for (guint i = 0; i < G_N_ELEMENTS (readers); i++)
    threads[i] = g_thread_new ("reader", read_items, &readers[i]);
  for (guint i = 0; i < G_N_ELEMENTS (readers); i++)
    g_assert_cmpuint (GPOINTER_TO_UINT (g_thread_join (threads[i])), ==, 0);
}

static void
note_change (GListModel *list, guint position, guint n_removed, guint n_added, guint *last)
{
  last[0] = position;
  last[1] = n_removed;
  last[2] = n_added;
}

static void
test_changes (void)
{
  g_autoptr (GPtrArray) array = g_ptr_array_new_with_free_func (g_object_unref);
  g_autoptr (OrtrainObjectList) list = ortrain_object_list_new_over (G_TYPE_CANCELLABLE, array);
  g_autoptr (GCancellable) item = g_cancellable_new ();
  guint last[3] = { 9, 9, 9 };
  g_signal_connect (list, "items-changed", G_CALLBACK (note_change), last);
  g_assert_true (g_list_model_get_item_type (G_LIST_MODEL (list)) == G_TYPE_CANCELLABLE);
  g_assert_null (g_list_model_get_item (G_LIST_MODEL (list), 0));

  g_ptr_array_add (array, g_object_ref (item));
  g_ptr_array_add (array, g_object_ref (item));
  ortrain_object_list_refresh (list);
  g_assert_cmpmem (last, sizeof last, ((guint[]){ 0, 0, 2 }), sizeof last);
  ortrain_object_list_append (list, item);
  g_assert_cmpmem (last, sizeof last, ((guint[]){ 2, 0, 1 }), sizeof last);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (list)), ==, 3);
  g_autoptr (GCancellable) third = g_list_model_get_item (G_LIST_MODEL (list), 2);
  g_assert_true (third == item);
  g_assert_null (g_list_model_get_item (G_LIST_MODEL (list), 3));
  ortrain_object_list_remove_all (list);
  g_assert_cmpmem (last, sizeof last, ((guint[]){ 0, 3, 0 }), sizeof last);
  g_assert_cmpuint (g_list_model_get_n_items (G_LIST_MODEL (list)), ==, 0);
}

int
main (int argc, char **argv)
{
  g_test_init (&argc, &argv, NULL);
  g_test_add_func ("/object-list/threads", test_threads);
  g_test_add_func ("/object-list/changes", test_changes);
  return g_test_run ();
}
