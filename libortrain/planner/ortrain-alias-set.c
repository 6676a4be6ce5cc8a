/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "planner/ortrain-alias-set-private.h"

void
ortrain_planner_state_make_alias_sets (OrtrainPlannerState *self)
{
  OrtrainGraph *graph = self->graph;
  self->n = graph->values->len;
  self->root = g_new (guint32, self->n + 1);
  self->next = g_new (guint32, self->n + 1);
  self->tail = g_new (guint32, self->n + 1);
  self->region = g_new0 (OrtrainRegion, self->n + 1);
  self->bytes = g_new0 (gsize, self->n + 1);
  for (guint i = 0; i < self->n; i++)
    {
      const OrtrainValue *value = graph->values->pdata[i];
      gint64 dims[ORTRAIN_MAX_RANK], n_elements;
      self->root[i] = self->tail[i] = i;
      self->next[i] = ORTRAIN_NO_BUFFER;
      if (value->rank <= ORTRAIN_MAX_RANK)
        ortrain_planner_state_measure_value (value, dims, &n_elements, &self->bytes[i]);
      if (value->kind == ORTRAIN_VALUE_INPUT && value->tensor == NULL)
        self->region[i] = ORTRAIN_REGION_INPUT;
      else if (value->role == ORTRAIN_ROLE_PARAMETER && value->kind != ORTRAIN_VALUE_COMPUTED)
        self->region[i] = ORTRAIN_REGION_PARAMETER;
      else if (value->kind == ORTRAIN_VALUE_HELD)
        self->region[i] = ORTRAIN_REGION_STATE;
      else if (value->role == ORTRAIN_ROLE_BUFFER && value->kind != ORTRAIN_VALUE_COMPUTED)
        self->region[i] = ORTRAIN_REGION_BUFFER;
      else if (value->tensor != NULL)
        self->region[i] = ORTRAIN_REGION_CONSTANT;
      else
        self->region[i] = value->on_host ? ORTRAIN_REGION_HOST_ARENA : ORTRAIN_REGION_ARENA;
    }
}

static void
add_reader (OrtrainAliasSetUse *use, const OrtrainNode *node, gint32 position)
{
  if (position < 0 || (node != NULL && node == use->last_reader))
    return;
  if (position > use->last_read)
    {
      use->read_before = use->last_read;
      use->last_read = position;
      use->last_reader = node;
    }
  else
    use->read_before = MAX (use->read_before, position);
}

/* The last reader does not read any more; of those before, one is known. */
static void
forget_reader (OrtrainAliasSetUse *use, const OrtrainNode *node)
{
  if (use->last_reader != node)
    return;
  use->last_read = use->read_before;
  use->last_reader = NULL;
}

void
ortrain_planner_state_alias (OrtrainPlannerState *self, const OrtrainValue *value, const OrtrainValue *to)
{
  guint32 from = self->root[value->id], root = self->root[to->id];
  if (from == root)
    return;
  for (guint32 i = from; i != ORTRAIN_NO_BUFFER; i = self->next[i])
    self->root[i] = root;
  self->next[self->tail[root]] = from;
  self->tail[root] = self->tail[from];
  if (self->use == NULL)
    return;
  OrtrainAliasSetUse *use = &self->use[root];
  const OrtrainAliasSetUse *more = &self->use[from];
  use->kept = use->kept || more->kept;
  use->last_write = MAX (use->last_write, more->last_write);
  add_reader (use, more->last_reader, more->last_read);
  use->read_before = MAX (use->read_before, more->read_before);
}

void
ortrain_planner_state_measure_alias_sets (OrtrainPlannerState *self)
{
  g_clear_pointer (&self->use, g_free);
  self->use = g_new (OrtrainAliasSetUse, self->n + 1);
  for (guint32 i = 0; i < self->n; i++)
    self->use[i] = (OrtrainAliasSetUse){ -1, -1, -1, NULL, FALSE };
  for (guint32 i = 0; i < self->n; i++)
    {
      const OrtrainValue *value = self->graph->values->pdata[i];
      OrtrainAliasSetUse *use = &self->use[self->root[i]];
      use->kept = use->kept || value->is_output;
      if (value->producer != NULL &&
          ortrain_planner_state_node (self, value->producer)->fate == ORTRAIN_DISPOSITION_RUNS)
        use->last_write = MAX (use->last_write, ortrain_planner_state_node (self, value->producer)->position);
      for (guint u = 0; u < value->uses.n; u++)
        {
          const OrtrainNode *node = value->uses.items[u].node;
          if (ortrain_planner_state_node (self, node)->fate == ORTRAIN_DISPOSITION_RUNS)
            add_reader (use, node, ortrain_planner_state_node (self, node)->position);
        }
    }
}

static gboolean
reads_alias_set (OrtrainPlannerState *self, const OrtrainNode *node, guint32 root)
{
  for (guint i = 0; i < node->inputs->len; i++)
    if (node->inputs->pdata[i] != NULL && self->root[((OrtrainValue *) node->inputs->pdata[i])->id] == root)
      return TRUE;
  return FALSE;
}

/* z = a + b where a's kernel can add onto b: b is there before, and nobody else reads it after. */
static gboolean
can_accumulate_onto (OrtrainPlannerState *self, const OrtrainNode *addition, const OrtrainValue *term,
                     const OrtrainValue *base)
{
  const OrtrainNode *maker = term->producer;
  if (maker == NULL || ortrain_planner_state_is_fixed (term) || term->is_output || term->uses.n != 1 ||
      term->role != ORTRAIN_ROLE_NONE)
    return FALSE;
  const OrtrainPlannedNode *info = ortrain_planner_state_node (self, maker);
  const guint32 root = self->root[base->id];
  if (info->fate != ORTRAIN_DISPOSITION_RUNS || !(info->kernel->can_accumulate >> term->output_index & 1) ||
      ((info->accumulates | info->gradients) >> term->output_index & 1) || self->root[term->id] != term->id ||
      self->region[root] != ORTRAIN_REGION_ARENA || self->bytes[root] != self->bytes[term->id] ||
      reads_alias_set (self, maker, root))
    return FALSE;
  OrtrainAliasSetUse use = self->use[root];
  forget_reader (&use, addition);
  return !use.kept && use.last_write >= 0 && use.last_write < info->position && use.last_read < info->position;
}

static void
add_edge (OrtrainPlannerState *self, OrtrainNode *from, OrtrainNode *to)
{
  const OrtrainOrderEdge edge = { from, to };
  if (from != to && ortrain_planner_state_node (self, from)->fate == ORTRAIN_DISPOSITION_RUNS)
    g_array_append_val (self->edges, edge);
}

/* All nodes that make or read a member of the set run before `node`, which overwrites it. */
static void
run_after_alias_set (OrtrainPlannerState *self, guint32 root, OrtrainNode *node)
{
  for (guint32 i = root; i != ORTRAIN_NO_BUFFER; i = self->next[i])
    {
      const OrtrainValue *member = self->graph->values->pdata[i];
      if (member->producer != NULL)
        add_edge (self, member->producer, node);
      for (guint u = 0; u < member->uses.n; u++)
        add_edge (self, member->uses.items[u].node, node);
    }
}

void
ortrain_planner_state_merge_addition (OrtrainPlannerState *self, OrtrainNode *node)
{
  /* A kernel that adds into its output rounds once; a separate addition after it rounds twice. The choice must not
   * depend on the nodes that run again in the backward pass, or training would have other bits with less memory.
   * Readers of a value of the forward pass depend on these nodes; readers of a value of the backward pass do not. */
  const gboolean is_of_training = self->first[ORTRAIN_PHASE_BACKWARD] != NULL;
  if (is_of_training && (node->phase == ORTRAIN_PHASE_FORWARD || node->recomputes != NULL))
    return;
  /* Two terms: one lies still, the other is added. Longer sums come as chains. */
  if (node->inputs->len != 2 || !ortrain_planner_state_is_addition (node) ||
      node->inputs->pdata[0] == node->inputs->pdata[1])
    return;
  const guint32 sum = ((OrtrainValue *) node->outputs->pdata[0])->id;
  if (self->root[sum] != sum || self->region[sum] != ORTRAIN_REGION_ARENA)
    return;
  for (guint i = 0; i < 2; i++)
    {
      OrtrainValue *term = node->inputs->pdata[i], *base = node->inputs->pdata[1 - i];
      if (!can_accumulate_onto (self, node, term, base))
        continue;
      ortrain_planner_state_node (self, term->producer)->accumulates |= (guint64) 1 << term->output_index;
      ortrain_planner_state_node (self, node)->fate = ORTRAIN_DISPOSITION_MERGED;
      run_after_alias_set (self, self->root[base->id], term->producer);
      forget_reader (&self->use[self->root[base->id]], node);
      forget_reader (&self->use[self->root[term->id]], node);
      self->use[sum].last_write = -1;
      ortrain_planner_state_alias (self, term, base);
      ortrain_planner_state_alias (self, node->outputs->pdata[0], base);
      return;
    }
}

void
ortrain_planner_state_run_in_place (OrtrainPlannerState *self, OrtrainNode *node)
{
  OrtrainPlannedNode *info = ortrain_planner_state_node (self, node);
  for (guint k = 0; k < node->outputs->len; k++)
    {
      OrtrainValue *output = node->outputs->pdata[k];
      if (output == NULL || info->kernel->inplace[k] == 0 || (info->accumulates >> k & 1) ||
          self->root[output->id] != output->id || self->region[output->id] != ORTRAIN_REGION_ARENA ||
          self->bytes[output->id] == 0)
        continue;
      for (guint i = 0; i < MIN (node->inputs->len, 64); i++)
        {
          OrtrainValue *input = node->inputs->pdata[i];
          if (input == NULL || !(info->kernel->inplace[k] >> i & 1))
            continue;
          guint32 root = self->root[input->id];
          if (self->region[root] != ORTRAIN_REGION_ARENA || self->bytes[root] != self->bytes[output->id])
            continue;
          gboolean fits = TRUE;
          for (guint j = 0; j < node->inputs->len; j++)
            {
              const OrtrainValue *other = node->inputs->pdata[j];
              if (j != i && other != NULL && self->root[other->id] == root)
                fits = fits && j < 64 && (info->kernel->inplace[k] >> j & 1);
            }
          for (guint j = 0; j < node->outputs->len; j++)
            {
              const OrtrainValue *other = node->outputs->pdata[j];
              fits = fits && (other == NULL || self->root[other->id] != root);
            }
          if (!fits)
            continue;
          const OrtrainAliasSetUse *use = &self->use[root];
          if (use->kept || use->last_read != info->position || use->last_write >= info->position)
            continue;
          ortrain_planner_state_alias (self, output, input);
          break;
        }
    }
}
