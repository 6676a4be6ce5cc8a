/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "plan/ortrain-plan-verifier-private.h"

#include "core/ortrain-text-private.h"
#include "ops/ortrain-op-private.h"

#include <string.h>

/* Holds a plan against its graph by running it in the mind: every place remembers which values its bytes are the sum
 * of, a write forgets what it touches, and a read must find exactly what the graph says the value is. Nothing here
 * comes from the planner, and nothing that the planner claims about lifetimes is believed.
 *
 * A sum may have as many terms as the graph has nodes, and each partial sum may be read: it is known by its
 * fingerprint, the sum of 128-bit numbers that its terms are given. */

gboolean
ortrain_plan_verifier_refuse (GError **error, const char *format, ...)
{
  va_list args;
  va_start (args, format);
  g_autofree char *message = g_strdup_vprintf (format, args);
  va_end (args);
  g_set_error (error, ORTRAIN_PLAN_ERROR, ORTRAIN_PLAN_ERROR_INVALID, "The memory plan is wrong: %s", message);
  return FALSE;
}

int
ortrain_plan_verifier_arena_of (const OrtrainPlanValue *value)
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

static OrtrainPlanContent
one_buffer (guint32 buffer)
{
  return (OrtrainPlanContent){ mix (2 * (guint64) buffer), mix (2 * (guint64) buffer + 1), TRUE };
}

static OrtrainPlanContent
add (OrtrainPlanContent a, OrtrainPlanContent b)
{
  OrtrainPlanContent sum = { a.low + b.low, a.high + b.high, TRUE };
  sum.high += sum.low < a.low;
  return sum;
}

static gboolean
same_content (const OrtrainPlanContent *a, const OrtrainPlanContent *b)
{
  return a->known && b->known && a->low == b->low && a->high == b->high;
}

int
ortrain_plan_verifier_compare_offsets (gconstpointer a, gconstpointer b, gpointer data)
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
check_values (OrtrainPlanVerifier *self, GError **error)
{
  for (guint32 i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      if (value->root >= self->n_values || self->values[value->root].root != value->root)
        return ortrain_plan_verifier_refuse (error, "buffer %u (%s) shares the memory of buffer %u, which is no root",
                                             i, ortrain_text_show (value->name), value->root);
      const OrtrainPlanValue *root = &self->values[value->root];
      if (value->region != root->region || value->offset != root->offset || value->bytes != root->bytes)
        return ortrain_plan_verifier_refuse (error, "buffer %u (%s) does not lie exactly where its root %s does", i,
                                             ortrain_text_show (value->name), ortrain_text_show (root->name));
      if (value->value != NULL && value->value->rank >= 0 && value->bytes != product_of_dims (value->value))
        return ortrain_plan_verifier_refuse (
            error, "buffer %u (%s) has %" G_GSIZE_FORMAT " bytes, its shape says %" G_GSIZE_FORMAT, i,
            ortrain_text_show (value->name), value->bytes, product_of_dims (value->value));
      if (ortrain_plan_verifier_arena_of (value) < 0 || value->bytes == 0)
        continue;
      const gsize arena_bytes =
          ortrain_plan_verifier_arena_of (value) == 0 ? self->arena_bytes : self->host_arena_bytes;
      if (value->offset % 64 != 0)
        return ortrain_plan_verifier_refuse (
            error, "buffer %u (%s) lies at %" G_GSIZE_FORMAT ", which is not a multiple of 64", i,
            ortrain_text_show (value->name), value->offset);
      if (value->offset > arena_bytes || value->bytes > arena_bytes - value->offset)
        return ortrain_plan_verifier_refuse (error, "buffer %u (%s) ends after the arena", i,
                                             ortrain_text_show (value->name));
      if (value->value != NULL && (value->value->tensor != NULL || value->value->kind != ORTRAIN_VALUE_COMPUTED))
        return ortrain_plan_verifier_refuse (error,
                                             "buffer %u (%s) is there before the first step, and not in the arena", i,
                                             ortrain_text_show (value->name));
    }
  return TRUE;
}

/* Each node runs once, in an order that respects what it reads, or needs no step. */
static gboolean
check_steps (OrtrainPlanVerifier *self, GError **error)
{
  guint next_operand = 0;
  guint first[ORTRAIN_N_PHASES] = { 0, self->n_steps, self->n_steps };
  for (guint s = 0; s < self->n_steps; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      const OrtrainNode *node = step->node;
      if (node == NULL || step->kernel == NULL || !g_str_equal (step->kernel->op_type, node->op_type))
        return ortrain_plan_verifier_refuse (error, "step %u has no node, or the kernel of another operator", s);
      if (!g_hash_table_insert (self->step_of, (gpointer) node, GUINT_TO_POINTER (s + 1)))
        return ortrain_plan_verifier_refuse (error, "the node '%s' runs twice", ortrain_text_show (node->name));
      if (step->first_operand != next_operand || step->n_inputs != node->inputs->len ||
          step->n_outputs != node->outputs->len)
        return ortrain_plan_verifier_refuse (error, "step %u (%s) has other operands than its node", s,
                                             ortrain_text_show (node->name));
      next_operand += step->n_inputs + step->n_outputs;
      if (next_operand > self->n_operands)
        return ortrain_plan_verifier_refuse (error, "step %u (%s) has operands beyond the table", s,
                                             ortrain_text_show (node->name));
      for (guint i = 0; i < (guint) step->n_inputs + step->n_outputs; i++)
        {
          guint32 buffer = self->operands[step->first_operand + i];
          const OrtrainValue *value =
              i < step->n_inputs ? node->inputs->pdata[i] : node->outputs->pdata[i - step->n_inputs];
          if ((buffer == ORTRAIN_NO_BUFFER) != (value == NULL) ||
              (buffer != ORTRAIN_NO_BUFFER && (buffer >= self->n_values || self->values[buffer].value != value)))
            return ortrain_plan_verifier_refuse (error, "operand %u of step %u (%s) is not the one of its node", i, s,
                                                 ortrain_text_show (node->name));
        }
      if (step->workspace != ORTRAIN_NO_BUFFER &&
          (step->workspace >= self->n_values || self->values[step->workspace].value != NULL ||
           ortrain_plan_verifier_arena_of (&self->values[step->workspace]) < 0))
        return ortrain_plan_verifier_refuse (error, "step %u (%s) has no proper workspace", s,
                                             ortrain_text_show (node->name));
      if (step->phase != node->phase || (s > 0 && step->phase < self->steps[s - 1].phase))
        return ortrain_plan_verifier_refuse (error, "step %u (%s) is in the wrong phase", s,
                                             ortrain_text_show (node->name));
      for (guint phase = 1; phase <= step->phase; phase++)
        first[phase] = MIN (first[phase], s);
      if ((step->accumulates & step->gradients) != 0)
        return ortrain_plan_verifier_refuse (error, "step %u (%s) both begins and goes on with a sum", s,
                                             ortrain_text_show (node->name));
    }
  if (first[ORTRAIN_PHASE_BACKWARD] != ortrain_memory_plan_get_first_backward_step (self->plan))
    return ortrain_plan_verifier_refuse (error, "the backward pass begins at step %u, the plan says %u",
                                         first[ORTRAIN_PHASE_BACKWARD],
                                         ortrain_memory_plan_get_first_backward_step (self->plan));
  if (first[ORTRAIN_PHASE_UPDATE] != ortrain_memory_plan_get_first_update_step (self->plan))
    return ortrain_plan_verifier_refuse (error, "the update begins at step %u, the plan says %u",
                                         first[ORTRAIN_PHASE_UPDATE],
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

/* Finds the content of each value: itself, if a step makes it or it exists from the beginning; else the contents of the
 * inputs of its node, which runs in no step. Nodes are in the order in which they would run. */
static gboolean
find_meanings (OrtrainPlanVerifier *self, GError **error)
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
          if (buffer == ORTRAIN_NO_BUFFER || self->meaning[buffer].known)
            continue;
          const gboolean sum = !is_renaming (node) && is_plain_sum (node);
          if (k > 0 || (!sum && !is_renaming (node)))
            return ortrain_plan_verifier_refuse (error, "no step runs the node '%s' (%s)",
                                                 ortrain_text_show (node->name), ortrain_text_show (node->op_type));
          OrtrainPlanContent all = { 0 };
          for (guint i = 0; i < (sum ? node->inputs->len : 1); i++)
            {
              guint32 term = ortrain_memory_plan_find_buffer (self->plan, node->inputs->pdata[i]);
              if (term == ORTRAIN_NO_BUFFER)
                return ortrain_plan_verifier_refuse (error, "an input of '%s' is in no table",
                                                     ortrain_text_show (node->name));
              if (!self->meaning[term].known)
                return ortrain_plan_verifier_refuse (error, "nothing makes '%s'",
                                                     ortrain_text_show (self->values[term].name));
              all = add (all, self->meaning[term]);
            }
          self->meaning[buffer] = all;
        }
    }
  return TRUE;
}

/* Whether two buffers touch the same bytes. */
static gboolean
touch (const OrtrainPlanVerifier *self, guint32 a, guint32 b)
{
  const OrtrainPlanValue *x = &self->values[a], *y = &self->values[b];
  if (x->bytes == 0 || y->bytes == 0)
    return FALSE;
  if (x->root == y->root)
    return TRUE;
  return ortrain_plan_verifier_arena_of (x) >= 0 &&
         ortrain_plan_verifier_arena_of (x) == ortrain_plan_verifier_arena_of (y) && x->offset < y->offset + y->bytes &&
         y->offset < x->offset + x->bytes;
}

/* Forgets the contents of all roots that `buffer`, which is about to be written, overlaps, except for its own root. */
static void
clobber (OrtrainPlanVerifier *self, guint32 buffer)
{
  const OrtrainPlanValue *value = &self->values[buffer];
  if (ortrain_plan_verifier_arena_of (value) < 0 || value->bytes == 0)
    return;
  GTree *filled = self->filled[ortrain_plan_verifier_arena_of (value)];
  const gsize end = value->offset + value->bytes;
  /* The last that begins before the end, and those before it, until one ends before the beginning. */
  for (;;)
    {
      GTreeNode *node = g_tree_lower_bound (filled, GSIZE_TO_POINTER (end));
      node = node != NULL ? g_tree_node_previous (node) : g_tree_node_last (filled);
      while (node != NULL && GPOINTER_TO_UINT (g_tree_node_value (node)) - 1 == value->root)
        node = g_tree_node_previous (node);
      const guint32 root = node != NULL ? GPOINTER_TO_UINT (g_tree_node_value (node)) - 1 : ORTRAIN_NO_BUFFER;
      if (root == ORTRAIN_NO_BUFFER || !touch (self, root, buffer))
        return;
      self->content[root].known = FALSE;
      g_tree_remove (filled, GSIZE_TO_POINTER (self->values[root].offset));
    }
}

static gboolean
write_output (OrtrainPlanVerifier *self, guint s, guint k, guint32 buffer, GError **error)
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
        return ortrain_plan_verifier_refuse (error, "step %u (%s) accumulates outside of the gradients", s,
                                             ortrain_text_show (step->node->name));
      break;
    case ORTRAIN_REGION_GRADIENT:
      if (!gradient && !adds)
        return ortrain_plan_verifier_refuse (error, "step %u (%s) overwrites the gradient '%s'", s,
                                             ortrain_text_show (step->node->name), ortrain_text_show (value->name));
      if (gradient && self->content[root].known)
        return ortrain_plan_verifier_refuse (error, "step %u (%s) accumulates into the gradient '%s', which has begun",
                                             s, ortrain_text_show (step->node->name), ortrain_text_show (value->name));
      break;
    case ORTRAIN_REGION_PARAMETER:
    case ORTRAIN_REGION_STATE:
    case ORTRAIN_REGION_BUFFER:
      if (adds || gradient)
        return ortrain_plan_verifier_refuse (error, "step %u (%s) adds to '%s'", s,
                                             ortrain_text_show (step->node->name), ortrain_text_show (value->name));
      if (value->value == NULL || value->value->role != ORTRAIN_ROLE_UPDATE || value->value->partner == NULL ||
          ortrain_memory_plan_find_buffer (self->plan, value->value->partner) != root)
        return ortrain_plan_verifier_refuse (error, "step %u (%s) writes '%s' over '%s', which it is no update of", s,
                                             ortrain_text_show (step->node->name), ortrain_text_show (value->name),
                                             ortrain_text_show (self->values[root].name));
      break;
    case ORTRAIN_REGION_CONSTANT:
    case ORTRAIN_REGION_INPUT:
      return ortrain_plan_verifier_refuse (error, "step %u (%s) writes to '%s', which is not to be changed", s,
                                           ortrain_text_show (step->node->name), ortrain_text_show (value->name));
    }
  if (adds && !self->content[root].known && value->bytes > 0)
    return ortrain_plan_verifier_refuse (error, "step %u (%s) adds to '%s', where nothing is", s,
                                         ortrain_text_show (step->node->name), ortrain_text_show (value->name));
  clobber (self, buffer);
  if (ortrain_plan_verifier_arena_of (value) >= 0 && value->bytes > 0)
    g_tree_insert (self->filled[ortrain_plan_verifier_arena_of (value)], GSIZE_TO_POINTER (value->offset),
                   GUINT_TO_POINTER (root + 1));
  self->content[root] =
      adds && self->content[root].known ? add (self->content[root], one_buffer (buffer)) : one_buffer (buffer);
  return TRUE;
}

static gboolean
check_overlap (const OrtrainPlanVerifier *self, guint s, guint i, guint k, const guint64 *inplace, GError **error)
{
  const OrtrainPlanStep *step = &self->steps[s];
  const guint32 *inputs = self->operands + step->first_operand, *outputs = inputs + step->n_inputs;
  if (inputs[i] == ORTRAIN_NO_BUFFER || !touch (self, inputs[i], outputs[k]))
    return TRUE;
  if (self->values[inputs[i]].root == self->values[outputs[k]].root && i < 64 &&
      (inplace[step->first_operand + step->n_inputs + k] >> i & 1) &&
      !(k < 64 && ((step->accumulates | step->gradients) >> k & 1)))
    return TRUE;
  return ortrain_plan_verifier_refuse (
      error, "step %u (%s) writes '%s' over its input '%s'", s, ortrain_text_show (step->node->name),
      ortrain_text_show (self->values[outputs[k]].name), ortrain_text_show (self->values[inputs[i]].name));
}

/* A step does not write over its inputs, unless it may, nor over its other outputs. In an arena anything may lie on
 * anything; elsewhere values lie on each other that share a root, which are found without looking at all pairs: an
 * update of many tensors has hundreds of operands. */
static gboolean
check_overlaps (OrtrainPlanVerifier *self, guint s, const guint64 *inplace, GError **error)
{
  const OrtrainPlanStep *step = &self->steps[s];
  const guint32 *inputs = self->operands + step->first_operand, *outputs = inputs + step->n_inputs;
  gboolean ok = TRUE;
  g_array_set_size (self->readers, step->n_inputs);
  for (guint i = 0; i < step->n_inputs; i++)
    if (inputs[i] != ORTRAIN_NO_BUFFER)
      {
        guint32 *last = &self->reader[self->values[inputs[i]].root];
        g_array_index (self->readers, guint32, i) = *last;
        *last = i + 1;
      }
  for (guint k = 0; k < step->n_outputs && ok; k++)
    {
      if (outputs[k] == ORTRAIN_NO_BUFFER || self->values[outputs[k]].bytes == 0)
        continue;
      const gboolean in_arena = ortrain_plan_verifier_arena_of (&self->values[outputs[k]]) >= 0;
      const guint32 root = self->values[outputs[k]].root;
      for (guint i = 0; i < step->n_inputs && in_arena && ok; i++)
        ok = check_overlap (self, s, i, k, inplace, error);
      for (guint i = self->reader[root]; i > 0 && !in_arena && ok; i = g_array_index (self->readers, guint32, i - 1))
        ok = check_overlap (self, s, i - 1, k, inplace, error);
      gboolean alone = self->writer[root] == 0;
      for (guint j = 0; j < k && in_arena && alone; j++)
        alone = outputs[j] == ORTRAIN_NO_BUFFER || !touch (self, outputs[j], outputs[k]);
      self->writer[root] = k + 1;
      if (ok && !alone)
        ok = ortrain_plan_verifier_refuse (error, "two outputs of step %u (%s) lie on each other", s,
                                           ortrain_text_show (step->node->name));
      if (ok && step->workspace != ORTRAIN_NO_BUFFER && touch (self, outputs[k], step->workspace))
        ok = ortrain_plan_verifier_refuse (error, "the workspace of step %u (%s) lies on its output '%s'", s,
                                           ortrain_text_show (step->node->name),
                                           ortrain_text_show (self->values[outputs[k]].name));
    }
  for (guint i = 0; i < (guint) step->n_inputs + step->n_outputs; i++)
    if (inputs[i] != ORTRAIN_NO_BUFFER)
      self->reader[self->values[inputs[i]].root] = self->writer[self->values[inputs[i]].root] = 0;
  return ok;
}

static gboolean
run_step (OrtrainPlanVerifier *self, guint s, const guint64 *inplace, GError **error)
{
  const OrtrainPlanStep *step = &self->steps[s];
  const guint32 *inputs = self->operands + step->first_operand, *outputs = inputs + step->n_inputs;
  for (guint i = 0; i < step->n_inputs; i++)
    {
      if (inputs[i] == ORTRAIN_NO_BUFFER)
        continue;
      if (self->values[inputs[i]].bytes > 0 &&
          !same_content (&self->meaning[inputs[i]], &self->content[self->values[inputs[i]].root]))
        return ortrain_plan_verifier_refuse (error, "step %u (%s) reads '%s', which is not there at that time", s,
                                             ortrain_text_show (step->node->name),
                                             ortrain_text_show (self->values[inputs[i]].name));
      /* between the backward pass and the update others may use the arena */
      if (step->phase == ORTRAIN_PHASE_UPDATE && ortrain_plan_verifier_arena_of (&self->values[inputs[i]]) >= 0 &&
          self->values[inputs[i]].bytes > 0 &&
          self->values[self->values[inputs[i]].root].first <
              (gint32) ortrain_memory_plan_get_first_update_step (self->plan))
        return ortrain_plan_verifier_refuse (
            error, "step %u (%s) of the update reads '%s', which the backward pass left in the arena", s,
            ortrain_text_show (step->node->name), ortrain_text_show (self->values[inputs[i]].name));
      if (step->workspace != ORTRAIN_NO_BUFFER && touch (self, inputs[i], step->workspace))
        return ortrain_plan_verifier_refuse (error, "the workspace of step %u (%s) lies on its input '%s'", s,
                                             ortrain_text_show (step->node->name),
                                             ortrain_text_show (self->values[inputs[i]].name));
    }
  if (!check_overlaps (self, s, inplace, error))
    return FALSE;
  if (step->workspace != ORTRAIN_NO_BUFFER)
    clobber (self, step->workspace);
  for (guint k = 0; k < step->n_outputs; k++)
    if (outputs[k] != ORTRAIN_NO_BUFFER && !write_output (self, s, k, outputs[k], error))
      return FALSE;
  return TRUE;
}

static gboolean
check_end (OrtrainPlanVerifier *self, GError **error)
{
  const OrtrainGraph *graph = ortrain_memory_plan_peek_graph (self->plan);
  for (guint i = 0; i < graph->outputs->len; i++)
    {
      const OrtrainValue *output = graph->outputs->pdata[i];
      guint32 buffer = ortrain_memory_plan_find_buffer (self->plan, output);
      if (buffer == ORTRAIN_NO_BUFFER)
        return ortrain_plan_verifier_refuse (error, "the output '%s' is in no table", ortrain_text_show (output->name));
      const OrtrainPlanValue *value = &self->values[buffer];
      if (value->bytes > 0 && !same_content (&self->meaning[buffer], &self->content[value->root]))
        return ortrain_plan_verifier_refuse (error, "the output '%s' is not there at the end",
                                             ortrain_text_show (output->name));
      if (output->role == ORTRAIN_ROLE_GRADIENT && value->region != ORTRAIN_REGION_GRADIENT)
        return ortrain_plan_verifier_refuse (error, "the gradient '%s' does not end in its place",
                                             ortrain_text_show (output->name));
      if (output->role == ORTRAIN_ROLE_UPDATE && output->partner != NULL &&
          value->root != ortrain_memory_plan_find_buffer (self->plan, output->partner))
        return ortrain_plan_verifier_refuse (error, "'%s' does not end in the place of '%s'",
                                             ortrain_text_show (output->name),
                                             ortrain_text_show (output->partner->name));
    }
  return TRUE;
}

gboolean
ortrain_plan_verify (OrtrainMemoryPlan *plan, GError **error)
{
  OrtrainPlanVerifier self = { .plan = plan };
  self.values = ortrain_memory_plan_peek_values (plan, &self.n_values);
  self.steps = ortrain_memory_plan_peek_steps (plan, &self.n_steps);
  self.operands = ortrain_memory_plan_peek_operands (plan, &self.n_operands);
  self.arena_bytes = ortrain_memory_plan_get_arena_bytes (plan);
  self.meaning = g_new0 (OrtrainPlanContent, self.n_values + 1);
  self.content = g_new0 (OrtrainPlanContent, self.n_values + 1);
  self.step_of = g_hash_table_new (NULL, NULL);
  self.waits = ortrain_memory_plan_peek_waits (plan, &self.n_waits);
  self.host_arena_bytes = ortrain_memory_plan_get_host_arena_bytes (plan);
  self.before = g_new0 (OrtrainPlanBefore, self.n_steps + 1);
  self.reader = g_new0 (guint32, self.n_values + 1);
  self.writer = g_new0 (guint32, self.n_values + 1);
  self.readers = g_array_new (FALSE, FALSE, sizeof (guint32));
  for (guint a = 0; a < G_N_ELEMENTS (self.filled); a++)
    self.filled[a] = g_tree_new_full (ortrain_plan_verifier_compare_offsets, NULL, NULL, NULL);

  gboolean ok = check_values (&self, error) && check_steps (&self, error) &&
                ortrain_plan_verifier_check_order (&self, error) && find_meanings (&self, error);
  for (guint32 i = 0; ok && i < self.n_values; i++)
    {
      const OrtrainPlanValue *value = &self.values[i];
      if (value->root == i && value->value != NULL &&
          (value->value->kind != ORTRAIN_VALUE_COMPUTED || value->value->tensor != NULL))
        self.content[i] = one_buffer (i);
    }
  for (guint s = 0; ok && s < self.n_steps; s++)
    ok = run_step (&self, s, ortrain_memory_plan_peek_inplace (plan), error);
  ok = ok && ortrain_plan_verifier_check_joined (&self, error) && check_end (&self, error) &&
       ortrain_plan_verifier_check_lifetimes (&self, error);

  g_free (self.meaning);
  g_free (self.content);
  g_hash_table_unref (self.step_of);
  for (guint a = 0; a < G_N_ELEMENTS (self.filled); a++)
    g_tree_unref (self.filled[a]);
  g_free (self.before);
  g_free (self.reader);
  g_free (self.writer);
  g_array_unref (self.readers);
  return ok;
}
