/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "graph/ortrain-graph-private.h"

/* Who reads a value. A list, searched from its end, since what was added last mostly goes first. Of a value with many
 * readers a table says where in the list each of them stands, and the last one takes the place of one that goes. */

#define MANY 128

typedef struct
{
  OrtrainUse use;
  guint position;
} Place;

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
set_place (GHashTable *places, OrtrainUse use, guint position)
{
  Place *place = g_hash_table_lookup (places, &use);
  if (place == NULL)
    {
      place = g_new (Place, 1);
      place->use = use;
      g_hash_table_add (places, place);
    }
  place->position = position;
}

static GHashTable *
find_places (OrtrainValue *value)
{
  GHashTable *many = value->graph != NULL ? value->graph->many_uses : NULL;
  return many != NULL ? g_hash_table_lookup (many, value) : NULL;
}

static GHashTable *
make_places (OrtrainValue *value)
{
  OrtrainGraph *graph = value->graph;
  GHashTable *places = g_hash_table_new_full (use_hash, use_equal, g_free, NULL);
  for (guint i = 0; i < value->uses.n; i++)
    set_place (places, value->uses.items[i], i);
  if (graph->many_uses == NULL)
    graph->many_uses = g_hash_table_new_full (NULL, NULL, NULL, (GDestroyNotify) g_hash_table_unref);
  g_hash_table_insert (graph->many_uses, value, places);
  return places;
}

void
ortrain_value_add_use (OrtrainValue *self, OrtrainNode *node, guint index)
{
  OrtrainUse use = { node, index };
  GHashTable *places = find_places (self);
  if (places != NULL)
    set_place (places, use, self->uses.n);
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
  GHashTable *places = find_places (self);
  if (places == NULL && self->uses.n >= MANY && self->graph != NULL)
    places = make_places (self);
  if (places == NULL)
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
  const Place *place = g_hash_table_lookup (places, &use);
  if (place == NULL)
    return;
  const guint position = place->position;
  g_hash_table_remove (places, &use);
  self->uses.items[position] = self->uses.items[--self->uses.n];
  if (position < self->uses.n)
    set_place (places, self->uses.items[position], position);
  if (self->uses.n == 0)
    g_hash_table_remove (self->graph->many_uses, self);
}
