/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-array-model-private.h"

struct _OrtrainArrayModel
{
  GObject parent_instance;
  GType item_type;
  GPtrArray *array;
  guint n_reported; /* the number of items that observers know of */
};

static void ortrain_array_model_list_init (GListModelInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (OrtrainArrayModel, ortrain_array_model, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, ortrain_array_model_list_init))

static GType
ortrain_array_model_get_item_type (GListModel *model)
{
  return ORTRAIN_ARRAY_MODEL (model)->item_type;
}

static guint
ortrain_array_model_get_n_items (GListModel *model)
{
  return ORTRAIN_ARRAY_MODEL (model)->array->len;
}

static gpointer
ortrain_array_model_get_item (GListModel *model, guint position)
{
  GPtrArray *array = ORTRAIN_ARRAY_MODEL (model)->array;
  return position < array->len ? g_object_ref (array->pdata[position]) : NULL;
}

static void
ortrain_array_model_finalize (GObject *object)
{
  g_ptr_array_unref (ORTRAIN_ARRAY_MODEL (object)->array);
  G_OBJECT_CLASS (ortrain_array_model_parent_class)->finalize (object);
}

static void
ortrain_array_model_class_init (OrtrainArrayModelClass *klass)
{
  G_OBJECT_CLASS (klass)->finalize = ortrain_array_model_finalize;
}

static void
ortrain_array_model_init (OrtrainArrayModel *self)
{
}

static void
ortrain_array_model_list_init (GListModelInterface *iface)
{
  iface->get_item_type = ortrain_array_model_get_item_type;
  iface->get_n_items = ortrain_array_model_get_n_items;
  iface->get_item = ortrain_array_model_get_item;
}

OrtrainArrayModel *
ortrain_array_model_new (GType item_type, GPtrArray *array)
{
  OrtrainArrayModel *self = g_object_new (ORTRAIN_TYPE_ARRAY_MODEL, NULL);
  self->item_type = item_type;
  self->array = g_ptr_array_ref (array);
  self->n_reported = array->len;
  return self;
}

void
ortrain_array_model_refresh (OrtrainArrayModel *self)
{
  guint before = self->n_reported;
  self->n_reported = self->array->len;
  g_list_model_items_changed (G_LIST_MODEL (self), 0, before, self->n_reported);
}
