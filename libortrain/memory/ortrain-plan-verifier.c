/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "memory/ortrain-planner-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"

#include <stdlib.h>
#include <string.h>

/* Holds a plan against its graph by running it in the mind: every place remembers which values its bytes are the sum
 * of, a write forgets what it touches, and a read must find exactly what the graph says the value is. Nothing here
 * comes from the planner, and nothing that the planner claims about lifetimes is believed.
 *
 * A sum may have as many terms as the graph has nodes, and each partial sum may be read: it is known by its fingerprint,
 * the sum of 128-bit numbers that its terms are given. */

#define NONE G_MAXUINT32

typedef struct
{
  guint64 low, high;
  gboolean known;
} Content;

/* Of each stream, the steps up to this one have run before a step begins; -1: none. */
typedef struct
{
  gint32 until[ORTRAIN_N_STREAMS];
} Before;

typedef struct
{
  OrtrainMemoryPlan *plan;
  const OrtrainPlanValue *values;
  const OrtrainPlanStep *steps;
  const guint32 *operands;
  const guint32 *waits;
  guint n_values, n_steps, n_operands, n_waits;
  gsize arena_bytes, host_arena_bytes;
  Before *before;      /* [n_steps] */
  Content *meaning;    /* [n_values]: what a value is, by the graph */
  Content *content;    /* [n_values], of roots: what the place holds now, if anything */
  GHashTable *step_of; /* node → step + 1 */
  GTree *filled[2];    /* arena, host arena: offset → root + 1, of roots that hold something: none touches another */
} Verifier;

G_GNUC_PRINTF (2, 3)
static gboolean
refuse (GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID, "The memory plan is wrong: %s", message);
  return FALSE;
}

/* 0, 1: which arena a value lies in; -1: none. */
static int
arena_of (const OrtrainPlanValue *value)
{
  return value->region == ORTRAIN_REGION_ARENA ? 0 : value->region == ORTRAIN_REGION_HOST_ARENA ? 1 : -1;
}

static guint64
mix (guint64 x)
{
  x += G_GUINT64_CONSTANT (0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * G_GUINT64_CONSTANT (0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * G_GUINT64_CONSTANT (0x94d049bb133111eb);
  return x ^ (x >> 31);
}

static Content
one_buffer (guint32 buffer)
{
  return (Content){ mix (2 * (guint64) buffer), mix (2 * (guint64) buffer + 1), TRUE };
}

static Content
add (Content a, Content b)
{
  Content sum = { a.low + b.low, a.high + b.high, TRUE };
  sum.high += sum.low < a.low;
  return sum;
}

static gboolean
same_content (const Content *a, const Content *b)
{
  return a->known && b->known && a->low == b->low && a->high == b->high;
}

static int
compare_offsets (gconstpointer a, gconstpointer b, gpointer data)
{
  gsize x = GPOINTER_TO_SIZE (a), y = GPOINTER_TO_SIZE (b);
  return x < y ? -1 : x > y;
}

static gsize
product_of_dims (const OrtrainValue *value)
{
  gsize bytes = ortrain_dtype_get_size (value->dtype);
  for (gint i = 0; i < value->rank; i++)
    bytes *= (gsize) value->dims[i].value;
  return bytes;
}

static gboolean
check_values (Verifier *self, GError **error)
{
  for (guint32 i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      if (value->root >= self->n_values || self->values[value->root].root != value->root)
        return refuse (error, "buffer %u (%s) shares the memory of buffer %u, which is no root", i,
                       ortrain_text_show (value->name), value->root);
      const OrtrainPlanValue *root = &self->values[value->root];
      if (value->region != root->region || value->offset != root->offset || value->bytes != root->bytes)
        return refuse (error, "buffer %u (%s) does not lie exactly where its root %s does", i,
                       ortrain_text_show (value->name), ortrain_text_show (root->name));
      if (value->value != NULL && value->value->rank >= 0 && value->bytes != product_of_dims (value->value))
        return refuse (error, "buffer %u (%s) has %" G_GSIZE_FORMAT " bytes, its shape says %" G_GSIZE_FORMAT, i,
                       ortrain_text_show (value->name), value->bytes, product_of_dims (value->value));
      if (arena_of (value) < 0 || value->bytes == 0)
        continue;
      const gsize arena_bytes = arena_of (value) == 0 ? self->arena_bytes : self->host_arena_bytes;
      if (value->offset % 64 != 0)
        return refuse (error, "buffer %u (%s) lies at %" G_GSIZE_FORMAT ", which is not a multiple of 64", i,
                       ortrain_text_show (value->name), value->offset);
      if (value->offset > arena_bytes || value->bytes > arena_bytes - value->offset)
        return refuse (error, "buffer %u (%s) ends after the arena", i, ortrain_text_show (value->name));
      if (value->value != NULL && (value->value->tensor != NULL || value->value->kind != ORTRAIN_VALUE_COMPUTED))
        return refuse (error, "buffer %u (%s) is there before the first step, and not in the arena", i,
                       ortrain_text_show (value->name));
    }
  return TRUE;
}

/* Each node runs once, in an order that respects what it reads, or needs no step. */
static gboolean
check_steps (Verifier *self, GError **error)
{
  guint next_operand = 0;
  guint first[ORTRAIN_N_PHASES] = { 0, self->n_steps, self->n_steps };
  for (guint s = 0; s < self->n_steps; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      const OrtrainNode *node = step->node;
      if (node == NULL || step->kernel == NULL || !g_str_equal (step->kernel->op_type, node->op_type))
        return refuse (error, "step %u has no node, or the kernel of another operator", s);
      if (!g_hash_table_insert (self->step_of, (gpointer) node, GUINT_TO_POINTER (s + 1)))
        return refuse (error, "the node '%s' runs twice", ortrain_text_show (node->name));
      if (step->first_operand != next_operand || step->n_inputs != node->inputs->len ||
          step->n_outputs != node->outputs->len)
        return refuse (error, "step %u (%s) has other operands than its node", s, ortrain_text_show (node->name));
      next_operand += step->n_inputs + step->n_outputs;
      if (next_operand > self->n_operands)
        return refuse (error, "step %u (%s) has operands beyond the table", s, ortrain_text_show (node->name));
      for (guint i = 0; i < (guint) step->n_inputs + step->n_outputs; i++)
        {
          guint32 buffer = self->operands[step->first_operand + i];
          const OrtrainValue *value =
              i < step->n_inputs ? node->inputs->pdata[i] : node->outputs->pdata[i - step->n_inputs];
          if ((buffer == NONE) != (value == NULL) ||
              (buffer != NONE && (buffer >= self->n_values || self->values[buffer].value != value)))
            return refuse (error, "operand %u of step %u (%s) is not the one of its node", i, s,
                           ortrain_text_show (node->name));
        }
      if (step->workspace != NONE &&
          (step->workspace >= self->n_values || self->values[step->workspace].value != NULL ||
           arena_of (&self->values[step->workspace]) < 0))
        return refuse (error, "step %u (%s) has no proper workspace", s, ortrain_text_show (node->name));
      if (step->phase != node->phase || (s > 0 && step->phase < self->steps[s - 1].phase))
        return refuse (error, "step %u (%s) is in the wrong phase", s, ortrain_text_show (node->name));
      for (guint phase = 1; phase <= step->phase; phase++)
        first[phase] = MIN (first[phase], s);
      if ((step->accumulates & step->gradients) != 0)
        return refuse (error, "step %u (%s) both begins and goes on with a sum", s, ortrain_text_show (node->name));
    }
  if (first[ORTRAIN_PHASE_BACKWARD] != ortrain_memory_plan_get_first_backward_step (self->plan))
    return refuse (error, "the backward pass begins at step %u, the plan says %u", first[ORTRAIN_PHASE_BACKWARD],
                   ortrain_memory_plan_get_first_backward_step (self->plan));
  if (first[ORTRAIN_PHASE_UPDATE] != ortrain_memory_plan_get_first_update_step (self->plan))
    return refuse (error, "the update begins at step %u, the plan says %u", first[ORTRAIN_PHASE_UPDATE],
                   ortrain_memory_plan_get_first_update_step (self->plan));
  return TRUE;
}

static gboolean
is_renaming (const OrtrainNode *node)
{
  const OrtrainValue *x = ortrain_node_input (node, 0), *y = ortrain_node_output (node, 0);
  if (x == NULL || y == NULL || x->dtype != y->dtype || product_of_dims (x) != product_of_dims (y))
    return FALSE;
  return node->op != NULL && (node->op->flags & (ORTRAIN_OP_VIEW | ORTRAIN_OP_VIEW_IF_SAME)) != 0;
}

static gboolean
is_plain_sum (const OrtrainNode *node)
{
  const OrtrainValue *y = ortrain_node_output (node, 0);
  if (y == NULL || !ortrain_node_has_flag (node, ORTRAIN_OP_SUM))
    return FALSE;
  for (guint i = 0; i < node->inputs->len; i++)
    {
      const OrtrainValue *x = node->inputs->pdata[i];
      if (x == NULL || x->dtype != y->dtype || !ortrain_value_same_shape (x, y))
        return FALSE;
    }
  return TRUE;
}

/* What each value is: itself, if a step makes it or it is there from the beginning; else what its node, which runs in no
 * step, has in its inputs. Nodes stand in the order in which they would run. */
static gboolean
find_meanings (Verifier *self, GError **error)
{
  const OrtrainGraph *graph = ortrain_memory_plan_peek_graph (self->plan);
  for (guint32 i = 0; i < self->n_values; i++)
    {
      const OrtrainValue *value = self->values[i].value;
      if (value == NULL || value->kind != ORTRAIN_VALUE_COMPUTED || value->tensor != NULL ||
          product_of_dims (value) == 0 ||
          (value->producer != NULL && g_hash_table_contains (self->step_of, value->producer)))
        self->meaning[i] = one_buffer (i);
    }
  for (guint n = 0; n < graph->nodes->len; n++)
    {
      const OrtrainNode *node = graph->nodes->pdata[n];
      for (guint k = 0; k < node->outputs->len && !g_hash_table_contains (self->step_of, node); k++)
        {
          const OrtrainValue *output = node->outputs->pdata[k];
          guint32 buffer = ortrain_memory_plan_find_buffer (self->plan, output);
          if (buffer == NONE || self->meaning[buffer].known)
            continue;
          const gboolean sum = !is_renaming (node) && is_plain_sum (node);
          if (k > 0 || (!sum && !is_renaming (node)))
            return refuse (error, "no step runs the node '%s' (%s)", ortrain_text_show (node->name),
                           ortrain_text_show (node->op_type));
          Content all = { 0 };
          for (guint i = 0; i < (sum ? node->inputs->len : 1); i++)
            {
              guint32 term = ortrain_memory_plan_find_buffer (self->plan, node->inputs->pdata[i]);
              if (term == NONE)
                return refuse (error, "an input of '%s' is in no table", ortrain_text_show (node->name));
              if (!self->meaning[term].known)
                return refuse (error, "nothing makes '%s'", ortrain_text_show (self->values[term].name));
              all = add (all, self->meaning[term]);
            }
          self->meaning[buffer] = all;
        }
    }
  return TRUE;
}

/* Whether two buffers touch the same bytes. */
static gboolean
touch (const Verifier *self, guint32 a, guint32 b)
{
  const OrtrainPlanValue *x = &self->values[a], *y = &self->values[b];
  if (x->bytes == 0 || y->bytes == 0)
    return FALSE;
  if (x->root == y->root)
    return TRUE;
  return arena_of (x) >= 0 && arena_of (x) == arena_of (y) && x->offset < y->offset + y->bytes &&
         y->offset < x->offset + x->bytes;
}

/* Everything that lies where `buffer` is about to be written is gone, but for what is in that very place. */
static void
clobber (Verifier *self, guint32 buffer)
{
  const OrtrainPlanValue *value = &self->values[buffer];
  if (arena_of (value) < 0 || value->bytes == 0)
    return;
  GTree *filled = self->filled[arena_of (value)];
  const gsize end = value->offset + value->bytes;
  /* The last that begins before the end, and those before it, until one ends before the beginning. */
  for (;;)
    {
      GTreeNode *node = g_tree_lower_bound (filled, GSIZE_TO_POINTER (end));
      node = node != NULL ? g_tree_node_previous (node) : g_tree_node_last (filled);
      while (node != NULL && GPOINTER_TO_UINT (g_tree_node_value (node)) - 1 == value->root)
        node = g_tree_node_previous (node);
      const guint32 root = node != NULL ? GPOINTER_TO_UINT (g_tree_node_value (node)) - 1 : NONE;
      if (root == NONE || !touch (self, root, buffer))
        return;
      self->content[root].known = FALSE;
      g_tree_remove (filled, GSIZE_TO_POINTER (self->values[root].offset));
    }
}

static gboolean
write_output (Verifier *self, guint s, guint k, guint32 buffer, GError **error)
{
  const OrtrainPlanStep *step = &self->steps[s];
  const OrtrainPlanValue *value = &self->values[buffer];
  const guint32 root = value->root;
  const gboolean adds = k < 64 && (step->accumulates >> k & 1), gradient = k < 64 && (step->gradients >> k & 1);
  switch (value->region)
    {
    case ORTRAIN_REGION_ARENA:
    case ORTRAIN_REGION_HOST_ARENA:
    case ORTRAIN_REGION_OUTPUT:
      if (gradient)
        return refuse (error, "step %u (%s) accumulates outside of the gradients", s,
                       ortrain_text_show (step->node->name));
      break;
    case ORTRAIN_REGION_GRADIENT:
      if (!gradient && !adds)
        return refuse (error, "step %u (%s) overwrites the gradient '%s'", s, ortrain_text_show (step->node->name),
                       ortrain_text_show (value->name));
      if (gradient && self->content[root].known)
        return refuse (error, "step %u (%s) accumulates into the gradient '%s', which has begun", s,
                       ortrain_text_show (step->node->name), ortrain_text_show (value->name));
      break;
    case ORTRAIN_REGION_PARAMETER:
    case ORTRAIN_REGION_STATE:
    case ORTRAIN_REGION_BUFFER:
      if (adds || gradient)
        return refuse (error, "step %u (%s) adds to '%s'", s, ortrain_text_show (step->node->name),
                       ortrain_text_show (value->name));
      if (value->value == NULL || value->value->role != ORTRAIN_ROLE_UPDATE || value->value->partner == NULL ||
          ortrain_memory_plan_find_buffer (self->plan, value->value->partner) != root)
        return refuse (error, "step %u (%s) writes '%s' over '%s', which it is no update of", s,
                       ortrain_text_show (step->node->name), ortrain_text_show (value->name),
                       ortrain_text_show (self->values[root].name));
      break;
    case ORTRAIN_REGION_CONSTANT:
    case ORTRAIN_REGION_INPUT:
      return refuse (error, "step %u (%s) writes to '%s', which is not to be changed", s,
                     ortrain_text_show (step->node->name), ortrain_text_show (value->name));
    }
  if (adds && !self->content[root].known && value->bytes > 0)
    return refuse (error, "step %u (%s) adds to '%s', where nothing is", s, ortrain_text_show (step->node->name),
                   ortrain_text_show (value->name));
  clobber (self, buffer);
  if (arena_of (value) >= 0 && value->bytes > 0)
    g_tree_insert (self->filled[arena_of (value)], GSIZE_TO_POINTER (value->offset), GUINT_TO_POINTER (root + 1));
  self->content[root] =
      adds && self->content[root].known ? add (self->content[root], one_buffer (buffer)) : one_buffer (buffer);
  return TRUE;
}

static gboolean
run_step (Verifier *self, guint s, const guint64 *inplace, GError **error)
{
  const OrtrainPlanStep *step = &self->steps[s];
  const guint32 *inputs = self->operands + step->first_operand, *outputs = inputs + step->n_inputs;
  for (guint i = 0; i < step->n_inputs; i++)
    {
      if (inputs[i] == NONE)
        continue;
      if (self->values[inputs[i]].bytes > 0 &&
          !same_content (&self->meaning[inputs[i]], &self->content[self->values[inputs[i]].root]))
        return refuse (error, "step %u (%s) reads '%s', which is not there at that time", s,
                       ortrain_text_show (step->node->name), ortrain_text_show (self->values[inputs[i]].name));
      /* between the backward pass and the update others may use the arena */
      if (step->phase == ORTRAIN_PHASE_UPDATE && arena_of (&self->values[inputs[i]]) >= 0 &&
          self->values[inputs[i]].bytes > 0 &&
          self->values[self->values[inputs[i]].root].first <
              (gint32) ortrain_memory_plan_get_first_update_step (self->plan))
        return refuse (error, "step %u (%s) of the update reads '%s', which the backward pass left in the arena", s,
                       ortrain_text_show (step->node->name), ortrain_text_show (self->values[inputs[i]].name));
      if (step->workspace != NONE && touch (self, inputs[i], step->workspace))
        return refuse (error, "the workspace of step %u (%s) lies on its input '%s'", s,
                       ortrain_text_show (step->node->name), ortrain_text_show (self->values[inputs[i]].name));
    }
  for (guint k = 0; k < step->n_outputs; k++)
    {
      if (outputs[k] == NONE)
        continue;
      for (guint i = 0; i < step->n_inputs; i++)
        {
          if (inputs[i] == NONE || !touch (self, inputs[i], outputs[k]))
            continue;
          const gboolean allowed = self->values[inputs[i]].root == self->values[outputs[k]].root && i < 64 &&
                                   (inplace[step->first_operand + step->n_inputs + k] >> i & 1) &&
                                   !(k < 64 && ((step->accumulates | step->gradients) >> k & 1));
          if (!allowed)
            return refuse (error, "step %u (%s) writes '%s' over its input '%s'", s,
                           ortrain_text_show (step->node->name), ortrain_text_show (self->values[outputs[k]].name),
                           ortrain_text_show (self->values[inputs[i]].name));
        }
      for (guint j = 0; j < k; j++)
        if (outputs[j] != NONE && touch (self, outputs[j], outputs[k]))
          return refuse (error, "two outputs of step %u (%s) lie on each other", s,
                         ortrain_text_show (step->node->name));
      if (step->workspace != NONE && touch (self, outputs[k], step->workspace))
        return refuse (error, "the workspace of step %u (%s) lies on its output '%s'", s,
                       ortrain_text_show (step->node->name), ortrain_text_show (self->values[outputs[k]].name));
    }
  if (step->workspace != NONE)
    clobber (self, step->workspace);
  for (guint k = 0; k < step->n_outputs; k++)
    if (outputs[k] != NONE && !write_output (self, s, k, outputs[k], error))
      return FALSE;
  return TRUE;
}

static gboolean
check_end (Verifier *self, GError **error)
{
  const OrtrainGraph *graph = ortrain_memory_plan_peek_graph (self->plan);
  for (guint i = 0; i < graph->outputs->len; i++)
    {
      const OrtrainValue *output = graph->outputs->pdata[i];
      guint32 buffer = ortrain_memory_plan_find_buffer (self->plan, output);
      if (buffer == NONE)
        return refuse (error, "the output '%s' is in no table", ortrain_text_show (output->name));
      const OrtrainPlanValue *value = &self->values[buffer];
      if (value->bytes > 0 && !same_content (&self->meaning[buffer], &self->content[value->root]))
        return refuse (error, "the output '%s' is not there at the end", ortrain_text_show (output->name));
      if (output->role == ORTRAIN_ROLE_GRADIENT && value->region != ORTRAIN_REGION_GRADIENT)
        return refuse (error, "the gradient '%s' does not end in its place", ortrain_text_show (output->name));
      if (output->role == ORTRAIN_ROLE_UPDATE && output->partner != NULL &&
          value->root != ortrain_memory_plan_find_buffer (self->plan, output->partner))
        return refuse (error, "'%s' does not end in the place of '%s'", ortrain_text_show (output->name),
                       ortrain_text_show (output->partner->name));
    }
  return TRUE;
}

/* ---- order ---- */

static void
add_before (Before *self, const Before *other)
{
  for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
    self->until[k] = MAX (self->until[k], other->until[k]);
}

/* All that has run once `s` has. */
static Before
with_step (const Verifier *self, guint s)
{
  Before all = self->before[s];
  all.until[self->steps[s].stream] = (gint32) s;
  return all;
}

static gboolean
find_order (Verifier *self, GError **error)
{
  gint32 previous[ORTRAIN_N_STREAMS] = { -1, -1, -1, -1 };
  Before waited = { { -1, -1, -1, -1 } }; /* by the host, before it submits the step */
  guint next_wait = 0;
  G_STATIC_ASSERT (ORTRAIN_N_STREAMS == 4);
  for (guint s = 0; s < self->n_steps; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      if (step->stream >= ORTRAIN_N_STREAMS || (step->stream == ORTRAIN_STREAM_HOST) != step->node->on_host)
        return refuse (error, "step %u (%s) is on the wrong stream", s, ortrain_text_show (step->node->name));
      if (step->first_wait != next_wait || step->n_waits > self->n_waits - next_wait)
        return refuse (error, "the waits of step %u (%s) are not in the table", s,
                       ortrain_text_show (step->node->name));
      if (s > 0 && step->phase != self->steps[s - 1].phase)
        for (guint k = 0; k < ORTRAIN_N_STREAMS; k++)
          waited.until[k] = (gint32) s - 1;
      Before before = waited;
      if (previous[step->stream] >= 0)
        {
          const Before all = with_step (self, (guint) previous[step->stream]);
          add_before (&before, &all);
        }
      for (guint w = 0; w < step->n_waits; w++)
        {
          const guint32 other = self->waits[next_wait++];
          if (other >= s || self->steps[other].stream == step->stream)
            return refuse (error, "step %u (%s) waits for step %u", s, ortrain_text_show (step->node->name), other);
          const Before all = with_step (self, other);
          add_before (&before, &all);
        }
      self->before[s] = before;
      previous[step->stream] = (gint32) s;
      if (step->stream == ORTRAIN_STREAM_HOST)
        {
          const Before all = with_step (self, s);
          add_before (&waited, &all);
        }
    }
  return next_wait == self->n_waits || refuse (error, "the table of waits is too long");
}

/* What touched a root: -1, none. */
typedef struct
{
  gint32 write;
  gint32 reads[ORTRAIN_N_STREAMS];
} Touches;

static gboolean
runs_before (const Verifier *self, gint32 other, guint s)
{
  return other < 0 || self->before[s].until[self->steps[other].stream] >= other;
}

/* Steps that touch the same memory, one of them writing, run in the order of the table. */
static gboolean
check_order (Verifier *self, GError **error)
{
  g_autofree Touches *touches = g_new (Touches, self->n_values + 1);
  memset (touches, 0xff, (self->n_values + 1) * sizeof (Touches));
  for (guint s = 0; s < self->n_steps; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      for (guint i = 0; i < (guint) step->n_inputs + step->n_outputs; i++)
        {
          const guint32 buffer = self->operands[step->first_operand + i];
          if (buffer == NONE)
            continue;
          const OrtrainPlanValue *value = &self->values[buffer];
          const Touches *root = &touches[value->root];
          gboolean ordered = runs_before (self, root->write, s);
          for (guint k = 0; k < ORTRAIN_N_STREAMS && i >= step->n_inputs; k++)
            ordered = ordered && runs_before (self, root->reads[k], s);
          if (!ordered)
            return refuse (error, "step %u (%s) does not wait for all that touches '%s'", s,
                           ortrain_text_show (step->node->name), ortrain_text_show (value->name));
          if (value->region == ORTRAIN_REGION_HOST_ARENA && step->stream != ORTRAIN_STREAM_HOST &&
              step->stream != ORTRAIN_STREAM_COPY)
            return refuse (error, "step %u (%s) touches '%s', which is in the memory of the host", s,
                           ortrain_text_show (step->node->name), ortrain_text_show (value->name));
        }
      for (guint i = 0; i < (guint) step->n_inputs + step->n_outputs; i++)
        {
          const guint32 buffer = self->operands[step->first_operand + i];
          if (buffer == NONE)
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

/* overtaken: [n_steps]: the last step of another stream that may begin before step s has ended; s itself if none. */
static void
find_overtaken (const Verifier *self, gint32 *overtaken)
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
static gboolean
check_joined (const Verifier *self, GError **error)
{
  g_autofree guint *toucher = g_new0 (guint, self->n_values + 1); /* of a root: the first step of these, + 1 */
  g_autofree guint *writer = g_new0 (guint, self->n_values + 1);
  for (guint s = 0, end = 0; s < self->n_steps; s = end)
    {
      end = s + self->steps[s].n_joined;
      if (end <= s || end > self->n_steps)
        return refuse (error, "step %u runs together with %u steps", s, self->steps[s].n_joined);
      for (guint t = s; t < end && end > s + 1; t++)
        {
          const OrtrainPlanStep *step = &self->steps[t];
          if (step->n_joined != end - t || step->kernel != self->steps[s].kernel || step->kernel->run_joined == NULL ||
              step->stream != self->steps[s].stream)
            return refuse (error, "steps %u and %u cannot run together", s, t);
          for (guint i = 0; i < (guint) step->n_inputs + step->n_outputs; i++)
            {
              const guint32 buffer = self->operands[step->first_operand + i];
              const guint32 root = buffer != NONE ? self->values[buffer].root : NONE;
              if (root == NONE)
                continue;
              const guint other = i >= step->n_inputs ? toucher[root] : writer[root];
              if (other > s && other <= t)
                return refuse (error, "steps %u and %u run together, and one needs what the other writes", other - 1,
                               t);
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

/* From step to step: what is alive in an arena lies side by side. */
static gboolean
check_places (const Verifier *self, const Span *all, guint n_all, int arena, gsize *most, GError **error)
{
  g_autofree Span *spans = g_new (Span, n_all + 1);
  guint n_spans = 0;
  for (guint i = 0; i < n_all; i++)
    if (arena_of (&self->values[all[i].buffer]) == arena)
      spans[n_spans++] = all[i];
  g_autofree Span *ends = g_memdup2 (spans, (n_spans + 1) * sizeof (Span));
  qsort (spans, n_spans, sizeof (Span), compare_spans);
  qsort (ends, n_spans, sizeof (Span), compare_ends);
  g_autoptr (GTree) alive = g_tree_new_full (compare_offsets, NULL, NULL, NULL);
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
        return refuse (error, "'%s' and '%s' lie on each other at step %d",
                       ortrain_text_show (self->values[spans[i].buffer].name),
                       ortrain_text_show (self->values[other->buffer].name), spans[i].first);
      g_tree_insert (alive, GSIZE_TO_POINTER (spans[i].offset), &spans[i]);
      sum += (spans[i].end - spans[i].offset + 63) / 64 * 64;
      *most = MAX (*most, sum);
    }
  return TRUE;
}

/* Lifetimes, from the steps alone, against the table; no two of them meet in time and place; the sums. */
static gboolean
check_lifetimes (Verifier *self, GError **error)
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
          if (buffer == NONE)
            continue;
          Span *span = &spans[self->values[buffer].root];
          span->first = MIN (span->first, first);
          span->last = MAX (span->last, overtaken[last]);
        }
    }
  for (guint i = 0; i < graph->outputs->len; i++)
    {
      guint32 buffer = ortrain_memory_plan_find_buffer (self->plan, graph->outputs->pdata[i]);
      if (buffer != NONE)
        spans[self->values[buffer].root].last = n;
    }
  g_autofree gsize *live = g_new0 (gsize, self->n_steps + 2);
  guint n_spans = 0;
  for (guint32 i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      const Span span = spans[i];
      if (value->root != i || arena_of (value) < 0 || value->bytes == 0)
        continue;
      if (span.last < 0 && value->last < 0)
        continue; /* no step touches it, and no place is held for it */
      if (value->first != span.first || value->last != span.last)
        return refuse (error, "'%s' lives from step %d to %d, the plan says %d to %d", ortrain_text_show (value->name),
                       span.first, span.last, value->first, value->last);
      gsize bytes = (value->bytes + 63) / 64 * 64;
      live[span.first + 1] += arena_of (value) == 0 ? bytes : 0;
      live[span.last + 1] -= arena_of (value) == 0 ? bytes : 0;
      spans[n_spans++] = span;
    }
  for (guint s = 0; s <= self->n_steps; s++)
    {
      live[s] += s > 0 ? live[s - 1] : 0;
      if (live[s] != ortrain_memory_plan_get_live_bytes (self->plan, s))
        return refuse (error, "before step %u %" G_GSIZE_FORMAT " bytes are live, the plan says %" G_GSIZE_FORMAT, s,
                       live[s], ortrain_memory_plan_get_live_bytes (self->plan, s));
    }

  gsize most[2] = { 0, 0 };
  for (int arena = 0; arena < 2; arena++)
    if (!check_places (self, spans, n_spans, arena, &most[arena], error))
      return FALSE;
  if (most[0] != ortrain_memory_plan_get_lower_bound_bytes (self->plan) || most[0] > self->arena_bytes)
    return refuse (error, "%" G_GSIZE_FORMAT " bytes are live at most, the plan says %" G_GUINT64_FORMAT, most[0],
                   ortrain_memory_plan_get_lower_bound_bytes (self->plan));
  return TRUE;
}

gboolean
ortrain_plan_verify (OrtrainMemoryPlan *plan, GError **error)
{
  Verifier self = { .plan = plan };
  self.values = ortrain_memory_plan_peek_values (plan, &self.n_values);
  self.steps = ortrain_memory_plan_peek_steps (plan, &self.n_steps);
  self.operands = ortrain_memory_plan_peek_operands (plan, &self.n_operands);
  self.arena_bytes = ortrain_memory_plan_get_arena_bytes (plan);
  self.meaning = g_new0 (Content, self.n_values + 1);
  self.content = g_new0 (Content, self.n_values + 1);
  self.step_of = g_hash_table_new (NULL, NULL);
  self.waits = ortrain_memory_plan_peek_waits (plan, &self.n_waits);
  self.host_arena_bytes = ortrain_memory_plan_get_host_arena_bytes (plan);
  self.before = g_new0 (Before, self.n_steps + 1);
  for (guint a = 0; a < G_N_ELEMENTS (self.filled); a++)
    self.filled[a] = g_tree_new_full (compare_offsets, NULL, NULL, NULL);

  gboolean ok = check_values (&self, error) && check_steps (&self, error) && find_order (&self, error) &&
                check_order (&self, error) && find_meanings (&self, error);
  for (guint32 i = 0; ok && i < self.n_values; i++)
    {
      const OrtrainPlanValue *value = &self.values[i];
      if (value->root == i && value->value != NULL &&
          (value->value->kind != ORTRAIN_VALUE_COMPUTED || value->value->tensor != NULL))
        self.content[i] = one_buffer (i);
    }
  for (guint s = 0; ok && s < self.n_steps; s++)
    ok = run_step (&self, s, ortrain_memory_plan_peek_inplace (plan), error);
  ok = ok && check_joined (&self, error) && check_end (&self, error) && check_lifetimes (&self, error);

  g_free (self.meaning);
  g_free (self.content);
  g_hash_table_unref (self.step_of);
  for (guint a = 0; a < G_N_ELEMENTS (self.filled); a++)
    g_tree_unref (self.filled[a]);
  g_free (self.before);
  return ok;
}
