/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "kernel-abi/ortrain-attributes-private.h"

#include <string.h>

/* Nodes have a handful of attributes: a plain array, searched from the front, is smaller and faster than a table.
 * Copies share it until one of them changes: graphs are copied for each plan. */
typedef struct
{
  gatomicrefcount ref_count;
  GArray *array; /* of OrtrainAttribute */
} Items;

struct _OrtrainAttributes
{
  Items *items; /* NULL: none yet, as with most nodes */
};

static void
attribute_clear (gpointer data)
{
  OrtrainAttribute *a = data;
  switch (a->kind)
    {
    case ORTRAIN_ATTRIBUTE_FLOAT:
    case ORTRAIN_ATTRIBUTE_INT:
      break;
    case ORTRAIN_ATTRIBUTE_STRING:
      g_free (a->v.s);
      break;
    case ORTRAIN_ATTRIBUTE_TENSOR:
      g_clear_object (&a->v.t);
      break;
    case ORTRAIN_ATTRIBUTE_GRAPH:
      g_clear_object (&a->v.g);
      break;
    case ORTRAIN_ATTRIBUTE_FLOATS:
      g_free (a->v.floats);
      break;
    case ORTRAIN_ATTRIBUTE_INTS:
      g_free (a->v.ints);
      break;
    case ORTRAIN_ATTRIBUTE_STRINGS:
      g_strfreev (a->v.strings);
      break;
    case ORTRAIN_ATTRIBUTE_TENSORS:
      for (gsize i = 0; i < a->n; i++)
        g_object_unref (a->v.tensors[i]);
      g_free (a->v.tensors);
      break;
    case ORTRAIN_ATTRIBUTE_GRAPHS:
      for (gsize i = 0; i < a->n; i++)
        g_object_unref (a->v.graphs[i]);
      g_free (a->v.graphs);
      break;
    }
  g_free (a->name);
}

static void
items_unref (Items *items)
{
  if (!g_atomic_ref_count_dec (&items->ref_count))
    return;
  g_array_unref (items->array);
  g_free (items);
}

OrtrainAttributes *
ortrain_attributes_new (void)
{
  OrtrainAttributes *self = g_slice_new (OrtrainAttributes);
  self->items = NULL;
  return self;
}

void
ortrain_attributes_free (OrtrainAttributes *self)
{
  if (self == NULL)
    return;
  g_clear_pointer (&self->items, items_unref);
  g_slice_free (OrtrainAttributes, self);
}

guint
ortrain_attributes_get_n (const OrtrainAttributes *self)
{
  return self != NULL && self->items != NULL ? self->items->array->len : 0;
}

const OrtrainAttribute *
ortrain_attributes_get_nth (const OrtrainAttributes *self, guint index)
{
  return index < ortrain_attributes_get_n (self) ? &g_array_index (self->items->array, OrtrainAttribute, index) : NULL;
}

const OrtrainAttribute *
ortrain_attributes_lookup (const OrtrainAttributes *self, const char *name)
{
  for (guint i = 0; i < ortrain_attributes_get_n (self); i++)
    {
      const OrtrainAttribute *a = &g_array_index (self->items->array, OrtrainAttribute, i);
      if (strcmp (a->name, name) == 0)
        return a;
    }
  return NULL;
}

gboolean
ortrain_attributes_has (const OrtrainAttributes *self, const char *name)
{
  return ortrain_attributes_lookup (self, name) != NULL;
}

static const OrtrainAttribute *
lookup_kind (const OrtrainAttributes *self, const char *name, OrtrainAttributeKind kind)
{
  const OrtrainAttribute *a = ortrain_attributes_lookup (self, name);
  return a != NULL && a->kind == kind ? a : NULL;
}

gint64
ortrain_attributes_get_int (const OrtrainAttributes *self, const char *name, gint64 fallback)
{
  const OrtrainAttribute *a = lookup_kind (self, name, ORTRAIN_ATTRIBUTE_INT);
  return a != NULL ? a->v.i : fallback;
}

double
ortrain_attributes_get_float (const OrtrainAttributes *self, const char *name, double fallback)
{
  const OrtrainAttribute *a = lookup_kind (self, name, ORTRAIN_ATTRIBUTE_FLOAT);
  return a != NULL ? a->v.f : fallback;
}

const char *
ortrain_attributes_get_string (const OrtrainAttributes *self, const char *name, const char *fallback)
{
  const OrtrainAttribute *a = lookup_kind (self, name, ORTRAIN_ATTRIBUTE_STRING);
  return a != NULL ? a->v.s : fallback;
}

const gint64 *
ortrain_attributes_get_ints (const OrtrainAttributes *self, const char *name, gsize *n)
{
  const OrtrainAttribute *a = lookup_kind (self, name, ORTRAIN_ATTRIBUTE_INTS);
  if (n != NULL)
    *n = a != NULL ? a->n : 0;
  return a != NULL ? a->v.ints : NULL;
}

const float *
ortrain_attributes_get_floats (const OrtrainAttributes *self, const char *name, gsize *n)
{
  const OrtrainAttribute *a = lookup_kind (self, name, ORTRAIN_ATTRIBUTE_FLOATS);
  if (n != NULL)
    *n = a != NULL ? a->n : 0;
  return a != NULL ? a->v.floats : NULL;
}

OrtrainTensor *
ortrain_attributes_get_tensor (const OrtrainAttributes *self, const char *name)
{
  const OrtrainAttribute *a = lookup_kind (self, name, ORTRAIN_ATTRIBUTE_TENSOR);
  return a != NULL ? a->v.t : NULL;
}

GObject *
ortrain_attributes_get_graph (const OrtrainAttributes *self, const char *name)
{
  const OrtrainAttribute *a = lookup_kind (self, name, ORTRAIN_ATTRIBUTE_GRAPH);
  return a != NULL ? a->v.g : NULL;
}

/* Never NULL, so that an empty list and an absent one can be told apart. */
static gpointer
dup_array (gconstpointer data, gsize n, gsize size)
{
  gpointer copy = g_malloc (MAX (n, 1) * size);
  if (n > 0)
    memcpy (copy, data, n * size);
  return copy;
}

static gpointer
dup_objects (gpointer data, gsize n)
{
  GObject **objects = dup_array (data, n, sizeof (GObject *));
  for (gsize i = 0; i < n; i++)
    g_object_ref (objects[i]);
  return objects;
}

static OrtrainAttribute
attribute_copy (const OrtrainAttribute *attribute)
{
  OrtrainAttribute a = *attribute;
  switch (a.kind)
    {
    case ORTRAIN_ATTRIBUTE_FLOAT:
    case ORTRAIN_ATTRIBUTE_INT:
      break;
    case ORTRAIN_ATTRIBUTE_STRING:
      a.v.s = g_strdup (a.v.s);
      break;
    case ORTRAIN_ATTRIBUTE_TENSOR:
      g_object_ref (a.v.t);
      break;
    case ORTRAIN_ATTRIBUTE_GRAPH:
      g_object_ref (a.v.g);
      break;
    case ORTRAIN_ATTRIBUTE_FLOATS:
      a.v.floats = dup_array (a.v.floats, a.n, sizeof (float));
      break;
    case ORTRAIN_ATTRIBUTE_INTS:
      a.v.ints = dup_array (a.v.ints, a.n, sizeof (gint64));
      break;
    case ORTRAIN_ATTRIBUTE_STRINGS:
      a.v.strings = g_strdupv (a.v.strings);
      break;
    case ORTRAIN_ATTRIBUTE_TENSORS:
      a.v.tensors = dup_objects (a.v.tensors, a.n);
      break;
    case ORTRAIN_ATTRIBUTE_GRAPHS:
      a.v.graphs = dup_objects (a.v.graphs, a.n);
      break;
    }
  a.name = g_strdup (a.name);
  return a;
}

/* The array, of this one alone. */
static GArray *
get_own_items (OrtrainAttributes *self)
{
  Items *shared = self->items;
  if (shared != NULL && g_atomic_ref_count_compare (&shared->ref_count, 1))
    return shared->array;
  Items *own = g_new (Items, 1);
  g_atomic_ref_count_init (&own->ref_count);
  own->array = g_array_new (FALSE, FALSE, sizeof (OrtrainAttribute));
  g_array_set_clear_func (own->array, attribute_clear);
  for (guint i = 0; shared != NULL && i < shared->array->len; i++)
    {
      const OrtrainAttribute a = attribute_copy (&g_array_index (shared->array, OrtrainAttribute, i));
      g_array_append_val (own->array, a);
    }
  self->items = own;
  g_clear_pointer (&shared, items_unref);
  return own->array;
}

static gboolean
find (const GArray *items, const char *name, guint *index)
{
  for (*index = 0; *index < items->len; ++*index)
    if (strcmp (g_array_index (items, OrtrainAttribute, *index).name, name) == 0)
      return TRUE;
  return FALSE;
}

void
ortrain_attributes_remove (OrtrainAttributes *self, const char *name)
{
  guint index;
  if (self->items != NULL && find (self->items->array, name, &index))
    g_array_remove_index (get_own_items (self), index);
}

/* Takes ownership of the memory that the value points to. An attribute that exists keeps its place. */
static void
put (OrtrainAttributes *self, OrtrainAttribute attribute, const char *name)
{
  GArray *items = get_own_items (self);
  guint index;
  attribute.name = g_strdup (name);
  if (find (items, name, &index))
    {
      OrtrainAttribute was = g_array_index (items, OrtrainAttribute, index);
      g_array_index (items, OrtrainAttribute, index) = attribute;
      attribute_clear (&was);
    }
  else
    g_array_append_val (items, attribute);
}

void
ortrain_attributes_set_int (OrtrainAttributes *self, const char *name, gint64 value)
{
  put (self, (OrtrainAttribute){ .kind = ORTRAIN_ATTRIBUTE_INT, .n = 1, .v.i = value }, name);
}

void
ortrain_attributes_set_float (OrtrainAttributes *self, const char *name, double value)
{
  put (self, (OrtrainAttribute){ .kind = ORTRAIN_ATTRIBUTE_FLOAT, .n = 1, .v.f = value }, name);
}

void
ortrain_attributes_set_string (OrtrainAttributes *self, const char *name, const char *value)
{
  put (self, (OrtrainAttribute){ .kind = ORTRAIN_ATTRIBUTE_STRING, .n = 1, .v.s = g_strdup (value) }, name);
}

void
ortrain_attributes_set_strings (OrtrainAttributes *self, const char *name, const char *const *values, gsize n)
{
  char **strings = g_new0 (char *, n + 1);
  for (gsize i = 0; i < n; i++)
    strings[i] = g_strdup (values[i]);
  put (self, (OrtrainAttribute){ .kind = ORTRAIN_ATTRIBUTE_STRINGS, .n = n, .v.strings = strings }, name);
}

void
ortrain_attributes_set_ints (OrtrainAttributes *self, const char *name, const gint64 *values, gsize n)
{
  gint64 *ints = dup_array (values, n, sizeof *values);
  put (self, (OrtrainAttribute){ .kind = ORTRAIN_ATTRIBUTE_INTS, .n = n, .v.ints = ints }, name);
}

void
ortrain_attributes_set_floats (OrtrainAttributes *self, const char *name, const float *values, gsize n)
{
  float *floats = dup_array (values, n, sizeof *values);
  put (self, (OrtrainAttribute){ .kind = ORTRAIN_ATTRIBUTE_FLOATS, .n = n, .v.floats = floats }, name);
}

void
ortrain_attributes_set_tensor (OrtrainAttributes *self, const char *name, OrtrainTensor *value)
{
  put (self, (OrtrainAttribute){ .kind = ORTRAIN_ATTRIBUTE_TENSOR, .n = 1, .v.t = g_object_ref (value) }, name);
}

void
ortrain_attributes_set_tensors (OrtrainAttributes *self, const char *name, OrtrainTensor *const *values, gsize n)
{
  OrtrainTensor **tensors = dup_objects ((gpointer) values, n);
  put (self, (OrtrainAttribute){ .kind = ORTRAIN_ATTRIBUTE_TENSORS, .n = n, .v.tensors = tensors }, name);
}

void
ortrain_attributes_set_graph (OrtrainAttributes *self, const char *name, GObject *value)
{
  put (self, (OrtrainAttribute){ .kind = ORTRAIN_ATTRIBUTE_GRAPH, .n = 1, .v.g = g_object_ref (value) }, name);
}

void
ortrain_attributes_set_graphs (OrtrainAttributes *self, const char *name, GObject *const *values, gsize n)
{
  GObject **graphs = dup_objects ((gpointer) values, n);
  put (self, (OrtrainAttribute){ .kind = ORTRAIN_ATTRIBUTE_GRAPHS, .n = n, .v.graphs = graphs }, name);
}

void
ortrain_attributes_assign (OrtrainAttributes *self, const OrtrainAttributes *source)
{
  Items *items = source != NULL ? source->items : NULL;
  if (items != NULL)
    g_atomic_ref_count_inc (&items->ref_count);
  g_clear_pointer (&self->items, items_unref);
  self->items = items;
}

OrtrainAttributes *
ortrain_attributes_copy (const OrtrainAttributes *self)
{
  OrtrainAttributes *copy = ortrain_attributes_new ();
  ortrain_attributes_assign (copy, self);
  return copy;
}

/* NaN equals NaN: the stored bits are compared. */
static gboolean
attribute_equal (const OrtrainAttribute *a, const OrtrainAttribute *b)
{
  if (a->kind != b->kind || a->n != b->n)
    return FALSE;
  switch (a->kind)
    {
    case ORTRAIN_ATTRIBUTE_FLOAT:
      return memcmp (&a->v.f, &b->v.f, sizeof a->v.f) == 0;
    case ORTRAIN_ATTRIBUTE_INT:
      return a->v.i == b->v.i;
    case ORTRAIN_ATTRIBUTE_STRING:
      return g_strcmp0 (a->v.s, b->v.s) == 0;
    case ORTRAIN_ATTRIBUTE_TENSOR:
      return ortrain_tensor_equal (a->v.t, b->v.t);
    case ORTRAIN_ATTRIBUTE_GRAPH:
      return a->v.g == b->v.g;
    case ORTRAIN_ATTRIBUTE_FLOATS:
      return memcmp (a->v.floats, b->v.floats, a->n * sizeof (float)) == 0;
    case ORTRAIN_ATTRIBUTE_INTS:
      return memcmp (a->v.ints, b->v.ints, a->n * sizeof (gint64)) == 0;
    case ORTRAIN_ATTRIBUTE_STRINGS:
      for (gsize i = 0; i < a->n; i++)
        if (g_strcmp0 (a->v.strings[i], b->v.strings[i]) != 0)
          return FALSE;
      return TRUE;
    case ORTRAIN_ATTRIBUTE_TENSORS:
      for (gsize i = 0; i < a->n; i++)
        if (!ortrain_tensor_equal (a->v.tensors[i], b->v.tensors[i]))
          return FALSE;
      return TRUE;
    case ORTRAIN_ATTRIBUTE_GRAPHS:
      return memcmp (a->v.graphs, b->v.graphs, a->n * sizeof (GObject *)) == 0;
    }
  return FALSE;
}

gboolean
ortrain_attributes_equal (const OrtrainAttributes *a, const OrtrainAttributes *b)
{
  if (ortrain_attributes_get_n (a) != ortrain_attributes_get_n (b))
    return FALSE;
  for (guint i = 0; i < ortrain_attributes_get_n (a); i++)
    {
      const OrtrainAttribute *x = ortrain_attributes_get_nth (a, i);
      const OrtrainAttribute *y = ortrain_attributes_lookup (b, x->name);
      if (y == NULL || !attribute_equal (x, y))
        return FALSE;
    }
  return TRUE;
}
