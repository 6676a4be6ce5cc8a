/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "tensor/ortrain-tensor-dict.h"

#include "core/ortrain-text-private.h"
#include "tensor/ortrain-tensor-private.h"

/**
 * OrtrainTensorDict:
 *
 * Named tensors, in the order in which they were set: feeds, outputs, gradients, state. It is also a `GListModel` of
 * [class@Tensor], which can be shown in a list.
 *
 * ```python
 * feeds = Ortrain.TensorDict({"x": x, "labels": labels})      # shares the memory of the arrays
 * feeds["weights"] = np.ones(8, np.float32)
 * feeds.save_npz("feeds.npz")
 * print(feeds.names, Ortrain.TensorDict.new_from_npz("feeds.npz")["x"].numpy().shape)
 * ```
 *
 * In Python, functions that take a dict take any mapping of arrays. One thread at a time may use a dict.
 */

struct _OrtrainTensorDict
{
  GObject parent_instance;
  GPtrArray *names;   /* of char * */
  GPtrArray *tensors; /* of OrtrainTensor *, in the same order */
  GHashTable *index;  /* name (not owned) → position + 1 */
};

static void list_model_init (GListModelInterface *iface);

G_DEFINE_FINAL_TYPE_WITH_CODE (OrtrainTensorDict, ortrain_tensor_dict, G_TYPE_OBJECT,
                               G_IMPLEMENT_INTERFACE (G_TYPE_LIST_MODEL, list_model_init))

enum
{
  PROP_SIZE = 1,
  PROP_NAMES,
  N_PROPERTIES,
};

static GParamSpec *properties[N_PROPERTIES];

static GType
get_item_type (GListModel *model)
{
  return ORTRAIN_TYPE_TENSOR;
}

static guint
get_n_items (GListModel *model)
{
  return ORTRAIN_TENSOR_DICT (model)->tensors->len;
}

static gpointer
get_item (GListModel *model, guint position)
{
  OrtrainTensorDict *self = ORTRAIN_TENSOR_DICT (model);
  return position < self->tensors->len ? g_object_ref (self->tensors->pdata[position]) : NULL;
}

static void
list_model_init (GListModelInterface *iface)
{
  iface->get_item_type = get_item_type;
  iface->get_n_items = get_n_items;
  iface->get_item = get_item;
}

static void
ortrain_tensor_dict_dispose (GObject *object)
{
  OrtrainTensorDict *self = ORTRAIN_TENSOR_DICT (object);
  /* Tensors are big: they go at once, and the object stays usable, as an empty one. */
  g_hash_table_remove_all (self->index);
  g_ptr_array_set_size (self->tensors, 0);
  g_ptr_array_set_size (self->names, 0);
  G_OBJECT_CLASS (ortrain_tensor_dict_parent_class)->dispose (object);
}

static void
ortrain_tensor_dict_finalize (GObject *object)
{
  OrtrainTensorDict *self = ORTRAIN_TENSOR_DICT (object);
  g_hash_table_unref (self->index);
  g_ptr_array_unref (self->tensors);
  g_ptr_array_unref (self->names);
  G_OBJECT_CLASS (ortrain_tensor_dict_parent_class)->finalize (object);
}

static void
ortrain_tensor_dict_get_property (GObject *object, guint id, GValue *value, GParamSpec *pspec)
{
  OrtrainTensorDict *self = ORTRAIN_TENSOR_DICT (object);
  switch (id)
    {
    case PROP_SIZE:
      g_value_set_uint (value, ortrain_tensor_dict_get_size (self));
      break;
    case PROP_NAMES:
      g_value_take_boxed (value, ortrain_tensor_dict_get_names (self));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID (object, id, pspec);
    }
}

static void
ortrain_tensor_dict_class_init (OrtrainTensorDictClass *klass)
{
  GObjectClass *object_class = G_OBJECT_CLASS (klass);
  GParamFlags flags = G_PARAM_READABLE | G_PARAM_STATIC_STRINGS | G_PARAM_EXPLICIT_NOTIFY;
  object_class->dispose = ortrain_tensor_dict_dispose;
  object_class->finalize = ortrain_tensor_dict_finalize;
  object_class->get_property = ortrain_tensor_dict_get_property;

  /**
   * OrtrainTensorDict:size: (getter get_size)
   *
   * How many tensors the dict has. Read-only.
   */
  properties[PROP_SIZE] = g_param_spec_uint ("size", NULL, NULL, 0, G_MAXUINT, 0, flags);

  /**
   * OrtrainTensorDict:names: (getter get_names)
   *
   * The keys, in the order in which they were set. Read-only.
   */
  properties[PROP_NAMES] = g_param_spec_boxed ("names", NULL, NULL, G_TYPE_STRV, flags);

  g_object_class_install_properties (object_class, N_PROPERTIES, properties);
}

static void
ortrain_tensor_dict_init (OrtrainTensorDict *self)
{
  self->names = g_ptr_array_new_with_free_func (g_free);
  self->tensors = g_ptr_array_new_with_free_func (g_object_unref);
  self->index = g_hash_table_new (g_str_hash, g_str_equal);
}

/**
 * ortrain_tensor_dict_new:
 *
 * Creates an empty dict.
 *
 * Returns: (transfer full): the set
 */
OrtrainTensorDict *
ortrain_tensor_dict_new (void)
{
  return g_object_new (ORTRAIN_TYPE_TENSOR_DICT, NULL);
}

/**
 * ortrain_tensor_dict_set:
 * @self: a set of tensors
 * @name: a name
 * @tensor: the tensor
 *
 * Adds a tensor, or replaces the one of that name, whose position it then has.
 */
void
ortrain_tensor_dict_set (OrtrainTensorDict *self, const char *name, OrtrainTensor *tensor)
{
  g_return_if_fail (ORTRAIN_IS_TENSOR_DICT (self));
  g_return_if_fail (name != NULL);
  g_return_if_fail (ORTRAIN_IS_TENSOR (tensor));

  guint position = GPOINTER_TO_UINT (g_hash_table_lookup (self->index, name));
  if (position > 0)
    {
      OrtrainTensor *old = self->tensors->pdata[position - 1];
      if (old == tensor)
        return;
      self->tensors->pdata[position - 1] = g_object_ref (tensor);
      g_list_model_items_changed (G_LIST_MODEL (self), position - 1, 1, 1);
      g_object_unref (old);
      return;
    }
  char *copy = g_strdup (name);
  g_ptr_array_add (self->names, copy);
  g_ptr_array_add (self->tensors, g_object_ref (tensor));
  g_hash_table_insert (self->index, copy, GUINT_TO_POINTER (self->names->len));
  g_list_model_items_changed (G_LIST_MODEL (self), self->names->len - 1, 0, 1);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SIZE]);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_NAMES]);
}

/**
 * ortrain_tensor_dict_get:
 * @self: a set of tensors
 * @name: a name
 *
 * Looks up a tensor by its name.
 *
 * Returns: (transfer none) (nullable): the tensor, owned by the dict, or %NULL if it has no tensor of that name
 */
OrtrainTensor *
ortrain_tensor_dict_get (OrtrainTensorDict *self, const char *name)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (self), NULL);
  g_return_val_if_fail (name != NULL, NULL);
  guint position = GPOINTER_TO_UINT (g_hash_table_lookup (self->index, name));
  return position > 0 ? self->tensors->pdata[position - 1] : NULL;
}

/**
 * ortrain_tensor_dict_contains:
 * @self: a set of tensors
 * @name: a name
 *
 * Tells whether there is a tensor of a name.
 *
 * Returns: %TRUE if there is one
 */
gboolean
ortrain_tensor_dict_contains (OrtrainTensorDict *self, const char *name)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (self), FALSE);
  g_return_val_if_fail (name != NULL, FALSE);
  return g_hash_table_contains (self->index, name);
}

/**
 * ortrain_tensor_dict_remove:
 * @self: a set of tensors
 * @name: a name
 *
 * Removes a tensor; the tensors after it move up.
 *
 * Returns: %FALSE if there was none of that name
 */
gboolean
ortrain_tensor_dict_remove (OrtrainTensorDict *self, const char *name)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (self), FALSE);
  g_return_val_if_fail (name != NULL, FALSE);
  guint position = GPOINTER_TO_UINT (g_hash_table_lookup (self->index, name));
  if (position == 0)
    return FALSE;
  g_hash_table_remove (self->index, name);
  g_ptr_array_remove_index (self->names, position - 1);
  g_ptr_array_remove_index (self->tensors, position - 1);
  for (guint i = position - 1; i < self->names->len; i++)
    g_hash_table_insert (self->index, self->names->pdata[i], GUINT_TO_POINTER (i + 1));
  g_list_model_items_changed (G_LIST_MODEL (self), position - 1, 1, 0);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_SIZE]);
  g_object_notify_by_pspec (G_OBJECT (self), properties[PROP_NAMES]);
  return TRUE;
}

/**
 * ortrain_tensor_dict_get_size: (get-property size)
 * @self: a set of tensors
 *
 * Gets how many tensors the dict has.
 *
 * Returns: the number
 */
guint
ortrain_tensor_dict_get_size (OrtrainTensorDict *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (self), 0);
  return self->tensors->len;
}

/**
 * ortrain_tensor_dict_get_names: (get-property names)
 * @self: a set of tensors
 *
 * Gets the keys, in the order in which they were set.
 *
 * Returns: (transfer full) (array zero-terminated=1): the names
 */
char **
ortrain_tensor_dict_get_names (OrtrainTensorDict *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (self), NULL);
  char **names = g_new (char *, self->names->len + 1);
  for (guint i = 0; i < self->names->len; i++)
    names[i] = g_strdup (self->names->pdata[i]);
  names[self->names->len] = NULL;
  return names;
}

/**
 * ortrain_tensor_dict_get_name:
 * @self: a set of tensors
 * @index: a position
 *
 * Gets the name at a position, valid until the dict is changed.
 *
 * Returns: (transfer none) (nullable): the name, or %NULL past the end
 */
const char *
ortrain_tensor_dict_get_name (OrtrainTensorDict *self, guint index)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (self), NULL);
  return index < self->names->len ? self->names->pdata[index] : NULL;
}

/**
 * ortrain_tensor_dict_get_tensor:
 * @self: a set of tensors
 * @index: a position
 *
 * Gets the tensor at a position.
 *
 * Returns: (transfer none) (nullable): the tensor, owned by the dict, or %NULL past the end
 */
OrtrainTensor *
ortrain_tensor_dict_get_tensor (OrtrainTensorDict *self, guint index)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (self), NULL);
  return index < self->tensors->len ? self->tensors->pdata[index] : NULL;
}

/**
 * ortrain_tensor_dict_to_string:
 * @self: a set of tensors
 *
 * Describes each tensor in a line.
 *
 * Returns: (transfer full): the text
 */
char *
ortrain_tensor_dict_to_string (OrtrainTensorDict *self)
{
  g_return_val_if_fail (ORTRAIN_IS_TENSOR_DICT (self), NULL);
  GString *s = g_string_new (NULL);
  for (guint i = 0; i < self->names->len; i++)
    {
      g_autofree char *line = ortrain_tensor_to_string (self->tensors->pdata[i]);
      g_string_append_printf (s, "%s%s: %s", i > 0 ? "\n" : "", ortrain_text_show ((char *) self->names->pdata[i]),
                              line);
    }
  return g_string_free (s, FALSE);
}
