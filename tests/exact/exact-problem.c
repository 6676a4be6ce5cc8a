/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "exact-problem.h"

#include "ops/ortrain-op-private.h"
#include "plan/ortrain-memory-plan-private.h"
#include "recompute/ortrain-recompute-private.h"

#include <string.h>

#define NONE -1

typedef struct
{
  ExactProblem *problem;
  OrtrainMemoryPlan *plan;
  gint *content; /* [n_values]: the content that lies in a root now, or NONE */
  gint *writer;  /* [n_values]: the node that wrote a root last, or NONE */
  guint64 least;
} Reading;

static guint64
align (guint64 bytes)
{
  return (bytes + ORTRAIN_DEVICE_ALIGNMENT - 1) / ORTRAIN_DEVICE_ALIGNMENT * ORTRAIN_DEVICE_ALIGNMENT;
}

static guint64
bit (gint k)
{
  return (guint64) 1 << k;
}

double
exact_measure_work (OrtrainMemoryPlan *plan, const OrtrainProvider *provider)
{
  double work = 0;
  for (guint s = 0; s < plan->first_update; s++)
    work += ortrain_provider_weigh_work (provider, ortrain_plan_step_get_dtype (&plan->steps[s]), plan->steps[s].flops,
                                         plan->steps[s].bytes_moved);
  return work;
}

static void
read_inputs (Reading *self, const OrtrainPlanStep *step, ExactRun *run)
{
  for (guint i = 0; i < step->n_inputs; i++)
    {
      const guint32 buffer = self->plan->operands[step->first_operand + i];
      if (buffer == G_MAXUINT32)
        continue;
      const guint32 root = self->plan->values[buffer].root;
      if (self->content[root] != NONE)
        run->reads |= bit (self->content[root]);
      else if (self->writer[root] != NONE)
        run->after |= bit (self->writer[root]);
    }
}

/* The contents that the kernel may write an output over: all operands that show them are allowed. */
static guint64
find_over (const Reading *self, const OrtrainPlanStep *step, guint output, guint64 bytes)
{
  const guint64 allowed = self->plan->inplace[step->first_operand + step->n_inputs + output];
  guint64 over = 0, others = 0;
  for (guint i = 0; i < step->n_inputs; i++)
    {
      const guint32 buffer = self->plan->operands[step->first_operand + i];
      const gint content = buffer != G_MAXUINT32 ? self->content[self->plan->values[buffer].root] : NONE;
      if (content == NONE)
        continue;
      if (i < 64 && (allowed >> i & 1) && align (self->plan->values[buffer].bytes) == bytes)
        over |= bit (content);
      else
        others |= bit (content);
    }
  return over & ~others;
}

/* FALSE: there are too many contents. */
static gboolean
read_outputs (Reading *self, const OrtrainPlanStep *step, gint number, ExactNode *node, ExactRun *run)
{
  ExactProblem *problem = self->problem;
  gint made[ORTRAIN_KERNEL_MAX_OUTPUTS];
  for (guint k = 0; k < step->n_outputs; k++)
    {
      const guint32 buffer = self->plan->operands[step->first_operand + step->n_inputs + k];
      made[k] = NONE;
      if (buffer == G_MAXUINT32)
        continue;
      const OrtrainPlanValue *value = &self->plan->values[buffer];
      const gboolean adds = step->accumulates >> k & 1;
      const guint64 bytes = align (value->bytes);
      if (((step->accumulates | step->gradients) >> k & 1) && self->writer[value->root] != NONE)
        run->after |= bit (self->writer[value->root]);
      if (value->region != ORTRAIN_REGION_ARENA || bytes < self->least)
        {
          node->is_forward_result |= value->region != ORTRAIN_REGION_ARENA && value->region != ORTRAIN_REGION_CONSTANT;
          continue;
        }
      if (problem->n_contents == EXACT_MAX || run->n_outputs == G_N_ELEMENTS (run->outputs))
        return FALSE;
      made[k] = (gint) problem->n_contents;
      problem->contents[problem->n_contents++] = (ExactContent){ bytes, (guint) number, value->name };
      run->makes |= bit (made[k]);
      if (adds)
        {
          if (run->adds != NONE || self->content[value->root] == NONE)
            return FALSE;
          run->adds = (gint8) made[k];
          run->added_to = (gint8) self->content[value->root];
          continue;
        }
      run->over[run->n_outputs] = find_over (self, step, k, bytes);
      run->outputs[run->n_outputs++] = (gint8) made[k];
    }
  for (guint k = 0; k < step->n_outputs; k++)
    {
      const guint32 buffer = self->plan->operands[step->first_operand + step->n_inputs + k];
      if (buffer == G_MAXUINT32)
        continue;
      self->content[self->plan->values[buffer].root] = made[k];
      self->writer[self->plan->values[buffer].root] = number;
    }
  return TRUE;
}

static void
read_costs (ExactRun *run, const OrtrainMemoryPlan *plan, const OrtrainPlanStep *step, const OrtrainProvider *provider)
{
  run->workspace = step->workspace != G_MAXUINT32 ? align (plan->values[step->workspace].bytes) : 0;
  run->work =
      ortrain_provider_weigh_work (provider, ortrain_plan_step_get_dtype (step), step->flops, step->bytes_moved);
}

/* ---- Nodes that run again with some of their outputs ---- */

/* Copies of a node of the graph, one for each set of outputs. */
typedef struct
{
  OrtrainNode *node;
  guint number; /* of the first run */
  guint set;    /* of outputs */
} Copy;

static guint
list_outputs (const OrtrainNode *node)
{
  guint set = 0;
  for (guint k = 0; k < MIN (node->outputs->len, 16); k++)
    set |= node->outputs->pdata[k] != NULL ? 1u << k : 0;
  return set;
}

static OrtrainNode *
copy_node (OrtrainGraph *graph, OrtrainNode *node, guint set)
{
  OrtrainNode *copy = ortrain_recompute_copy_node (graph, node);
  for (guint i = 0; i < node->inputs->len; i++)
    if (ortrain_recompute_needs_input (node, i))
      ortrain_node_set_input (copy, i, node->inputs->pdata[i]);
  for (guint k = 0; k < copy->outputs->len; k++)
    if (copy->outputs->pdata[k] != NULL && (set >> k & 1))
      ortrain_graph_mark_output (graph, copy->outputs->pdata[k], TRUE);
  return copy;
}

/* Runs that make the same are one, with the least work: outputs that take next to nothing may be left out. */
static void
add_run (ExactProblem *self, const ExactRun *run)
{
  for (guint r = 0; r < self->n_runs; r++)
    {
      ExactRun *other = &self->runs[r];
      if (other->node != run->node || other->is_again != run->is_again || other->makes != run->makes)
        continue;
      if (run->work < other->work)
        *other = *run;
      return;
    }
  if (self->n_runs < EXACT_MAX_RUNS)
    self->runs[self->n_runs++] = *run;
}

/* Kernels do less for fewer outputs: their answers about that are read off a plan of copies, all of whose results
 * stay. */
static gboolean
add_runs (ExactProblem *self, const OrtrainMemoryPlan *plan, OrtrainGraph *graph, const OrtrainPlanRequest *request)
{
  g_autoptr (GError) error = NULL;
  g_autoptr (OrtrainGraph) clone = ortrain_graph_clone (graph);
  g_autoptr (GArray) copies = g_array_new (FALSE, FALSE, sizeof (Copy));
  OrtrainPlanRequest of_clone = *request;
  of_clone.consumes_graph = TRUE;
  self->n_runs = self->n_nodes;
  for (guint t = 0; t < self->n_nodes; t++)
    {
      const OrtrainNode *node = plan->steps[t].node;
      if (!self->nodes[t].may_run_again || self->runs[t].n_outputs == 0)
        continue;
      const guint all = list_outputs (node);
      if (self->nodes[t].is_backward || ((all & (all - 1)) == 0 && node->op->statistic_inputs == 0))
        {
          ExactRun run = self->runs[t];
          run.is_again = TRUE;
          add_run (self, &run);
          continue;
        }
      const OrtrainValue *first =
          ortrain_graph_find_value (clone, ortrain_node_output (node, (guint) __builtin_ctz (all))->name);
      if (first == NULL || first->producer == NULL || all > 15)
        return FALSE;
      for (guint set = 1; set <= all; set++)
        if ((set & ~all) == 0)
          {
            const Copy copy = { copy_node (clone, first->producer, set), t, set };
            g_array_append_val (copies, copy);
          }
    }
  if (copies->len == 0)
    return TRUE;
  g_assert_true (ortrain_graph_sort (clone, &error));
  g_autoptr (OrtrainMemoryPlan) costs = ortrain_planner_plan (clone, &of_clone, &error);
  g_assert_no_error (error);
  for (guint c = 0; c < copies->len; c++)
    {
      const Copy *copy = &g_array_index (copies, Copy, c);
      const OrtrainPlanStep *step = NULL;
      for (guint s = 0; s < costs->n_steps && step == NULL; s++)
        step = costs->steps[s].node == copy->node ? &costs->steps[s] : NULL;
      if (step == NULL)
        return FALSE;
      const ExactRun *whole = &self->runs[copy->number];
      ExactRun run = *whole;
      run.is_again = TRUE;
      run.n_outputs = 0;
      run.makes = 0;
      read_costs (&run, costs, step, request->provider);
      /* outputs that count are in the same order as those of the first run, and some of all may not count */
      for (guint k = 0; k < whole->n_outputs; k++)
        {
          const guint32 first_output = plan->steps[copy->number].first_operand + plan->steps[copy->number].n_inputs;
          for (guint o = 0; o < plan->steps[copy->number].n_outputs; o++)
            if (costs->operands[step->first_operand + step->n_inputs + o] != G_MAXUINT32 &&
                plan->operands[first_output + o] != G_MAXUINT32 &&
                g_str_equal (plan->values[plan->operands[first_output + o]].name,
                             self->contents[whole->outputs[k]].name))
              {
                run.makes |= bit (whole->outputs[k]);
                run.over[run.n_outputs] = whole->over[k];
                run.outputs[run.n_outputs++] = whole->outputs[k];
              }
        }
      if (run.makes == 0)
        continue;
      add_run (self, &run);
      /* the forward pass leaves out outputs that nobody reads, too; running statistics are not left out */
      run.is_again = FALSE;
      if (copy->node->op->statistic_inputs == 0)
        add_run (self, &run);
    }
  return self->n_runs < EXACT_MAX_RUNS;
}

gboolean
exact_problem_read (ExactProblem *self, OrtrainMemoryPlan *plan, OrtrainGraph *graph, const OrtrainPlanRequest *request)
{
  const guint n = plan->first_update;
  *self = (ExactProblem){ .n_nodes = n };
  if (n > EXACT_MAX)
    return FALSE;
  g_autofree gint *content = g_new (gint, plan->n_values + 1), *writer = g_new (gint, plan->n_values + 1);
  Reading reading = { self, plan, content, writer, plan->arena_bytes / EXACT_LEAST_PART };
  for (guint v = 0; v < plan->n_values; v++)
    content[v] = writer[v] = NONE;
  for (guint s = 0; s < n; s++)
    {
      const OrtrainPlanStep *step = &plan->steps[s];
      ExactNode *node = &self->nodes[s];
      ExactRun *run = &self->runs[s];
      run->node = s;
      run->added_to = run->adds = NONE;
      node->is_backward = step->phase == ORTRAIN_PHASE_BACKWARD;
      node->may_run_again = step->node->recomputes != NULL || ortrain_recompute_may_run_again (step->node);
      node->name = *step->node->name != '\0' ? step->node->name : step->node->op_type;
      read_costs (run, plan, step, request->provider);
      read_inputs (&reading, step, run);
      if (!read_outputs (&reading, step, (gint) s, node, run))
        return FALSE;
      node->is_forward_result = !node->is_backward && (node->is_forward_result || !node->may_run_again);
      if (node->is_forward_result)
        self->begins |= bit ((gint) s);
    }
  for (guint v = 0; v < plan->n_values; v++)
    if (plan->values[v].value != NULL && plan->values[v].value->is_output && content[plan->values[v].root] != NONE)
      self->stays |= bit (content[plan->values[v].root]);
  g_autofree gsize *live = ortrain_memory_plan_measure_steps (plan);
  for (guint s = n; s < plan->n_steps; s++)
    {
      self->floor = MAX (self->floor, live[s]);
      ExactRun update = { 0 };
      read_inputs (&reading, &plan->steps[s], &update);
      self->stays |= update.reads;
    }
  if (!add_runs (self, plan, graph, request))
    return FALSE;
  for (guint t = 0; t < n; t++)
    {
      double least = self->runs[t].work;
      for (guint r = n; r < self->n_runs; r++)
        if (self->runs[r].node == t && !self->runs[r].is_again)
          least = MIN (least, self->runs[r].work);
      self->work += least;
      for (guint r = 0; r < self->n_runs; r++)
        if (self->runs[r].node == t && !self->runs[r].is_again)
          self->runs[r].work -= least;
    }
  return TRUE;
}
