/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "data/ortrain-prefetcher-private.h"

#include "core/ortrain-fork-private.h"
#include "data/ortrain-dataset-private.h"

#include <string.h>

typedef struct
{
  OrtrainBatchPlace place;
  guint64 *indices;
  gsize n_allocated;
  OrtrainTensorDict *batch;
  GError *error;
} Job;

struct _OrtrainPrefetcher
{
  OrtrainDataset *dataset;
  guint depth;
  Job *jobs; /* a ring of `depth` */
  GThread *thread;
  guint generation;         /* of the process in which the thread was started */
  OrtrainDataset *snapshot; /* of the dataset; NULL: nothing is submitted */

  GMutex lock; /* guards the following, and hands jobs over */
  GCond submitted, done;
  guint64 n_submitted, n_done, n_taken; /* ever; n_taken ≤ n_done ≤ n_submitted */
  gboolean reading;                     /* the job after n_done */
  gboolean stops;
};

/* Forgotten jobs are not begun: n_submitted falls back, and only the job that is being read is waited for. */
static gpointer
read_ahead (gpointer data)
{
  OrtrainPrefetcher *self = data;
  g_mutex_lock (&self->lock);
  for (;;)
    {
      while (!self->stops && self->n_done == self->n_submitted)
        g_cond_wait (&self->submitted, &self->lock);
      if (self->stops)
        break;
      Job *job = &self->jobs[self->n_done % self->depth];
      self->reading = TRUE;
      g_mutex_unlock (&self->lock);
      ortrain_dataset_fill_epoch_batch (self->snapshot, job->place.epoch, job->indices, job->place.n, job->batch,
                                        &job->error);
      g_mutex_lock (&self->lock);
      self->reading = FALSE;
      self->n_done++;
      g_cond_signal (&self->done);
    }
  g_mutex_unlock (&self->lock);
  return NULL;
}

OrtrainPrefetcher *
ortrain_prefetcher_new (OrtrainDataset *dataset, guint depth)
{
  OrtrainPrefetcher *self = g_new0 (OrtrainPrefetcher, 1);
  self->dataset = dataset;
  self->depth = depth;
  self->jobs = g_new0 (Job, depth);
  self->generation = ortrain_fork_generation ();
  g_mutex_init (&self->lock);
  g_cond_init (&self->submitted);
  g_cond_init (&self->done);
  return self;
}

gboolean
ortrain_prefetcher_is_forked (OrtrainPrefetcher *self)
{
  return self->generation != ortrain_fork_generation ();
}

void
ortrain_prefetcher_free (OrtrainPrefetcher *self)
{
  if (ortrain_prefetcher_is_forked (self))
    return;
  ortrain_prefetcher_flush (self);
  if (self->thread != NULL)
    {
      g_mutex_lock (&self->lock);
      self->stops = TRUE;
      g_cond_signal (&self->submitted);
      g_mutex_unlock (&self->lock);
      g_thread_join (self->thread);
    }
  for (guint i = 0; i < self->depth; i++)
    g_free (self->jobs[i].indices);
  g_free (self->jobs);
  g_mutex_clear (&self->lock);
  g_cond_clear (&self->submitted);
  g_cond_clear (&self->done);
  g_free (self);
}

/* Only the owner's thread changes n_submitted and n_taken. */
guint
ortrain_prefetcher_get_n_submitted (OrtrainPrefetcher *self)
{
  return (guint) (self->n_submitted - self->n_taken);
}

guint64 *
ortrain_prefetcher_get_indices (OrtrainPrefetcher *self, gsize n)
{
  Job *job = &self->jobs[self->n_submitted % self->depth];
  if (ortrain_prefetcher_is_forked (self) || self->n_submitted - self->n_taken == self->depth)
    return NULL;
  if (job->n_allocated < n)
    {
      g_free (job->indices);
      job->indices = g_try_new (guint64, n);
      job->n_allocated = job->indices != NULL ? n : 0;
    }
  return job->indices;
}

gboolean
ortrain_prefetcher_submit (OrtrainPrefetcher *self, const OrtrainBatchPlace *place, OrtrainTensorDict *batch)
{
  if (self->thread == NULL)
    self->thread = g_thread_try_new ("ortrain-prefetch", read_ahead, self, NULL);
  if (self->thread == NULL)
    return FALSE;
  if (self->snapshot == NULL)
    self->snapshot = ortrain_dataset_snapshot (self->dataset);
  if (self->snapshot == NULL)
    return FALSE;
  Job *job = &self->jobs[self->n_submitted % self->depth];
  job->place = *place;
  job->batch = g_object_ref (batch);
  g_mutex_lock (&self->lock);
  self->n_submitted++;
  g_cond_signal (&self->submitted);
  g_mutex_unlock (&self->lock);
  return TRUE;
}

OrtrainTensorDict *
ortrain_prefetcher_take (OrtrainPrefetcher *self, const OrtrainBatchPlace *place, guint64 *indices, GError **error)
{
  if (ortrain_prefetcher_is_forked (self) || self->n_submitted == self->n_taken)
    return NULL;
  Job *job = &self->jobs[self->n_taken % self->depth];
  const OrtrainBatchPlace *found = &job->place;
  if (found->epoch != place->epoch || found->position != place->position || found->length != place->length ||
      found->n != place->n)
    return NULL;
  g_mutex_lock (&self->lock);
  while (self->n_done == self->n_taken)
    g_cond_wait (&self->done, &self->lock);
  self->n_taken++;
  g_mutex_unlock (&self->lock);
  if (self->n_submitted == self->n_taken)
    g_clear_object (&self->snapshot);
  g_autoptr (OrtrainTensorDict) batch = g_steal_pointer (&job->batch);
  if (job->error != NULL)
    {
      g_propagate_error (error, g_steal_pointer (&job->error));
      return NULL;
    }
  memcpy (indices, job->indices, place->n * sizeof *indices);
  return g_steal_pointer (&batch);
}

void
ortrain_prefetcher_flush (OrtrainPrefetcher *self)
{
  if (ortrain_prefetcher_is_forked (self) || self->n_submitted == self->n_taken)
    return;
  g_mutex_lock (&self->lock);
  const guint64 n_before = self->n_submitted;
  self->n_submitted = self->n_done + (self->reading ? 1 : 0);
  while (self->reading)
    g_cond_wait (&self->done, &self->lock);
  const guint64 first = self->n_taken;
  self->n_taken = self->n_submitted;
  g_mutex_unlock (&self->lock);
  for (guint64 i = first; i != n_before; i++)
    {
      Job *job = &self->jobs[i % self->depth];
      g_clear_object (&job->batch);
      g_clear_error (&job->error);
    }
  g_clear_object (&self->snapshot);
}
