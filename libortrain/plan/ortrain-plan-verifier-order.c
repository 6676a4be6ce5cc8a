/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-plan-verifier-private.h"

#include "core/ortrain-text-private.h"

#include <stdlib.h>
#include <string.h>

/* When steps run, on which stream, and what lives meanwhile. */

static void
add_before (OrtrainPlanBefore *self, const OrtrainPlanBefore *other)
{
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    self->until[k] = MAX (self->until[k], other->until[k]);
}

/* All that has run once `s` has. */
static OrtrainPlanBefore
with_step (const OrtrainPlanVerifier *self, guint s)
{
  OrtrainPlanBefore all = self->before[s];
  all.until[self->steps[s].stream] = (gint32) s;
  return all;
}

static gboolean
find_order (OrtrainPlanVerifier *self, GError **error)
{
  gint32 previous[ORTRAIN_N_STREAMS] = { -1, -1, -1, -1 };
  OrtrainPlanBefore waited = { { -1, -1, -1, -1 } }; /* by the host, before it submits the step */
  guint next_wait = 0;
  G_STATIC_ASSERT (ORTRAIN_N_STREAMS == 4);
  for (guint s = 0; s < self->n_steps; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      if (step->stream >= ORTRAIN_N_STREAMS || (step->stream == ORTRAIN_STREAM_HOST) != step->node->on_host)
        return ortrain_plan_verifier_refuse (error, "step %u (%s) is on the wrong stream", s,
                                             ortrain_text_show (step->node->name));
      if (step->first_wait != next_wait || step->n_waits > self->n_waits - next_wait)
        return ortrain_plan_verifier_refuse (error, "the waits of step %u (%s) are not in the table", s,
                                             ortrain_text_show (step->node->name));
      if (s > 0 && step->phase != self->steps[s - 1].phase)
        for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
          waited.until[k] = (gint32) s - 1;
      OrtrainPlanBefore before = waited;
      if (previous[step->stream] >= 0)
        {
          const OrtrainPlanBefore all = with_step (self, (guint) previous[step->stream]);
          add_before (&before, &all);
        }
      for (guint w = 0; w < step->n_waits; w++)
        {
          const guint32 other = self->waits[next_wait++];
          if (other >= s || self->steps[other].stream == step->stream)
            return ortrain_plan_verifier_refuse (error, "step %u (%s) waits for step %u", s,
                                                 ortrain_text_show (step->node->name), other);
          const OrtrainPlanBefore all = with_step (self, other);
          add_before (&before, &all);
        }
      self->before[s] = before;
      previous[step->stream] = (gint32) s;
      if (step->stream == ORTRAIN_STREAM_HOST)
        {
          const OrtrainPlanBefore all = with_step (self, s);
          add_before (&waited, &all);
        }
    }
  return next_wait == self->n_waits || ortrain_plan_verifier_refuse (error, "the table of waits is too long");
}

/* The last steps that touched a root; -1: no step. */
typedef struct
{
  gint32 write;
  gint32 reads[ORTRAIN_N_STREAMS];
} Touches;

static gboolean
runs_before (const OrtrainPlanVerifier *self, gint32 other, guint s)
{
  return other < 0 || self->before[s].until[self->steps[other].stream] >= other;
}

/* Steps that touch the same memory, one of them writing, run in the order of the table. */
static gboolean
check_touches (OrtrainPlanVerifier *self, GError **error)
{
  g_autofree Touches *touches = g_new (Touches, self->n_values + 1);
  memset (touches, 0xff, (self->n_values + 1) * sizeof (Touches));
  for (guint s = 0; s < self->n_steps; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      for (guint i = 0; i < (guint) step->n_inputs + step->n_outputs; i++)
        {
          const guint32 buffer = self->operands[step->first_operand + i];
          if (buffer == ORTRAIN_NO_BUFFER)
            continue;
          const OrtrainPlanValue *value = &self->values[buffer];
          const Touches *root = &touches[value->root];
          gboolean ordered = runs_before (self, root->write, s);
          for (guint k = 0; k < ORTRAIN_N_STREAMS && i >= step->n_inputs; k++)
            ordered = ordered && runs_before (self, root->reads[k], s);
          if (!ordered)
            return ortrain_plan_verifier_refuse (error, "step %u (%s) does not wait for all that touches '%s'", s,
                                                 ortrain_text_show (step->node->name), ortrain_text_show (value->name));
          if (value->region == ORTRAIN_REGION_HOST_ARENA && step->stream != ORTRAIN_STREAM_HOST &&
              step->stream != ORTRAIN_STREAM_COPY)
            return ortrain_plan_verifier_refuse (error, "step %u (%s) touches '%s', which is in the memory of the host",
                                                 s, ortrain_text_show (step->node->name),
                                                 ortrain_text_show (value->name));
        }
      for (guint i = 0; i < (guint) step->n_inputs + step->n_outputs; i++)
        {
          const guint32 buffer = self->operands[step->first_operand + i];
          if (buffer == ORTRAIN_NO_BUFFER)
            continue;
          Touches *root = &touches[self->values[buffer].root];
          if (i < step->n_inputs)
            root->reads[step->stream] = (gint32) s;
          else
            root->write = (gint32) s;
        }
    }
  return TRUE;
}

gboolean
ortrain_plan_verifier_check_order (OrtrainPlanVerifier *self, GError **error)
{
  return find_order (self, error) && check_touches (self, error);
}

/* overtaken: [n_steps]: the last step of another stream that may begin before step s has ended; s itself if none. */
static void
find_overtaken (const OrtrainPlanVerifier *self, gint32 *overtaken)
{
  for (guint s = 0; s < self->n_steps; s++)
    overtaken[s] = (gint32) s;
  for (guint own = 0; own < ORTRAIN_N_STREAMS; own++)
    for (guint other = 0; other < ORTRAIN_N_STREAMS; other++)
      {
        gint32 t = (gint32) self->n_steps - 1;
        if (own == other)
          continue;
        for (gint32 s = (gint32) self->n_steps - 1; s >= 0; s--)
          {
            if (self->steps[s].stream != own)
              continue;
            /* later steps of a stream know more: what knows of s knows of all before it */
            while (t >= 0 && (self->steps[t].stream != other || self->before[t].until[own] >= s))
              t--;
            overtaken[s] = MAX (overtaken[s], t);
          }
      }
}

/* Steps that may run together are of one kernel that can do so, on one stream, and none touches what another writes. */
gboolean
ortrain_plan_verifier_check_joined (const OrtrainPlanVerifier *self, GError **error)
{
  g_autofree guint *toucher = g_new0 (guint, self->n_values + 1); /* of a root: the first step of these, + 1 */
  g_autofree guint *writer = g_new0 (guint, self->n_values + 1);
  for (guint s = 0, end = 0; s < self->n_steps; s = end)
    {
      end = s + self->steps[s].n_joined;
      if (end <= s || end > self->n_steps)
        return ortrain_plan_verifier_refuse (error, "step %u runs together with %u steps", s, self->steps[s].n_joined);
      for (guint t = s; t < end && end > s + 1; t++)
        {
          const OrtrainPlanStep *step = &self->steps[t];
          if (step->n_joined != end - t || step->kernel != self->steps[s].kernel || step->kernel->run_joined == NULL ||
              step->stream != self->steps[s].stream)
            return ortrain_plan_verifier_refuse (error, "steps %u and %u cannot run together", s, t);
          for (guint i = 0; i < (guint) step->n_inputs + step->n_outputs; i++)
            {
              const guint32 buffer = self->operands[step->first_operand + i];
              const guint32 root = buffer != ORTRAIN_NO_BUFFER ? self->values[buffer].root : ORTRAIN_NO_BUFFER;
              if (root == ORTRAIN_NO_BUFFER)
                continue;
              const guint other = i >= step->n_inputs ? toucher[root] : writer[root];
              if (other > s && other <= t)
                return ortrain_plan_verifier_refuse (
                    error, "steps %u and %u run together, and one needs what the other writes", other - 1, t);
              if (i >= step->n_inputs)
                writer[root] = t + 1;
              if (toucher[root] <= s)
                toucher[root] = t + 1;
            }
        }
    }
  return TRUE;
}

typedef struct
{
  gint32 first, last;
  gsize offset, end;
  guint32 buffer;
} Span;

static int
compare_spans (gconstpointer a, gconstpointer b)
{
  const Span *x = a, *y = b;
  return x->first != y->first ? (x->first < y->first ? -1 : 1) : (x->buffer < y->buffer ? -1 : x->buffer > y->buffer);
}

static int
compare_ends (gconstpointer a, gconstpointer b)
{
  const Span *x = a, *y = b;
  return x->last != y->last ? (x->last < y->last ? -1 : 1) : (x->buffer < y->buffer ? -1 : x->buffer > y->buffer);
}

/* From step to step: values that are alive in an arena do not overlap. */
static gboolean
check_places (const OrtrainPlanVerifier *self, const Span *all, guint n_all, int arena, gsize *most, GError **error)
{
  g_autofree Span *spans = g_new (Span, n_all + 1);
  guint n_spans = 0;
  for (guint i = 0; i < n_all; i++)
    if (ortrain_plan_verifier_arena_of (&self->values[all[i].buffer]) == arena)
      spans[n_spans++] = all[i];
  g_autofree Span *ends = g_memdup2 (spans, (n_spans + 1) * sizeof (Span));
  qsort (spans, n_spans, sizeof (Span), compare_spans);
  qsort (ends, n_spans, sizeof (Span), compare_ends);
  g_autoptr (GTree) alive = g_tree_new_full (ortrain_plan_verifier_compare_offsets, NULL, NULL, NULL);
  gsize sum = 0;
  for (guint32 i = 0, gone = 0; i < n_spans; i++)
    {
      for (; gone < n_spans && ends[gone].last < spans[i].first; gone++)
        {
          g_tree_remove (alive, GSIZE_TO_POINTER (ends[gone].offset));
          sum -= (ends[gone].end - ends[gone].offset + 63) / 64 * 64;
        }
      GTreeNode *node = g_tree_lower_bound (alive, GSIZE_TO_POINTER (spans[i].end));
      node = node != NULL ? g_tree_node_previous (node) : g_tree_node_last (alive);
      const Span *other = node != NULL ? g_tree_node_value (node) : NULL;
      if (other != NULL && other->end > spans[i].offset)
        return ortrain_plan_verifier_refuse (error, "'%s' and '%s' lie on each other at step %d",
                                             ortrain_text_show (self->values[spans[i].buffer].name),
                                             ortrain_text_show (self->values[other->buffer].name), spans[i].first);
      g_tree_insert (alive, GSIZE_TO_POINTER (spans[i].offset), &spans[i]);
      sum += (spans[i].end - spans[i].offset + 63) / 64 * 64;
      *most = MAX (*most, sum);
    }
  return TRUE;
}

/* Lifetimes, from the steps alone, against the table; no two of them meet in time and place; the sums. */
gboolean
ortrain_plan_verifier_check_lifetimes (const OrtrainPlanVerifier *self, GError **error)
{
  const OrtrainGraph *graph = ortrain_memory_plan_peek_graph (self->plan);
  const gint32 n = (gint32) self->n_steps;
  g_autofree Span *spans = g_new0 (Span, self->n_values + 1);
  g_autofree gint32 *overtaken = g_new (gint32, self->n_steps + 1);
  find_overtaken (self, overtaken);
  for (guint32 i = 0; i < self->n_values; i++)
    spans[i] = (Span){ G_MAXINT32, -1, self->values[i].offset, self->values[i].offset + self->values[i].bytes, i };
  for (gint32 s = 0, first = 0; s < n; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      const gint32 last = s + (gint32) step->n_joined - 1;
      first = s == 0 || self->steps[s - 1].n_joined == 1 ? s : first;
      guint n_buffers = (guint) step->n_inputs + step->n_outputs;
      for (guint i = 0; i <= n_buffers; i++)
        {
          guint32 buffer = i < n_buffers ? self->operands[step->first_operand + i] : step->workspace;
          if (buffer == ORTRAIN_NO_BUFFER)
            continue;
          Span *span = &spans[self->values[buffer].root];
          span->first = MIN (span->first, first);
          span->last = MAX (span->last, overtaken[last]);
        }
    }
  for (guint i = 0; i < graph->outputs->len; i++)
    {
      guint32 buffer = ortrain_memory_plan_find_buffer (self->plan, graph->outputs->pdata[i]);
      if (buffer != ORTRAIN_NO_BUFFER)
        spans[self->values[buffer].root].last = n;
    }
  g_autofree gsize *live = g_new0 (gsize, self->n_steps + 2);
  guint n_spans = 0;
  for (guint32 i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      const Span span = spans[i];
      if (value->root != i || ortrain_plan_verifier_arena_of (value) < 0 || value->bytes == 0)
        continue;
      if (span.last < 0 && value->last < 0)
        continue; /* no step touches it, and no place is held for it */
      if (value->first != span.first || value->last != span.last)
        return ortrain_plan_verifier_refuse (error, "'%s' lives from step %d to %d, the plan says %d to %d",
                                             ortrain_text_show (value->name), span.first, span.last, value->first,
                                             value->last);
      gsize bytes = (value->bytes + 63) / 64 * 64;
      live[span.first + 1] += ortrain_plan_verifier_arena_of (value) == 0 ? bytes : 0;
      live[span.last + 1] -= ortrain_plan_verifier_arena_of (value) == 0 ? bytes : 0;
      spans[n_spans++] = span;
    }
  for (guint s = 0; s <= self->n_steps; s++)
    {
      live[s] += s > 0 ? live[s - 1] : 0;
      if (live[s] != ortrain_memory_plan_get_live_bytes (self->plan, s))
        return ortrain_plan_verifier_refuse (
            error, "before step %u %" G_GSIZE_FORMAT " bytes are live, the plan says %" G_GSIZE_FORMAT, s, live[s],
            ortrain_memory_plan_get_live_bytes (self->plan, s));
    }

  gsize most[2] = { 0, 0 };
  for (int arena = 0; arena < 2; arena++)
    if (!check_places (self, spans, n_spans, arena, &most[arena], error))
      return FALSE;
  if (most[0] != ortrain_memory_plan_get_lower_bound_bytes (self->plan) || most[0] > self->arena_bytes)
    return ortrain_plan_verifier_refuse (error,
                                         "%" G_GSIZE_FORMAT " bytes are live at most, the plan says %" G_GUINT64_FORMAT,
                                         most[0], ortrain_memory_plan_get_lower_bound_bytes (self->plan));
  return TRUE;
}
