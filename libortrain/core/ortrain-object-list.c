/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "core/ortrain-object-list-private.h"

struct _OrtrainObjectList
{
  GObject parent_instance;
  GType item_type;
  GPtrArray *items;
  guint n_reported; /* the number of items that observers know of */
};

static GType
ortrain_object_list_get_item_type (GListModel *list)
{
  return ORTRAIN_OBJECT_LIST (list)->item_type;
}

static guint
ortrain_object_list_get_n_items (GListModel *list)
{
  return ORTRAIN_OBJECT_LIST (list)->items->len;
}

static gpointer
ortrain_object_list_get_item (GListModel *list, guint position)
{
  const GPtrArray *items = ORTRAIN_OBJECT_LIST (list)->items;
  return position < items->len ? g_object_ref (items->pdata[position]) : NULL;
}

static void
ortrain_object_list_list_model_init (GListModelInterface *iface)
{
  iface->get_item_type = ortrain_object_list_get_item_type;
  iface->get_n_items = ortrain_object_list_get_n_items;
  iface->get_item = ortrain_object_list_get_item;
}

G_DEFINE_FINAL_TYPE_WITH_CODE (OrtrainObjectList, ortrain_object_list, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, ortrain_object_list_list_model_init))

static void
ortrain_object_list_finalize (GObject *object)
{
  g_ptr_array_unref (ORTRAIN_OBJECT_LIST (object)->items);

  G_OBJECT_CLASS (ortrain_object_list_parent_class)->finalize (object);
}

static void
ortrain_object_list_class_init (OrtrainObjectListClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = ortrain_object_list_finalize;
}

static void
ortrain_object_list_init (OrtrainObjectList *self)
{
}

OrtrainObjectList *
ortrain_object_list_new_over (GType item_type, GPtrArray *items)
{
  OrtrainObjectList *self = g_object_new (ORTRAIN_TYPE_OBJECT_LIST, NULL);
  self->item_type = item_type;
  self->items = g_ptr_array_ref (items);
  self->n_reported = items->len;
  return self;
}

OrtrainObjectList *
ortrain_object_list_new (GType item_type)
{
  g_autoptr (GPtrArray) items = g_ptr_array_new_with_free_func (g_object_unref);
  return ortrain_object_list_new_over (item_type, items);
}

void
ortrain_object_list_append (OrtrainObjectList *self, gpointer item)
{
  const guint position = self->n_reported++;
  g_ptr_array_add (self->items, g_object_ref (item));
  g_list_model_items_changed (G_LIST_MODEL (self), position, 0, 1);
}

void
ortrain_object_list_remove_all (OrtrainObjectList *self)
{
  g_ptr_array_set_size (self->items, 0);
  ortrain_object_list_refresh (self);
}

void
ortrain_object_list_refresh (OrtrainObjectList *self)
{
  const guint before = self->n_reported;
  self->n_reported = self->items->len;
  g_list_model_items_changed (G_LIST_MODEL (self), 0, before, self->n_reported);
}
