/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "session/ortrain-program-private.h"

#include "core/ortrain-mapped-file-private.h"
#include "core/ortrain-text-private.h"
#include "transform/ortrain-evaluate-private.h"

struct _OrtrainProgram
{
  OrtrainMemoryPlan *plan;
  OrtrainExecution *execution;
  GPtrArray *constants; /* of OrtrainTensor, kept by the plan's graph: those that it holds in the execution */
  const OrtrainPlanValue *values;
  const OrtrainPlanStep *steps;
  const guint32 *operands;
  guint n_values, n_steps, n_operands;

  OrtrainKernelCall *calls; /* [n_steps] */
  gpointer *addresses;      /* [n_operands]: what the calls point into */
  gpointer *places;         /* [n_values]: of roots */
  gpointer arena;

  /* Operands by root, so that binding an address touches only what changes. */
  guint32 *first_slot; /* [n_values + 1] */
  guint32 *slots;      /* [n_operands] */
};

gboolean
ortrain_program_hold (OrtrainProgram *self, OrtrainTensor *tensor, gpointer *address, GError **error)
{
  if (!ortrain_execution_ref_constant (self->execution, tensor, address, error))
    return FALSE;
  g_ptr_array_add (self->constants, tensor);
  return TRUE;
}

gboolean
ortrain_program_place_constants (OrtrainProgram *self, GError **error)
{
  for (guint32 i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      gpointer address;
      if (value->root != i || value->bytes == 0 || value->region != ORTRAIN_REGION_CONSTANT ||
          value->value->tensor == NULL)
        continue;
      if (!ortrain_program_hold (self, value->value->tensor, &address, error))
        {
          g_prefix_error (error, "Constant '%s': ", ortrain_text_show (value->name));
          return FALSE;
        }
      ortrain_program_set_address (self, i, address);
    }
  return TRUE;
}

OrtrainProgram *
ortrain_program_new (OrtrainMemoryPlan *plan, OrtrainExecution *execution)
{
  OrtrainProgram *self = g_new0 (OrtrainProgram, 1);
  self->plan = g_object_ref (plan);
  self->execution = execution;
  self->constants = g_ptr_array_new ();
  self->values = ortrain_memory_plan_peek_values (plan, &self->n_values);
  self->steps = ortrain_memory_plan_peek_steps (plan, &self->n_steps);
  self->operands = ortrain_memory_plan_peek_operands (plan, &self->n_operands);
  self->calls = g_new0 (OrtrainKernelCall, self->n_steps + 1);
  self->addresses = g_new0 (gpointer, self->n_operands + 1);
  self->places = g_new0 (gpointer, self->n_values + 1);
  self->first_slot = g_new0 (guint32, self->n_values + 2);
  self->slots = g_new0 (guint32, self->n_operands + 1);

  for (guint i = 0; i < self->n_operands; i++)
    if (self->operands[i] != G_MAXUINT32)
      self->first_slot[self->values[self->operands[i]].root + 1]++;
  for (guint i = 0; i < self->n_values; i++)
    self->first_slot[i + 1] += self->first_slot[i];
  g_autofree guint32 *used = g_new0 (guint32, self->n_values + 1);
  for (guint i = 0; i < self->n_operands; i++)
    if (self->operands[i] != G_MAXUINT32)
      {
        guint32 root = self->values[self->operands[i]].root;
        self->slots[self->first_slot[root] + used[root]++] = i;
      }

  for (guint s = 0; s < self->n_steps; s++)
    {
      const OrtrainPlanStep *step = &self->steps[s];
      self->calls[s] = (OrtrainKernelCall){
        .run = step->kernel->run,
        .inputs = (const void *const *) (self->addresses + step->first_operand),
        .outputs = self->addresses + step->first_operand + step->n_inputs,
        .constants = step->constants,
        .n_inputs = step->n_inputs,
        .n_outputs = step->n_outputs,
        .plan_step = s,
        .node_number = step->node->number,
        .accumulates = step->accumulates,
        .gradients = step->gradients,
        .context = ortrain_execution_peek_context (execution),
      };
    }
  for (guint32 i = 0; i < self->n_values; i++)
    {
      /* NULL would mean that it is absent */
      if (self->values[i].root == i && self->values[i].bytes == 0)
        ortrain_program_set_address (self, i, ortrain_execution_get_nothing (execution));
    }
  return self;
}

void
ortrain_program_free (OrtrainProgram *self)
{
  for (guint i = 0; i < self->constants->len; i++)
    ortrain_execution_unref_constant (self->execution, self->constants->pdata[i]);
  g_ptr_array_unref (self->constants);
  g_free (self->calls);
  g_free (self->addresses);
  g_free (self->places);
  g_free (self->first_slot);
  g_free (self->slots);
  g_object_unref (self->plan);
  g_free (self);
}

void
ortrain_program_set_address (OrtrainProgram *self, guint32 buffer, gpointer address)
{
  if (self->places[buffer] == address)
    return;
  self->places[buffer] = address;
  for (guint32 k = self->first_slot[buffer]; k < self->first_slot[buffer + 1]; k++)
    self->addresses[self->slots[k]] = address;
}

gpointer
ortrain_program_get_address (const OrtrainProgram *self, guint32 buffer)
{
  return self->places[self->values[buffer].root];
}

void
ortrain_program_set_arena (OrtrainProgram *self, gpointer arena)
{
  if (self->arena == arena)
    return;
  self->arena = arena;
  for (guint32 i = 0; i < self->n_values; i++)
    {
      const OrtrainPlanValue *value = &self->values[i];
      if (value->root == i && value->region == ORTRAIN_REGION_ARENA && value->bytes > 0)
        ortrain_program_set_address (self, i, (char *) arena + value->offset);
    }
  for (guint s = 0; s < self->n_steps; s++)
    if (self->steps[s].workspace != G_MAXUINT32)
      self->calls[s].workspace = self->places[self->steps[s].workspace];
}

gboolean
ortrain_program_run (OrtrainProgram *self, guint first, guint end, GCancellable *cancellable, gint64 *item,
                     GError **error)
{
  OrtrainExecution *execution = self->execution;
  OrtrainFault fault;
  if (item != NULL)
    *item = -1;
  ortrain_mapped_file_guard_thread ();
  if (!ortrain_execution_submit (execution, self->calls + first, end - first, cancellable, error))
    {
      ortrain_execution_wait (execution, NULL, NULL);
      return FALSE;
    }
  if (!ortrain_execution_wait (execution, &fault, error))
    return FALSE;
  if (G_LIKELY (fault.code == ORTRAIN_FAULT_NONE))
    return TRUE;
  ortrain_evaluate_set_fault (error, self->steps[fault.step].node, &fault, item);
  return FALSE;
}
