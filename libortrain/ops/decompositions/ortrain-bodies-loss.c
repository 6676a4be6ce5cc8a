/* SPDX-License-Identifier: LGPL-2.1-or-later */
#include "ops/decompositions/ortrain-body-private.h"

/* Bodies of losses over classes, of the gradients of softmax, and of dropout. */

#define OP1(op, a) ortrain_body_op (self, op, a, NULL, NULL)
#define OP2(op, a, b) ortrain_body_op (self, op, a, b, NULL)
#define OP3(op, a, b, c) ortrain_body_op (self, op, a, b, c)
#define ADD(a, b) OP2 ("Add", a, b)
#define SUB(a, b) OP2 ("Sub", a, b)
#define MUL(a, b) OP2 ("Mul", a, b)
#define DIV(a, b) OP2 ("Div", a, b)
#define WHERE(condition, a, b) OP3 ("Where", condition, a, b)
#define NUMBER(like, number) ortrain_body_number (self, like, number)
#define SUM(x, axes) ortrain_body_reduce (self, "ReduceSum", x, axes, TRUE)

gboolean
ortrain_body_softmax_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *y = ortrain_body_input (self, 1);
  const guint32 axis = 1u << ortrain_body_axis (self, "axis", -1, y->rank);
  ortrain_body_set (self, 0, MUL (y, SUB (dy, SUM (MUL (dy, y), axis))));
  return TRUE;
}

gboolean
ortrain_body_log_softmax_grad (OrtrainBody *self)
{
  OrtrainValue *dy = ortrain_body_input (self, 0), *y = ortrain_body_input (self, 1);
  const guint32 axis = 1u << ortrain_body_axis (self, "axis", -1, y->rank);
  ortrain_body_set (self, 0, SUB (dy, MUL (OP1 ("Exp", y), SUM (dy, axis))));
  return TRUE;
}

/* Dropout's own node, of dy: its bits depend on the number of the node that dropped in the forward pass. */
gboolean
ortrain_body_dropout_grad (OrtrainBody *self)
{
  OrtrainValue *inputs[] = { ortrain_node_input (self->node, 0), ortrain_node_input (self->node, 1),
                             ortrain_node_input (self->node, 2) };
  OrtrainAttributes *attributes = ortrain_attributes_copy (self->node->attributes);
  ortrain_attributes_remove (attributes, "forward_node");
  OrtrainNode *node = ortrain_body_node (self, "Dropout", inputs, 3, 1, attributes);
  if (node == NULL)
    return TRUE;
  node->number = (guint) ortrain_body_int (self, "forward_node", node->number);
  ortrain_body_set (self, 0, ortrain_node_output (node, 0));
  return TRUE;
}

OrtrainValue *
ortrain_body_drop (OrtrainBody *self, OrtrainValue *x, guint ratio)
{
  OrtrainValue *inputs[] = { x, ortrain_body_input (self, ratio), ortrain_body_input (self, ratio + 1) };
  OrtrainNode *node = inputs[2] != NULL ? ortrain_body_node (self, "Dropout", inputs, 3, 1, NULL) : NULL;
  if (node == NULL)
    return x;
  node->number = (guint) ortrain_body_int (self, "forward_node", self->node->number);
  return ortrain_node_output (node, 0);
}

/* The common operands of losses. Each value has the rank of the scores: positions have one class, numbers for classes
 * one position. */
typedef struct
{
  gint axis, rank;
  gint64 n;              /* classes */
  OrtrainValue *counts;  /* bool, by position; NULL: all do */
  OrtrainValue *labels;  /* int64, by position */
  OrtrainValue *target;  /* bool: the class is the position's own */
  OrtrainValue *weights; /* by class, or NULL */
  OrtrainValue *weight;  /* by position, 0 where it does not count */
  const char *reduction;
} Classes;

static OrtrainValue *
only_counted (OrtrainBody *self, const Classes *classes, OrtrainValue *x)
{
  return classes->counts != NULL ? WHERE (classes->counts, x, NUMBER (x, 0)) : x;
}

/* dims: of the scores; like: of their type */
static Classes
read_classes (OrtrainBody *self, const gint64 *dims, gint rank, gint axis, OrtrainValue *labels, OrtrainValue *weights,
              const OrtrainValue *like)
{
  Classes classes = { .axis = axis, .rank = rank, .n = dims[axis] };
  gint64 positions[ORTRAIN_MAX_RANK], each[ORTRAIN_MAX_RANK];
  for (gint i = 0; i < rank; i++)
    {
      positions[i] = i == axis ? 1 : dims[i];
      each[i] = i == axis ? dims[i] : 1;
    }
  classes.reduction = ortrain_attributes_get_string (self->node->attributes, "reduction", "mean");
  labels = ortrain_body_reshape (self, ortrain_body_cast (self, labels, ORTRAIN_DTYPE_INT64), positions, rank);
  if (ortrain_attributes_has (self->node->attributes, "ignore_index"))
    {
      OrtrainValue *ignored = ortrain_graph_const_int (self->graph, ortrain_body_int (self, "ignore_index", 0));
      classes.counts = OP1 ("Not", OP2 ("Equal", labels, ignored));
    }
  classes.labels = labels;
  classes.target = OP2 ("Equal", labels, ortrain_body_count (self, each, rank));
  if (classes.counts != NULL) /* the label that is ignored may be a class */
    classes.target = OP2 ("And", classes.target, classes.counts);
  if (weights != NULL)
    {
      classes.weights = ortrain_body_reshape (self, weights, each, rank);
      classes.weight = SUM (WHERE (classes.target, classes.weights, NUMBER (weights, 0)), 1u << axis);
    }
  else
    classes.weight = only_counted (self, &classes, ortrain_body_fill (self, like, 1, positions, rank));
  return classes;
}

static gboolean
has_reduction (const Classes *classes, const char *reduction)
{
  return g_str_equal (classes->reduction, reduction);
}

static OrtrainValue *
sum_all (OrtrainBody *self, const Classes *classes, OrtrainValue *x)
{
  return SUM (x, (1u << classes->rank) - 1u);
}

/* The divisor of a mean over positions of that weight. Where no position counts, the mean and its gradient are 0. */
static OrtrainValue *
get_divisor (OrtrainBody *self, OrtrainValue *total)
{
  return WHERE (OP2 ("Equal", total, NUMBER (total, 0)), NUMBER (total, (double) INFINITY), total);
}

/* The score of each position's own class. A label that is not a class, or is negative, is an index out of range. */
static OrtrainValue *
get_own_scores (OrtrainBody *self, const Classes *classes, OrtrainValue *x)
{
  OrtrainValue *zero = ortrain_graph_const_int (self->graph, 0), *labels = classes->labels;
  if (classes->counts != NULL)
    labels = WHERE (classes->counts, labels, zero);
  labels = WHERE (OP2 ("Less", labels, zero), ortrain_graph_const_int (self->graph, classes->n), labels);
  return ortrain_body_op_with (self, "GatherElements", ortrain_body_attribute ("axis", classes->axis), x, labels, NULL);
}

/* The sum of the weights of all classes, and the weight of each, for label smoothing. */
static OrtrainValue *
get_weight_sum (OrtrainBody *self, const Classes *classes, const OrtrainValue *x)
{
  return classes->weights != NULL ? SUM (classes->weights, 1u << classes->axis) : NUMBER (x, (double) classes->n);
}

/* The loss of all positions, reduced. With label smoothing s over n classes of weights w, whose sum is W:
 * (1 - s)·w_t·(lse - x_t) + s/n·(W·lse - Σ w·x) */
static OrtrainValue *
compute_loss (OrtrainBody *self, const Classes *classes, OrtrainValue *x, OrtrainValue *lse, OrtrainValue *total)
{
  const double smoothing = ortrain_body_float (self, "label_smoothing", 0);
  OrtrainValue *own = get_own_scores (self, classes, x);
  OrtrainValue *loss = MUL (MUL (classes->weight, NUMBER (x, 1 - smoothing)), SUB (lse, own));
  if (smoothing != 0)
    {
      OrtrainValue *scores = SUM (classes->weights != NULL ? MUL (x, classes->weights) : x, 1u << classes->axis);
      OrtrainValue *rest = SUB (MUL (lse, get_weight_sum (self, classes, x)), scores);
      loss = ADD (loss, MUL (NUMBER (x, smoothing / (double) classes->n), rest));
    }
  loss = only_counted (self, classes, loss);
  if (has_reduction (classes, "none"))
    return loss;
  loss = sum_all (self, classes, loss);
  return has_reduction (classes, "sum") ? loss : DIV (loss, get_divisor (self, total));
}

/* (scores, target[, weights]) → (loss, log Σ e^x, total weight) */
gboolean
ortrain_body_cross_entropy (OrtrainBody *self)
{
  OrtrainValue *x = ortrain_body_input (self, 0), *weights = ortrain_body_input (self, 2);
  gint64 dims[ORTRAIN_MAX_RANK];
  const gint axis = ortrain_body_axis (self, "axis", -1, x->rank);
  const Classes classes =
      read_classes (self, ortrain_body_dims (x, dims), x->rank, axis, ortrain_body_input (self, 1), weights, x);
  OrtrainValue *lse = ortrain_body_reduce (self, "ReduceLogSumExp", x, 1u << axis, TRUE);
  OrtrainValue *total = sum_all (self, &classes, classes.weight);
  ortrain_body_set (self, 0, compute_loss (self, &classes, x, lse, total));
  ortrain_body_set (self, 1, lse);
  ortrain_body_set (self, 2, total);
  return TRUE;
}

gboolean
ortrain_body_restore_cross_entropy (OrtrainBody *self)
{
  OrtrainAttributes *attributes = ortrain_attributes_new ();
  if (ortrain_body_int (self, "axis", 1) != 1 || ortrain_body_float (self, "label_smoothing", 0) != 0)
    {
      ortrain_attributes_free (attributes);
      return FALSE;
    }
  ortrain_attributes_set_string (attributes, "reduction",
                                 ortrain_attributes_get_string (self->node->attributes, "reduction", "mean"));
  if (ortrain_attributes_has (self->node->attributes, "ignore_index"))
    ortrain_attributes_set_int (attributes, "ignore_index", ortrain_body_int (self, "ignore_index", 0));
  return ortrain_body_as (self, "SoftmaxCrossEntropyLoss", 1, attributes);
}

/* dloss as a factor for each position. total: of the weights, where a mean was taken. */
static OrtrainValue *
factor (OrtrainBody *self, const Classes *classes, OrtrainValue *dloss, OrtrainValue *total, const gint64 *dims)
{
  gint64 positions[ORTRAIN_MAX_RANK];
  if (has_reduction (classes, "none"))
    {
      for (gint i = 0; i < classes->rank; i++)
        positions[i] = i == classes->axis ? 1 : dims[i];
      return ortrain_body_reshape (self, dloss, positions, classes->rank);
    }
  return has_reduction (classes, "sum") ? dloss : DIV (dloss, get_divisor (self, total));
}

/* g·[(1 - s)·w_t·(p - target) + s/n·(W·p - w)], where p is e^(x - lse) */
static OrtrainValue *
compute_gradient (OrtrainBody *self, const Classes *classes, OrtrainValue *x, OrtrainValue *lse, OrtrainValue *g)
{
  const double smoothing = ortrain_body_float (self, "label_smoothing", 0);
  OrtrainValue *p = OP1 ("Exp", SUB (x, lse));
  OrtrainValue *target = ortrain_body_cast (self, classes->target, x->dtype);
  OrtrainValue *dx = MUL (MUL (classes->weight, NUMBER (x, 1 - smoothing)), SUB (p, target));
  if (smoothing != 0)
    {
      OrtrainValue *each = classes->weights != NULL ? classes->weights : NUMBER (x, 1);
      dx = ADD (dx, MUL (NUMBER (x, smoothing / (double) classes->n),
                         SUB (MUL (p, get_weight_sum (self, classes, x)), each)));
    }
  return MUL (only_counted (self, classes, dx), g);
}

/* (dloss, scores, target, lse, total weight[, weights]) → dscores */
gboolean
ortrain_body_cross_entropy_grad (OrtrainBody *self)
{
  OrtrainValue *dloss = ortrain_body_input (self, 0), *x = ortrain_body_input (self, 1);
  gint64 dims[ORTRAIN_MAX_RANK], positions[ORTRAIN_MAX_RANK];
  const gint axis = ortrain_body_axis (self, "axis", -1, x->rank);
  const Classes classes = read_classes (self, ortrain_body_dims (x, dims), x->rank, axis, ortrain_body_input (self, 2),
                                        ortrain_body_input (self, 5), x);
  for (gint i = 0; i < x->rank; i++)
    positions[i] = i == axis ? 1 : dims[i];
  OrtrainValue *lse = ortrain_body_reshape (self, ortrain_body_input (self, 3), positions, x->rank);
  OrtrainValue *g = factor (self, &classes, dloss, ortrain_body_input (self, 4), dims);
  ortrain_body_set (self, 0, compute_gradient (self, &classes, x, lse, g));
  return TRUE;
}

/* Rounded to the type of the rows that they are computed from. */
static OrtrainValue *
round_scores (OrtrainBody *self, OrtrainValue *x)
{
  const OrtrainDType dtype = ortrain_node_input (self->node, 0)->dtype;
  return x != NULL ? ortrain_body_cast (self, ortrain_body_cast (self, x, dtype), x->dtype) : NULL;
}

/* (x, weight, target[, dloss[, bias[, class weights]]]) → (loss[, dx[, dweight[, dbias]]]), by all scores at once */
gboolean
ortrain_body_linear_cross_entropy (OrtrainBody *self)
{
  OrtrainValue *x = ortrain_body_input (self, 0), *weight = ortrain_body_input (self, 1);
  OrtrainValue *dloss = ortrain_body_input (self, 3), *bias = ortrain_body_input (self, 4);
  static const gint64 swap[] = { 1, 0 };
  gint64 dims[ORTRAIN_MAX_RANK], flat[2] = { 1, 0 };
  ortrain_body_dims (x, dims);
  for (gint i = 0; i + 1 < x->rank; i++)
    flat[0] *= dims[i];
  flat[1] = dims[x->rank - 1];
  x = ortrain_body_reshape (self, x, flat, 2);
  OrtrainValue *turned = ortrain_body_transpose (self, weight, swap, 2);
  const gboolean is_turned = ortrain_body_int (self, "transB", 0) != 0;
  OrtrainValue *scores = OP2 ("MatMul", x, is_turned ? turned : weight);
  if (bias != NULL)
    scores = ADD (scores, bias);
  scores = round_scores (self, scores);
  const Classes classes = read_classes (self, ortrain_body_dims (scores, dims), 2, 1, ortrain_body_input (self, 2),
                                        ortrain_body_input (self, 5), scores);
  OrtrainValue *lse = ortrain_body_reduce (self, "ReduceLogSumExp", scores, 1u << 1, TRUE);
  OrtrainValue *total = sum_all (self, &classes, classes.weight);
  ortrain_body_set (self, 0, compute_loss (self, &classes, scores, lse, total));
  if (dloss == NULL)
    return TRUE;
  OrtrainValue *g = factor (self, &classes, dloss, total, dims);
  OrtrainValue *d = round_scores (self, compute_gradient (self, &classes, scores, lse, g));
  if (ortrain_body_wants (self, 1))
    ortrain_body_set (self, 1, OP2 ("MatMul", d, is_turned ? weight : turned));
  if (ortrain_body_wants (self, 2))
    {
      const gboolean swapped = ortrain_body_int (self, "transW", 0) != 0;
      OrtrainValue *left = ortrain_body_transpose (self, swapped ? d : x, swap, 2);
      ortrain_body_set (self, 2, OP2 ("MatMul", left, swapped ? x : d));
    }
  if (ortrain_body_wants (self, 3))
    ortrain_body_set (self, 3, ortrain_body_reduce (self, "ReduceSum", d, 1u << 0, FALSE));
  return TRUE;
}

/* (dloss, target, shape of the scores[, weights]) → -g·w_t·target, classes on axis 1 */
gboolean
ortrain_body_nll_grad (OrtrainBody *self)
{
  OrtrainValue *dloss = ortrain_body_input (self, 0);
  const OrtrainValue *dx = ortrain_node_output (self->node, 0);
  gint64 dims[ORTRAIN_MAX_RANK];
  ortrain_body_dims (dx, dims);
  const Classes classes =
      read_classes (self, dims, dx->rank, 1, ortrain_body_input (self, 1), ortrain_body_input (self, 3), dloss);
  OrtrainValue *g = factor (self, &classes, dloss, sum_all (self, &classes, classes.weight), dims);
  OrtrainValue *own = WHERE (classes.target, OP1 ("Neg", classes.weight), NUMBER (dloss, 0));
  ortrain_body_set (self, 0, MUL (own, g));
  return TRUE;
}
