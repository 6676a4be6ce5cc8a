/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-item-order-private.h"

#include "core/ortrain-errors.h"
#include "core/ortrain-philox-private.h"

/* The word that separates shuffling from the other users of random numbers with the same seed. */
#define SHUFFLE_NODE 0x73687566u

/* A number below `limit`, all equally likely (Lemire's method). */
static guint32
random_below (const OrtrainPhiloxKey *key, guint64 *counter, guint32 limit)
{
  for (;;)
    {
      guint32 words[4];
      ortrain_philox (key, *counter >> 2, words);
      guint64 product = (guint64) words[(*counter)++ & 3] * limit;
      if ((guint32) product >= (guint32) -limit % limit)
        return (guint32) (product >> 32);
    }
}

gboolean
ortrain_item_order_ensure (OrtrainItemOrder *self, guint64 length, guint64 seed, guint64 epoch, GError **error)
{
  if (self->items != NULL && self->length == length && self->seed == seed && self->epoch == epoch)
    return TRUE;
  if (length > G_MAXUINT32)
    {
      g_set_error (error, ORTRAIN_DATA_ERROR, ORTRAIN_DATA_ERROR_INVALID,
                   "Cannot shuffle %" G_GUINT64_FORMAT " items, the limit is %u; unset shuffle, or slice the dataset",
                   length, G_MAXUINT32);
      return FALSE;
    }
  if (self->items == NULL || self->length != length)
    {
      ortrain_item_order_clear (self);
      self->items = g_try_new (guint32, length);
      if (self->items == NULL)
        {
          g_set_error (error, ORTRAIN_TENSOR_ERROR, ORTRAIN_TENSOR_ERROR_NO_MEMORY,
                       "Cannot allocate memory for the order of %" G_GUINT64_FORMAT " items", length);
          return FALSE;
        }
    }
  /* Epochs above 2^32 go into the key, too. */
  OrtrainPhiloxKey key = { seed ^ (epoch >> 32 << 32), (guint32) epoch, SHUFFLE_NODE };
  guint64 counter = 0;
  for (guint64 i = 0; i < length; i++)
    self->items[i] = (guint32) i;
  for (guint64 i = length; i > 1; i--)
    {
      guint32 j = random_below (&key, &counter, (guint32) i), was = self->items[i - 1];
      self->items[i - 1] = self->items[j];
      self->items[j] = was;
    }
  self->length = length;
  self->seed = seed;
  self->epoch = epoch;
  return TRUE;
}

void
ortrain_item_order_clear (OrtrainItemOrder *self)
{
  g_clear_pointer (&self->items, g_free);
  self->length = 0;
}
