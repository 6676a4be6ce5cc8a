/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-graph-private.h"

/* The readers of a value: a list, searched from its end, since the readers added last are mostly removed first. For a
 * value with many readers, a table holds the position of each in the list; removing one moves the last one to its
 * position. */

#define MANY 128

typedef struct
{
  OrtrainUse use;
  guint position;
} UsePosition;

static guint
use_hash (gconstpointer key)
{
  const OrtrainUse *use = key;
  return g_direct_hash (use->node) + use->index * 2654435761u;
}

static gboolean
use_equal (gconstpointer a, gconstpointer b)
{
  const OrtrainUse *x = a, *y = b;
  return x->node == y->node && x->index == y->index;
}

static void
set_position (GHashTable *positions, OrtrainUse use, guint position)
{
  UsePosition *entry = g_hash_table_lookup (positions, &use);
  if (entry == NULL)
    {
      entry = g_new (UsePosition, 1);
      entry->use = use;
      g_hash_table_add (positions, entry);
    }
  entry->position = position;
}

static GHashTable *
find_positions (OrtrainValue *value)
{
  GHashTable *many = value->graph != NULL ? value->graph->many_uses : NULL;
  return many != NULL ? g_hash_table_lookup (many, value) : NULL;
}

static GHashTable *
create_positions (OrtrainValue *value)
{
  OrtrainGraph *graph = value->graph;
  GHashTable *positions = g_hash_table_new_full (use_hash, use_equal, g_free, NULL);
  for (guint i = 0; i < value->uses.n; i++)
    set_position (positions, value->uses.items[i], i);
  if (graph->many_uses == NULL)
    graph->many_uses = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_hash_table_unref);
  g_hash_table_insert (graph->many_uses, value, positions);
  return positions;
}

void
ortrain_value_add_use (OrtrainValue *self, OrtrainNode *node, guint index)
{
  OrtrainUse use = { node, index };
  GHashTable *positions = find_positions (self);
  if (positions != NULL)
    set_position (positions, use, self->uses.n);
  OrtrainUses *uses = &self->uses;
  if (uses->items == NULL)
    {
      uses->items = &uses->single;
      uses->n_allocated = 1;
    }
  if (uses->n == uses->n_allocated)
    {
      uses->n_allocated *= 2;
      uses->items = g_renew (OrtrainUse, uses->items != &uses->single ? uses->items : NULL, uses->n_allocated);
      if (uses->n == 1)
        uses->items[0] = uses->single;
    }
  uses->items[uses->n++] = use;
}

void
ortrain_value_clear_uses (OrtrainValue *self)
{
  if (self->uses.items != &self->uses.single)
    g_free (self->uses.items);
  self->uses = (OrtrainUses){ 0 };
}

void
ortrain_value_remove_use (OrtrainValue *self, OrtrainNode *node, guint index)
{
  const OrtrainUse use = { node, index };
  GHashTable *positions = find_positions (self);
  if (positions == NULL && self->uses.n >= MANY && self->graph != NULL)
    positions = create_positions (self);
  if (positions == NULL)
    {
      for (guint i = self->uses.n; i-- > 0;)
        if (use_equal (&self->uses.items[i], &use))
          {
            self->uses.n--;
            for (guint k = i; k < self->uses.n; k++)
              self->uses.items[k] = self->uses.items[k + 1];
            return;
          }
      return;
    }
  const UsePosition *entry = g_hash_table_lookup (positions, &use);
  if (entry == NULL)
    return;
  const guint position = entry->position;
  g_hash_table_remove (positions, &use);
  self->uses.items[position] = self->uses.items[--self->uses.n];
  if (position < self->uses.n)
    set_position (positions, self->uses.items[position], position);
  if (self->uses.n == 0)
    g_hash_table_remove (self->graph->many_uses, self);
}
